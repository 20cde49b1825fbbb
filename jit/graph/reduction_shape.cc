// SPDX-License-Identifier: Apache-2.0
#include "jit/graph/reduction_shape.h"

#include <algorithm>
#include <bit>

namespace plimsoll::jit {
namespace {

constexpr std::int64_t kBlockElements = 4096;  // rows
constexpr std::int64_t kBlockRows = 256;       // columns
constexpr std::int64_t kLongRow = 256;
constexpr std::int64_t kInterleave = 4;
// Blocks of one result, which are combined one after the other.
constexpr std::int64_t kMostRowBlocks = 2048, kMostColumnBlocks = 1024;

// `size` elements or rows, twice as many, and so on, so that `count` are at most `most` blocks.
std::int64_t block_size(std::int64_t size, std::int64_t count, std::int64_t most) {
  while (divide_up(count, size) > most) size *= 2;
  return size;
}

}  // namespace

// How a reduction is cut into units, which workers compute in any order, and whose results are
// combined in a fixed one. The cut depends on the shape alone, never on the number of workers: so a
// sum has the same bits on every machine and with every limit.
//
// Neighbouring dims that are both reduced or both kept are one: f32[2,3,4,5] over dims 2 and 3 is
// [6,20] over its rows. If the innermost is reduced, rows are walked; else columns.
// - Rows: units of 4096 elements, several short rows or a part of a long one; of 8192, 16384, ...
//   where one result would have more than 2048 units, which are combined in turn. 64 sums run side
//   by side in a row of 256 elements or more (four vectors of 16: the latency of an addition is
//   hidden), and as many as the next power of two, at most 16, in a short one.
// - Columns: units of 256 rows, or of 512, 1024, ... (at most 1024 units a result); four rows are
//   added side by side.
//
// Example: f32[100,10000] over dim 1: block_minor 4096, so 3 units a row (the last has 1808
// elements), and 300 units; then 3 partial sums a row are added from left to right.
//
// `in_order` is for reducers that are not associative enough to be cut (reduction_order.cc): one
// unit, one lane, as the text says.
ReductionShape ReductionShape::of(const ir::Dims& dims,
                                  const std::vector<std::int64_t>& reduced_dims, bool in_order) {
  ReductionShape shape;
  shape.dims = dims;
  const ir::Dims strides = ir::row_major_strides(dims);
  bool previous_reduced = false;
  bool any = false;
  for (int d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    const bool reduced =
        std::find(reduced_dims.begin(), reduced_dims.end(), d) != reduced_dims.end();
    auto& extents = reduced ? shape.reduced_extents : shape.kept_extents;
    auto& group_strides = reduced ? shape.reduced_strides : shape.kept_strides;
    if (any && reduced == previous_reduced) {
      extents.back() *= dims[d];
      group_strides.back() = strides[d];
    } else {
      extents.push_back(dims[d]);
      group_strides.push_back(strides[d]);
    }
    (reduced ? shape.reduced : shape.kept) *= dims[d];
    previous_reduced = reduced;
    any = true;
  }
  shape.rows = !any || previous_reduced;
  if (any) shape.minor = (shape.rows ? shape.reduced_extents : shape.kept_extents).back();
  if (shape.rows) {
    const std::int64_t count = shape.minor == 0 ? 0 : shape.reduced / shape.minor;
    const auto wide = static_cast<std::uint64_t>(std::clamp<std::int64_t>(shape.minor, 1, 16));
    shape.lanes = shape.minor >= kLongRow ? 64 : static_cast<std::int64_t>(std::bit_ceil(wide));
    shape.block_minor = std::min(std::max<std::int64_t>(shape.minor, 1),
                                 block_size(kBlockElements, shape.minor, kMostRowBlocks));
    shape.minor_blocks = divide_up(shape.minor, shape.block_minor);
    shape.block_rows = shape.minor_blocks > 1
                           ? 1
                           : block_size(kBlockElements / shape.block_minor, count, kMostRowBlocks);
    shape.row_blocks = divide_up(count, shape.block_rows);
  } else {
    shape.lanes = std::clamp<std::int64_t>(shape.reduced, 1, kInterleave);
    shape.block_rows = block_size(kBlockRows, shape.reduced, kMostColumnBlocks);
    shape.row_blocks = divide_up(shape.reduced, shape.block_rows);
  }
  if (in_order) {
    shape.lanes = shape.row_blocks = shape.minor_blocks = 1;
    shape.block_minor = std::max<std::int64_t>(shape.minor, 1);
    shape.block_rows = std::max<std::int64_t>(shape.row_count(), 1);
    if (shape.reduced == 0) shape.row_blocks = 0;
  }
  return shape;
}

Index ReductionShape::operand_index(IndexSpace& space, const Affine& kept_position,
                                    const Affine& reduced_position) const {
  Affine position;
  const auto add = [&](const Affine& part, const std::vector<std::int64_t>& extents,
                       const std::vector<std::int64_t>& strides) {
    Affine rest = part;
    for (std::size_t i = extents.size(); i-- > 0;) {
      Affine group = rest;
      if (i > 0) {
        auto [high, low] = space.divide(rest, extents[i]);
        group = std::move(low);
        rest = std::move(high);
      }
      position = space.add(position, space.scale(group, strides[i]));
    }
  };
  add(kept_position, kept_extents, kept_strides);
  add(reduced_position, reduced_extents, reduced_strides);
  return space.delinearize(position, dims);
}

}  // namespace plimsoll::jit
