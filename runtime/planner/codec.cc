// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/codec.h"

#include <array>
#include <charconv>

namespace plimsoll::planner {
namespace {

std::string_view direction_text(ir::ComparisonDirection direction) {
  constexpr std::array<std::string_view, 6> kText{"eq", "ne", "ge", "gt", "le", "lt"};
  return kText[static_cast<std::size_t>(direction)];
}

}  // namespace

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
