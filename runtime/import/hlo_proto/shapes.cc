// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/hlo_proto/shapes.h"

#include <fmt/core.h>
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/import/hlo_proto/fields.h"
#include "runtime/ir/text/shape_text.h"

namespace plimsoll::hlo_proto {
namespace {

using ir::Shape;

constexpr int kMaxTupleDepth = 32;

constexpr std::int64_t kTuple = 13, kOpaque = 14, kToken = 17;

// XLA's PrimitiveType, but for those of no array.
constexpr std::pair<std::int64_t, std::string_view> kElementTypes[] = {
    {1, "pred"},        {2, "s8"},          {3, "s16"},     {4, "s32"},
    {5, "s64"},         {6, "u8"},          {7, "u16"},     {8, "u32"},
    {9, "u64"},         {10, "f16"},        {11, "f32"},    {12, "f64"},
    {15, "c64"},        {16, "bf16"},       {18, "c128"},   {19, "f8e5m2"},
    {20, "f8e4m3fn"},   {21, "s4"},         {22, "u4"},     {23, "f8e4m3b11fnuz"},
    {24, "f8e5m2fnuz"}, {25, "f8e4m3fnuz"}, {26, "s2"},     {27, "u2"},
    {28, "f8e4m3"},     {29, "f8e3m4"},     {30, "s1"},     {31, "u1"},
    {32, "f4e2m1fn"},   {33, "f8e8m0fnu"},  {34, "buffer"}, {35, "f6e3m2fn"},
    {36, "f6e2m3fn"},
};

// As HLO text has it: `T(8,128)(2,1)`.
Result<std::string> tiling_text(const std::vector<std::string_view>& tiles) {
  // A dimension that is one with the next.
  constexpr std::int64_t kCombined = std::numeric_limits<std::int64_t>::min();
  std::string text;
  for (const std::string_view tile : tiles) {
    std::vector<std::int64_t> sizes;
    PLIMSOLL_RETURN_IF_ERROR(read_fields(tile, "a tile of a layout", {{1, &sizes}}));
    text += text.empty() ? "T(" : "(";
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (i > 0) text += ",";
      text += sizes[i] == kCombined ? "*" : std::to_string(sizes[i]);
    }
    text += ")";
  }
  return text;
}

Status read_layout(std::string_view message, Shape& shape) {
  auto layout = std::make_shared<ir::Layout>();
  std::int64_t memory_space = 0;
  std::vector<std::string_view> tiles;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(
      message, "a layout", {{1, &layout->minor_to_major}, {6, &tiles}, {8, &memory_space}}));
  const std::vector<std::int64_t>& order = layout->minor_to_major;
  std::vector<std::int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<std::int64_t>(i)) return broken("the order of a layout");
  }
  const bool names_all = sorted.size() == static_cast<std::size_t>(shape.rank());
  if (!sorted.empty() && !names_all) return broken("the order of a layout");
  if (memory_space < 0 || memory_space > std::numeric_limits<int>::max()) {
    return broken("the memory space of a layout");
  }
  layout->memory_space = static_cast<int>(memory_space);
  PLIMSOLL_ASSIGN_OR_RETURN(layout->tiling, tiling_text(tiles));
  const bool is_usual = std::is_sorted(order.rbegin(), order.rend()) && layout->tiling.empty() &&
                        layout->memory_space == 0;
  if (!is_usual) shape.set_layout(std::move(layout));
  return ok_status();
}

Result<Shape> read_array(std::int64_t type, const std::vector<std::int64_t>& sizes,
                         const std::vector<std::int64_t>& are_dynamic, std::string_view layout) {
  const auto* const known = std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                                         [&](const auto& row) { return row.first == type; });
  if (known == std::end(kElementTypes)) return broken("an element type");
  const std::optional<ir::DType> dtype = ir::parse_dtype(known->second);
  if (!dtype.has_value()) {
    return unimplemented("HLO proto: arrays of " + std::string(known->second) +
                         " are not supported");
  }
  const auto is_dynamic = [](std::int64_t flag) { return flag != 0; };
  if (std::any_of(are_dynamic.begin(), are_dynamic.end(), is_dynamic)) {
    return unimplemented("HLO proto: dynamic dimension sizes are not supported");
  }
  if (sizes.size() > static_cast<std::size_t>(ir::kMaxRank)) {
    return unimplemented(fmt::format("HLO proto: an array of {} dimensions (at most {} are)",
                                     sizes.size(), ir::kMaxRank));
  }
  Shape shape(*dtype, ir::Dims(sizes));
  if (!ir::has_countable_size(shape)) return broken("the size of an array");
  if (!layout.empty()) PLIMSOLL_RETURN_IF_ERROR(read_layout(layout, shape));
  return shape;
}

Result<Shape> read_nested(std::string_view message, int depth) {
  std::int64_t type = 0;
  std::vector<std::int64_t> sizes, are_dynamic;
  std::vector<std::string_view> parts;
  std::string_view layout;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(
      message, "a shape", {{2, &type}, {3, &sizes}, {4, &parts}, {5, &layout}, {6, &are_dynamic}}));
  if (type == kToken) return Shape::token();
  if (type == kOpaque) return Shape::opaque();
  if (type != kTuple) return read_array(type, sizes, are_dynamic, layout);
  if (depth == kMaxTupleDepth) return broken("a tuple nested more than 32 deep");
  std::vector<Shape> elements;
  elements.reserve(parts.size());
  for (const std::string_view part : parts) {
    PLIMSOLL_ASSIGN_OR_RETURN(Shape element, read_nested(part, depth + 1));
    elements.push_back(std::move(element));
  }
  Shape shape = Shape::tuple(std::move(elements));
  if (!ir::has_countable_size(shape)) return broken("the size of a tuple");
  return shape;
}

}  // namespace

Result<Shape> read_shape(std::string_view message) { return read_nested(message, 0); }

}  // namespace plimsoll::hlo_proto
