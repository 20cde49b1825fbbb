// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ir/attributes.h"
#include "runtime/ir/codec/value_facts.h"
#include "runtime/ir/shape.h"

namespace plimsoll::ir {

// One per row of codecs.def, and none.
//   bit_mask      pred: one bit per element
//   compare_mask  what is only compared with a constant: one bit, the comparison's outcome; decodes
//                 to a representative value with the same outcome
//   narrow        exact: every value is representable in `stored`
//   bfloat16, float16  lossy: f32 or f64 rounded to bf16, f16
//   int8, int4, int2  lossy: f32 or f64 as multiples of a scale per block, rounded at random
enum class CodecKind : std::uint8_t {
  none,
#define PLIMSOLL_CODEC(kind, ...) kind,
#include "runtime/ir/codec/codecs.def"
#undef PLIMSOLL_CODEC
};
// Values of CodecKind.
inline constexpr int kCodecKinds = 1
#define PLIMSOLL_CODEC(...) +1
#include "runtime/ir/codec/codecs.def"
#undef PLIMSOLL_CODEC
    ;

// Elements that share a scale in int8, int4 and int2.
inline constexpr std::int64_t kQuantizedBlock = 64;

// How a value is stored while nobody reads it. Elements are encoded one by one, in order.
struct Codec {
  CodecKind kind = CodecKind::none;
  DType stored = DType::pred;                               // narrow
  ComparisonDirection direction = ComparisonDirection::gt;  // compare_mask: value <direction>
  double constant = 0;                                      //   constant
  std::uint64_t seed = 0;  // seeded codecs: with an element's index, decides its rounding
  bool is_mask() const;
  bool lossless() const;
  // Whether what is decoded stands for the value wherever that is read: no compare_mask's does.
  bool gives_values() const;
  bool operator==(const Codec&) const = default;
};

// What lies in memory for an encoded value.
struct CodeLayout {
  enum class Form : std::uint8_t {
    bits,      // one bit per element, the first in the lowest bit of the first byte
    elements,  // each element as a number of another dtype
    blocks,    // a scale in two bytes per kQuantizedBlock elements, then `bits` for each element
  };
  Form form = Form::elements;
  bool by_codec = false;      // elements: their dtype is Codec::stored, else it is
  DType dtype = DType::pred;  //   this one
  int bits = 0;               // blocks
};

// Why a decoded value may stand for the encoded one.
struct CodecProof {
  enum class By : std::uint8_t { facts, readers, permission };
  By by = By::permission;
  // facts: the codec that gives every element of that dtype back, bit for bit, if this one does.
  std::optional<Codec> (*propose)(const ValueFacts& facts, DType dtype) = nullptr;
};

enum class CodecRounding : std::uint8_t { exact, nearest, seeded };

// A codec of the list and a dtype that it takes, to measure it with.
struct CodecSample {
  DType dtype = DType::f32;
  Codec codec;
};

// A row of codecs.def.
struct CodecInfo {
  CodecKind kind = CodecKind::none;
  std::string_view name;
  CodecProof proof;
  bool (*takes)(const Codec& codec, DType dtype) = nullptr;
  CodeLayout layout;
  CodecRounding rounding = CodecRounding::exact;
  // How far a decoded value may be from the encoded one, as a phrase; empty for lossless codecs.
  //   bfloat16, float16: rounded to nearest, ties to even.
  //   int8, int4, int2: less than the block's scale, the least bf16 number s such that 127 s (7 s,
  //   s) is at least the block's greatest magnitude m. So s < (1 + 2^-7) m / 127 (/ 7, / 1), where
  //   that is at least 2^-126; below, s is at most 2^-133 more than m / 127. Rounding is unbiased:
  //   the mean over all seeds is within 2^-16 s of the element.
  std::string_view error_bound;
  CodecSample sample;
};

// The row of a kind; of `none` one without a codec, which takes nothing.
const CodecInfo& codec_info(CodecKind kind);
// All rows, without `none`.
std::span<const CodecInfo> all_codecs();

// True when arrays of `shape` can be stored so.
bool suits(const Codec& codec, const Shape& shape);

// Of a codec whose layout is `elements`: their dtype.
DType stored_dtype(const Codec& codec);

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
std::int64_t encoded_bytes(const Codec& codec, const Shape& shape);

// Of a compare_mask: what it decodes to, where the comparison holds and where it doesn't. Where no
// value of the dtype has an outcome, none ever had it. Precondition: the constant is a number of
// the dtype.
struct Outcomes {
  double yes = 0, no = 0;
};
Outcomes representatives(const Codec& codec, DType dtype);

// True when `value` is one of the dtype's (not pred's) finite numbers; of 64-bit integers, of those
// up to 2^53.
bool is_number(DType dtype, double value);

// CodecInfo::error_bound.
std::string_view error_bound(CodecKind kind);

// The lossy codec of that name ("bfloat16", "float16", "int8", "int4", "int2"), if there is one.
std::optional<CodecKind> parse_lossy(std::string_view name);
std::string_view to_string(CodecKind kind);

// E.g. "bit-mask", "compare-mask(gt, 0)", "narrow(s8)", "int8(seed 3)".
std::string to_string(const Codec& codec);

}  // namespace plimsoll::ir
