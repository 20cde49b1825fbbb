// SPDX-License-Identifier: Apache-2.0
#include "kernels/codec.h"

#include <string>

#include "kernels/cpu/codecs/codecs.h"

namespace plimsoll::kernels {
namespace {

using Maker = CodecResult (*)(const planner::Codec&, const ir::Shape&);

// Null when there is no codec of the kind.
Maker maker_of(planner::CodecKind kind) {
  switch (kind) {
    case planner::CodecKind::none:
      return nullptr;
    case planner::CodecKind::bit_mask:
      return make_bit_mask;
    case planner::CodecKind::compare_mask:
      return make_compare_mask;
    case planner::CodecKind::narrow:
      return make_narrow;
    case planner::CodecKind::bfloat16:
      return make_bfloat16;
    case planner::CodecKind::float16:
      return make_float16;
    case planner::CodecKind::int8:
    case planner::CodecKind::int4:
      return make_blockwise;
  }
  return nullptr;
}

}  // namespace

CodecResult make_codec(const planner::Codec& codec, const ir::Shape& shape) {
  const Maker maker = maker_of(codec.kind);
  if (maker == nullptr || !shape.is_array()) return no_codec(codec, shape);
  return maker(codec, shape);
}

Status no_codec(const planner::Codec& codec, const ir::Shape& shape) {
  return invalid_argument("codec " + planner::to_string(codec) + ": not for " + shape.to_string());
}

}  // namespace plimsoll::kernels
