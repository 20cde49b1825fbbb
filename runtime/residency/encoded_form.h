// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/ir/codec/codec.h"
#include "runtime/ir/shape.h"
#include "runtime/program/program.h"

namespace plimsoll::trace {

// How a value can be kept in fewer bytes of device memory while nobody reads it. Immutable.
struct EncodedForm {
  ir::Codec codec;
  ir::Shape shape;
  std::int64_t bytes = 0;  // aligned; less than the value's
  double encode_seconds = 0, decode_seconds = 0;
  device::KernelProvider* provider = nullptr;  // of its kernels
};

// By result leaf of a program; null where there is none.
using EncodedForms = std::vector<std::shared_ptr<const EncodedForm>>;

// An exact one if what is known of the value allows it, else by the lossy codec unless that is
// `none`.
EncodedForms encoded_forms(const executor::Program& program, ir::CodecKind lossy);

}  // namespace plimsoll::trace
