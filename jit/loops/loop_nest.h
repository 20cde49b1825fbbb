// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "jit/graph/graph.h"

namespace plimsoll::jit {

// Where a loop's value goes: output `output`, at the loop's index, or, for operand `operand` of a
// concatenate, pad or dynamic-update-slice `placement`, at the place that gives it in the result.
struct Store {
  KernelNode value;
  int output = 0;
  const ir::Instruction* placement = nullptr;
  int operand = 0;
  // Of a pad's value (operand 1): where the part of the result begins that it fills.
  std::vector<std::int64_t> begin = {};
};

// One loop nest over `dims` (row-major order of an array) with its stores.
struct LoopNest {
  ir::Dims dims;
  std::vector<Store> stores;
  // Where in the array of each store's value the nest begins; empty: it is over all of it.
  std::vector<std::int64_t> origin = {};
  // The stores are of one output, whose elements they give by turns: pieces of a concatenate that
  // are one element wide, as the parts of complex numbers are.
  bool takes_turns = false;
};

// The index of the element of `store`'s value at position `position` of the nest.
Index value_index(IndexSpace& space, const LoopNest& nest, const Store& store,
                  const Affine& position);

// The position in the output where `store` puts the value of position `position` of the nest.
Affine store_position(IndexSpace& space, const KernelGraph& graph, const LoopNest& nest,
                      const Store& store, const Affine& position);

// The extents to loop over, major to minor: `nest.dims` split where reshapes need it, and merged
// where every access runs on through the boundary.
std::vector<std::int64_t> choose_extents(const KernelGraph& graph, const LoopNest& nest);

// A read of an input, `dtype` elements at `position`.
struct Load {
  int input = 0;
  ir::DType dtype = ir::DType::f32;
  Affine position;
  friend auto operator<=>(const Load&, const Load&) = default;
};

// The inputs' reads of a nest at position `position` of its iteration space, in a fixed order.
std::vector<Load> collect_loads(IndexSpace& space, const KernelGraph& graph, const LoopNest& nest,
                                const Affine& position);

// The loop that should run inside the innermost one, a few steps at a time, because operands are
// read far apart along the innermost loop and side by side, or no more than `most_apart` elements
// apart, along this one (a transpose); -1 if none.
int choose_tiled_loop(const KernelGraph& graph, const LoopNest& nest,
                      const std::vector<std::int64_t>& extents, std::int64_t most_apart);

// The outer loop whose steps are best taken one after the other where rows (of the innermost loop)
// are short: one along which an operand is read on without a gap, else the next one.
int choose_group_loop(const KernelGraph& graph, const LoopNest& nest,
                      const std::vector<std::int64_t>& extents);

}  // namespace plimsoll::jit
