// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "runtime/ir/attributes.h"
#include "runtime/ir/shape.h"

namespace plimsoll::planner {

enum class CodecKind : std::uint8_t {
  none,
  bit_mask,      // pred: one bit per element
  compare_mask,  // what is only compared with a constant: one bit, the comparison's outcome;
                 // decodes to a representative value with the same outcome
  narrow,        // exact: every value is representable in `stored`
  bfloat16,      // lossy: f32 or f64 rounded to bf16, relative error <= 2^-8
};

// How a value is stored while nobody reads it. Elements are encoded one by one, in order.
struct Codec {
  CodecKind kind = CodecKind::none;
  ir::DType stored = ir::DType::pred;  // narrow
  ir::ComparisonDirection direction =
      ir::ComparisonDirection::gt;  // compare_mask: value <direction>
  double constant = 0;              //   constant
  bool lossless() const { return kind != CodecKind::bfloat16; }
  bool operator==(const Codec&) const = default;
};

// Bytes of the encoded form of a value of `shape` (an array), not rounded up.
std::int64_t encoded_bytes(const Codec& codec, const ir::Shape& shape);

// E.g. "bit-mask", "compare-mask(gt, 0)", "narrow(s8)".
std::string to_string(const Codec& codec);

}  // namespace plimsoll::planner
