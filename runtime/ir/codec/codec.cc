// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/codec/codec.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "runtime/ir/literal.h"

namespace plimsoll::planner {
namespace {

std::string_view direction_text(ir::ComparisonDirection direction) {
  constexpr std::array<std::string_view, 6> kText{"eq", "ne", "ge", "gt", "le", "lt"};
  return kText[static_cast<std::size_t>(direction)];
}

bool holds(ir::ComparisonDirection direction, double a, double b) {
  switch (direction) {
    case ir::ComparisonDirection::eq:
      return a == b;
    case ir::ComparisonDirection::ne:
      return a != b;
    case ir::ComparisonDirection::ge:
      return a >= b;
    case ir::ComparisonDirection::gt:
      return a > b;
    case ir::ComparisonDirection::le:
      return a <= b;
    case ir::ComparisonDirection::lt:
      return a < b;
  }
  __builtin_unreachable();
}

}  // namespace

bool is_number(ir::DType dtype, double value) {
  ir::Literal literal(ir::Shape(dtype, {}));
  if (!std::isfinite(value)) return false;
  if (!ir::is_floating(dtype)) {
    if (value != std::floor(value) || std::abs(value) > 0x1p53) return false;
    if (value < 0 && ir::dtype_class(dtype) != ir::DTypeClass::signed_int) return false;
    const int bits =
        ir::dtype_bytes(dtype) * 8 - (ir::dtype_class(dtype) == ir::DTypeClass::signed_int ? 1 : 0);
    if (value >= std::ldexp(1.0, bits)) return false;
  }
  literal.set(0, value);
  return literal.at(0) == value;
}

Outcomes representatives(const Codec& codec, ir::DType dtype) {
  const double c = codec.constant, infinity = std::numeric_limits<double>::infinity();
  std::array<double, 5> candidates{c, c + 1, c - 1, c + std::abs(c), c - std::abs(c)};
  if (ir::is_floating(dtype)) {
    candidates = {c, infinity, -infinity, std::numeric_limits<double>::quiet_NaN(), c};
  }
  const auto pick = [&](bool wanted) {
    for (const double candidate : candidates) {
      if (!ir::is_floating(dtype) && !is_number(dtype, candidate)) continue;
      if (holds(codec.direction, candidate, c) == wanted) return candidate;
    }
    return c;
  };
  return {pick(true), pick(false)};
}

std::int64_t encoded_bytes(const Codec& codec, const ir::Shape& shape) {
  const std::int64_t elements = shape.element_count();
  switch (codec.kind) {
    case CodecKind::none:
      return shape.byte_size();
    case CodecKind::bit_mask:
    case CodecKind::compare_mask:
      return (elements + 7) / 8;
    case CodecKind::narrow:
      return ir::Shape(codec.stored, shape.dims()).byte_size();
    case CodecKind::bfloat16:
    case CodecKind::float16:
      return elements * 2;
    case CodecKind::int8:
    case CodecKind::int4: {
      const std::int64_t blocks = (elements + kQuantizedBlock - 1) / kQuantizedBlock;
      return blocks * 2 + (codec.kind == CodecKind::int8 ? elements : (elements + 1) / 2);
    }
  }
  return shape.byte_size();
}

std::string_view error_bound(CodecKind kind) {
  switch (kind) {
    case CodecKind::bfloat16:
      return "relative error <= 2^-8, absolute error <= 2^-134 below 2^-126";
    case CodecKind::float16:
      return "relative error <= 2^-11, absolute error <= 2^-25 below 2^-14";
    case CodecKind::int8:
      return "absolute error < (1 + 2^-7) / 127 of the greatest of 64 magnitudes";
    case CodecKind::int4:
      return "absolute error < (1 + 2^-7) / 7 of the greatest of 64 magnitudes";
    default:
      return "";
  }
}

std::string_view to_string(CodecKind kind) {
  constexpr std::array<std::string_view, 8> kNames{"none",     "bit-mask", "compare-mask", "narrow",
                                                   "bfloat16", "float16",  "int8",         "int4"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<CodecKind> parse_lossy(std::string_view name) {
  for (const CodecKind kind :
       {CodecKind::bfloat16, CodecKind::float16, CodecKind::int8, CodecKind::int4}) {
    if (to_string(kind) == name) return kind;
  }
  return std::nullopt;
}

std::string to_string(const Codec& codec) {
  std::string text(to_string(codec.kind));
  if (codec.kind == CodecKind::compare_mask) {
    std::array<char, 32> number{};
    const auto end = std::to_chars(number.data(), number.data() + number.size(), codec.constant);
    text += "(" + std::string(direction_text(codec.direction)) + ", " +
            std::string(number.data(), end.ptr) + ")";
  } else if (codec.kind == CodecKind::narrow) {
    text += "(" + std::string(ir::to_string(codec.stored)) + ")";
  } else if (codec.seed != 0) {
    text += "(seed " + std::to_string(codec.seed) + ")";
  }
  return text;
}

}  // namespace plimsoll::planner
