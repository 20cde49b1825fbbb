// SPDX-License-Identifier: Apache-2.0
#include "jit/loops/loop_units.h"

#include <algorithm>

#include "jit/emit/strided_vectors.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

// Elements of one unit of work when rows are long.
constexpr std::int64_t kChunk = 2048;
// Of short rows that lie side by side in an operand and far apart in what is written, a unit takes
// so many side by side: as many lines of memory are finished at the same time, which the first
// cache holds also where they are a power of two apart. Rows of kLongRow bytes are lines of their
// own.
constexpr std::int64_t kBlockRows = 8, kLongRow = 256;
// A unit of tiles takes so many elements, in runs of at most kTileRun along the operand: memory
// reads long runs fastest, while it does not matter where whole lines are written. Where other
// operands are read there, too, a unit is a square block.
constexpr std::int64_t kTileRun = 2048, kTileElements = 32768, kTileBlock = 128;

// More than one operand has as many elements as the loops.
bool reads_others(const KernelGraph& graph, const LoopNest& nest) {
  std::int64_t count = 1;
  for (const std::int64_t extent : nest.dims) count *= extent;
  return std::count_if(graph.inputs().begin(), graph.inputs().end(),
                       [&](const ir::Shape* input) { return input->element_count() == count; }) > 1;
}

}  // namespace

LoopUnits choose_units(const KernelGraph& graph, const LoopNest& nest,
                       const std::vector<std::int64_t>& extents, int width) {
  LoopUnits units;
  const std::int64_t inner = extents.back();
  const bool is_square = reads_others(graph, nest);
  units.tiled = choose_tiled_loop(graph, nest, extents, kMostApart);
  if (units.tiled >= 0) {
    units.group = units.tiled;
    units.group_rows = std::min(is_square ? kTileBlock : kTileRun,
                                (extents[at(units.group)] + width - 1) / width * width);
  } else if (extents.size() > 1 && inner < kChunk) {
    units.group = choose_group_loop(graph, nest, extents);
    units.group_rows = std::min(extents[at(units.group)], kChunk / inner);
    const int next = static_cast<int>(extents.size()) - 2;
    const std::int64_t bytes = inner * ir::dtype_bytes(nest.stores[0].value.dtype());
    if (units.group != next && units.group_rows > kBlockRows && bytes < kLongRow) {
      units.block = next;
      units.group_rows = kBlockRows;
      units.block_rows = std::min(extents[at(next)],
                                  std::max<std::int64_t>(1, kChunk / (inner * units.group_rows)));
    }
  }
  for (int i = 0; i + 1 < static_cast<int>(extents.size()); ++i) {
    const std::int64_t taken = units.rows_of(i);
    units.steps.push_back((extents[at(i)] + taken - 1) / taken);
    units.rows *= units.steps.back();
  }
  units.chunk = inner;
  if (units.tiled >= 0) {
    const std::int64_t elements = is_square ? kTileBlock * kTileBlock : kTileElements;
    const std::int64_t most =
        std::max<std::int64_t>(elements / units.group_rows / width, 1) * width;
    if (inner > most) units.chunk = most;
  } else if (inner > 2 * kChunk && units.rows < 256) {
    units.chunk = kChunk;  // rows are cut only where there are too few of them to share out
  }
  units.chunks = (inner + units.chunk - 1) / units.chunk;
  return units;
}

bool LoopUnits::are_runs(const LoopNest& nest, const std::vector<std::int64_t>& extents) const {
  if (!nest.origin.empty()) return false;
  if (tiled >= 0 || (rows > 1 && chunks > 1 && extents.back() % chunk != 0)) return false;
  if (group >= 0) {
    const bool is_last = group + 2 == static_cast<int>(extents.size());
    const bool is_whole = extents.size() == 2 || extents[at(group)] % group_rows == 0;
    if (!is_last || !is_whole) return false;
  }
  return std::all_of(nest.stores.begin(), nest.stores.end(),
                     [](const Store& store) { return store.placement == nullptr; });
}

}  // namespace plimsoll::jit
