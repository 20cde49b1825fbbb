// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "jit/graph/graph.h"
#include "jit/loops/loop_nest.h"

namespace plimsoll::jit {

// How a nest is cut into units, which threads share out: each is a chunk of the innermost loop, for
// some steps of loops around it. Loops are numbers of `extents`.
struct LoopUnits {
  // The loop that is walked in tiles with the innermost one (choose_tiled_loop); -1: none.
  int tiled = -1;
  // The loop of which a unit takes `group_rows` steps: the tiled one, or where rows are short the
  // next one, so that finding out where a unit lies costs little, or one along which an operand's
  // rows lie side by side. Of the next one a unit takes `block_rows` steps then. -1: none.
  int group = -1, block = -1;
  std::int64_t group_rows = 1, block_rows = 1;
  std::vector<std::int64_t> steps;  // of the outer loops, in units
  std::int64_t rows = 1;            // all of them
  // Of the innermost loop: what a unit takes, and how many such there are.
  std::int64_t chunk = 1, chunks = 1;

  std::int64_t count() const { return rows * chunks; }
  std::int64_t elements() const { return chunk * group_rows * block_rows; }
  std::int64_t rows_of(int loop) const {
    return loop == group ? group_rows : loop == block ? block_rows : 1;
  }
  // Whether units are numbered in the order of what they write: a row, a chunk of one, or
  // neighbouring rows.
  bool are_runs(const LoopNest& nest, const std::vector<std::int64_t>& extents) const;
};

// `width`: lanes of the innermost loop.
LoopUnits choose_units(const KernelGraph& graph, const LoopNest& nest,
                       const std::vector<std::int64_t>& extents, int width);

}  // namespace plimsoll::jit
