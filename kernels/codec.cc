// SPDX-License-Identifier: Apache-2.0
#include "kernels/codec.h"

#include <string>

#include "kernels/cpu/codecs/codecs.h"
#include "runtime/base/index.h"

namespace plimsoll::kernels {
namespace {

using Maker = CodecResult (*)(const ir::Codec&, const ir::Shape&);

// By kind; there is none for `none`.
constexpr Maker kMakers[] = {
    nullptr,
#define PLIMSOLL_CODEC(kind, ...) make_##kind,
#include "runtime/ir/codec/codecs.def"
#undef PLIMSOLL_CODEC
};

}  // namespace

CodecResult make_codec(const ir::Codec& codec, const ir::Shape& shape) {
  const Maker maker = kMakers[at(codec.kind)];
  if (maker == nullptr || !shape.is_array()) return no_codec(codec, shape);
  return maker(codec, shape);
}

Status no_codec(const ir::Codec& codec, const ir::Shape& shape) {
  return invalid_argument("codec " + ir::to_string(codec) + ": not for " + shape.to_string());
}

}  // namespace plimsoll::kernels
