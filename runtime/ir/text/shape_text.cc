// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/text/shape_text.h"

#include <fmt/core.h>
#include <algorithm>
#include <cctype>
#include <limits>
#include <string>

#include "runtime/base/index.h"

namespace plimsoll::ir {
namespace {

constexpr int kMaxTupleDepth = 32;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 56;

// Bytes with dimensions of size 0 taken as 1, so that strides can be counted too; -1: too many.
std::int64_t countable_bytes(const Shape& shape) {
  if (shape.is_tuple()) {
    std::int64_t total = 0;
    for (const Shape& element : shape.elements()) {
      const std::int64_t bytes = countable_bytes(element);
      if (bytes < 0 || (total += bytes) > kMaxBytes) return -1;
    }
    return total;
  }
  if (!shape.is_array()) return 0;
  std::int64_t bytes = dtype_bytes(shape.dtype());
  for (const std::int64_t dim : shape.dims()) {
    if (dim < 0 || __builtin_mul_overflow(bytes, std::max<std::int64_t>(dim, 1), &bytes) ||
        bytes > kMaxBytes) {
      return -1;
    }
  }
  return bytes;
}

Status read_layout(Cursor& cursor, Shape& shape) {
  const std::size_t start = cursor.position();
  cursor.take('{');
  auto layout = std::make_shared<Layout>();
  if (std::isdigit(static_cast<unsigned char>(cursor.peek()))) {
    do {
      PLIMSOLL_ASSIGN_OR_RETURN(
          const std::int64_t dim,
          cursor.integer("a dimension number of the layout", 0, kMaxRank - 1));
      layout->minor_to_major.push_back(dim);
    } while (cursor.take(','));
  }
  if (cursor.take(':')) {
    int depth = 0;
    while (!cursor.at_end() && (depth > 0 || cursor.peek() != '}')) {
      if (depth == 0 && cursor.take("S(")) {
        PLIMSOLL_ASSIGN_OR_RETURN(
            const std::int64_t space,
            cursor.integer("a memory space", 0, std::numeric_limits<int>::max()));
        layout->memory_space = static_cast<int>(space);
        PLIMSOLL_RETURN_IF_ERROR(cursor.expect(')', "after the memory space"));
        continue;
      }
      // How a dimension is shared out between cores, which means nothing to values that are dense.
      if (depth == 0 && cursor.take("SC(")) {
        PLIMSOLL_RETURN_IF_ERROR(cursor.verbatim("where a dimension is split").status());
        PLIMSOLL_RETURN_IF_ERROR(cursor.expect(')', "after where a dimension is split"));
        continue;
      }
      const char c = cursor.peek();
      // Written back without its spaces, "S (" would be a memory space.
      if (depth == 0 && c == 'S') return cursor.expected("'S(' and a memory space");
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (depth < 0) return cursor.expected("'}' after the layout");
      layout->tiling += c;
      cursor.take(c);
    }
  }
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('}', "after the layout"));
  const auto rank = at(shape.rank());
  const auto& order = layout->minor_to_major;
  if (!order.empty()) {
    std::vector<std::int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    bool permutation = sorted.size() == rank;
    for (std::size_t i = 0; permutation && i < rank; ++i) {
      permutation = sorted[i] == static_cast<std::int64_t>(i);
    }
    if (!permutation) {
      return cursor.error_at(
          start, fmt::format("expected a layout that names each of the {} dimensions of {} once",
                             rank, shape.to_string()));
    }
  }
  const bool descending = std::is_sorted(order.rbegin(), order.rend());
  if (!descending || !layout->tiling.empty() || layout->memory_space != 0) {
    shape.set_layout(std::move(layout));
  }
  return ok_status();
}

// Behind blanks, a brace may also begin a computation's instructions, with any name.
bool looks_like_layout(Cursor& cursor) {
  if (cursor.peek() != '{') return false;
  const bool is_adjacent = cursor.peek_raw() == '{';
  const std::size_t start = cursor.raw_position();
  cursor.take('{');
  const char next = cursor.peek();
  bool found = std::isdigit(static_cast<unsigned char>(next)) || next == ':' || next == '}';
  if (found && !is_adjacent) {
    cursor.take_word();
    found = next != '}' && (cursor.peek() == ',' || cursor.peek() == '}' || cursor.peek() == ':');
  }
  cursor.rewind(start);
  return found;
}

Result<Shape> read_array(Cursor& cursor) {
  const std::size_t start = cursor.position();
  const std::string_view type = cursor.take_word();
  if (type == "token" || type == "opaque") {
    if (!cursor.take("[]")) return cursor.expected("'[]' after " + std::string(type));
    if (looks_like_layout(cursor)) {
      PLIMSOLL_RETURN_IF_ERROR(cursor.verbatim("a layout").status());
    }
    return type == "token" ? Shape::token() : Shape::opaque();
  }
  const std::optional<DType> dtype = parse_dtype(type);
  if (!dtype.has_value()) {
    cursor.rewind(start);
    return cursor.expected(
        "a shape of element type pred, s8, s16, s32, s64, u8, u16, u32, u64, f16, bf16, f32, f64");
  }
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('[', "after the element type"));
  Dims dims;
  if (cursor.peek() != ']') {
    do {
      if (cursor.peek() == '<' || cursor.peek() == '?') {
        return cursor.expected("a static dimension size (dynamic sizes are not supported)");
      }
      if (dims.size() == kMaxRank) {
        return cursor.expected(fmt::format("']' (a shape has at most {} dimensions)", kMaxRank));
      }
      PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t dim,
                                cursor.integer("a dimension size", 0, kMaxBytes));
      dims.push_back(dim);
    } while (cursor.take(','));
  }
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect(']', "after the dimension sizes"));
  Shape shape(*dtype, dims);
  if (!has_countable_size(shape)) {
    return cursor.error_at(start,
                           "expected a shape of at most 2^56 bytes, found " + shape.to_string());
  }
  if (looks_like_layout(cursor)) PLIMSOLL_RETURN_IF_ERROR(read_layout(cursor, shape));
  return shape;
}

Result<Shape> read_nested(Cursor& cursor, int depth) {
  if (cursor.peek() != '(') return read_array(cursor);
  const std::size_t start = cursor.position();
  if (depth == kMaxTupleDepth) {
    return cursor.error_at(start,
                           fmt::format("expected tuples nested at most {} deep", kMaxTupleDepth));
  }
  cursor.take('(');
  std::vector<Shape> elements;
  if (cursor.peek() != ')') {
    do {
      PLIMSOLL_ASSIGN_OR_RETURN(Shape element, read_nested(cursor, depth + 1));
      elements.push_back(std::move(element));
    } while (cursor.take(','));
  }
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect(')', "or ',' in the tuple shape"));
  Shape shape = Shape::tuple(std::move(elements));
  if (!has_countable_size(shape)) {
    return cursor.error_at(start, "expected a tuple of at most 2^56 bytes");
  }
  return shape;
}

}  // namespace

bool looks_like_shape(Cursor& cursor) {
  if (cursor.peek() == '(') return true;
  const std::size_t start = cursor.position();
  const bool found = !cursor.take_word().empty() && cursor.peek_raw() == '[';
  cursor.rewind(start);
  return found;
}

Result<Shape> read_shape(Cursor& cursor) {
  if (!looks_like_shape(cursor)) return cursor.expected("a shape");
  return read_nested(cursor, 0);
}

std::int64_t node_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const Shape& element : shape.elements()) count += node_count(element);
  return count;
}

bool has_countable_size(const Shape& shape) { return countable_bytes(shape) >= 0; }

}  // namespace plimsoll::ir
