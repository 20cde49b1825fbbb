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
      return elements * 2;
  }
  return shape.byte_size();
}

std::string to_string(const Codec& codec) {
  switch (codec.kind) {
    case CodecKind::none:
      return "none";
    case CodecKind::bit_mask:
      return "bit-mask";
    case CodecKind::compare_mask: {
      std::array<char, 32> number{};
      const auto end = std::to_chars(number.data(), number.data() + number.size(), codec.constant);
      return "compare-mask(" + std::string(direction_text(codec.direction)) + ", " +
             std::string(number.data(), end.ptr) + ")";
    }
    case CodecKind::narrow:
      return "narrow(" + std::string(ir::to_string(codec.stored)) + ")";
    case CodecKind::bfloat16:
      return "bfloat16";
  }
  return "?";
}

}  // namespace plimsoll::planner
