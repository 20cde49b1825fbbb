// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ir/attributes.h"
#include "runtime/ir/shape.h"

namespace plimsoll::planner {

enum class CodecKind : std::uint8_t {
  none,
  bit_mask,      // pred: one bit per element
  compare_mask,  // what is only compared with a constant: one bit, the comparison's outcome;
                 // decodes to a representative value with the same outcome
  narrow,        // exact: every value is representable in `stored`
  bfloat16,      // lossy: f32 or f64 rounded to bf16
  float16,       // lossy: f32 or f64 rounded to f16
  int8,          // lossy: f32 or f64 as multiples of a scale per block, rounded at random
  int4,          // the same with fewer multiples
};

// Elements that share a scale in int8 and int4.
inline constexpr std::int64_t kQuantizedBlock = 64;

// How a value is stored while nobody reads it. Elements are encoded one by one, in order.
struct Codec {
  CodecKind kind = CodecKind::none;
  ir::DType stored = ir::DType::pred;  // narrow
  ir::ComparisonDirection direction =
      ir::ComparisonDirection::gt;  // compare_mask: value <direction>
  double constant = 0;              //   constant
  std::uint64_t seed = 0;           // int8, int4: with an element's index, decides its rounding
  bool is_mask() const { return kind == CodecKind::bit_mask || kind == CodecKind::compare_mask; }
  bool lossless() const { return kind < CodecKind::bfloat16; }
  bool operator==(const Codec&) const = default;
};

// An operand of a step, by its number among all leaves of the operands, that is read as its codec
// has stored it.
struct EncodedInput {
  int input = 0;
  Codec codec;
  bool operator==(const EncodedInput&) const = default;
};

// A result leaf of a step that its codec stores as the step makes it.
struct EncodedOutput {
  int output = 0;
  Codec codec;
  bool operator==(const EncodedOutput&) const = default;
};

// What a step decodes and encodes itself.
struct Coding {
  std::vector<EncodedInput> inputs;
  std::vector<EncodedOutput> outputs;
  bool empty() const { return inputs.empty() && outputs.empty(); }
  bool operator==(const Coding&) const = default;
};

// Bytes of the encoded form of a value of `shape` (an array), not rounded up.
std::int64_t encoded_bytes(const Codec& codec, const ir::Shape& shape);

// Of a compare_mask: what it decodes to, where the comparison holds and where it doesn't. Where no
// value of the dtype has an outcome, none ever had it. Precondition: the constant is a number of
// the dtype.
struct Outcomes {
  double yes = 0, no = 0;
};
Outcomes representatives(const Codec& codec, ir::DType dtype);

// True when `value` is one of the dtype's (not pred's) finite numbers; of 64-bit integers, of those
// up to 2^53.
bool is_number(ir::DType dtype, double value);

// How far a decoded value may be from the encoded one, as a phrase; empty for lossless codecs.
//   bfloat16, float16: rounded to nearest, ties to even.
//   int8, int4: less than the block's scale, the least bf16 number s such that 127 s (7 s) is at
//   least the block's greatest magnitude m. So s < (1 + 2^-7) m / 127 (/ 7), where that is at
//   least 2^-126; below, s is at most 2^-133 more than m / 127. Rounding is unbiased: the mean over
//   all seeds is within 2^-16 s of the element.
std::string_view error_bound(CodecKind kind);

// The lossy codec of that name ("bfloat16", "float16", "int8", "int4"), if there is one.
std::optional<CodecKind> parse_lossy(std::string_view name);
std::string_view to_string(CodecKind kind);

// E.g. "bit-mask", "compare-mask(gt, 0)", "narrow(s8)", "int8(seed 3)".
std::string to_string(const Codec& codec);

}  // namespace plimsoll::planner
