// SPDX-License-Identifier: Apache-2.0
#include "jit/reductions/row_group.h"

#include <algorithm>
#include <bit>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::jit {
namespace {

// Rows are computed together as long as all that is read, kept and written of them stays in the
// first cache.
constexpr std::int64_t kTogetherBytes = 24 << 10, kMostTogether = 16;
// So that there is something to share out.
constexpr std::int64_t kLeastUnits = 4;

std::int64_t bytes_of_row(const RowPlan& plan) {
  std::int64_t bytes = 1;
  for (const ir::Shape* input : plan.graph.inputs()) {
    const bool is_full = input->element_count() == plan.shape.rows * plan.shape.minor;
    bytes += is_full ? input->byte_size() / plan.shape.rows : 0;
  }
  const auto row_of = [&](ir::DType dtype) { return plan.shape.minor * ir::dtype_bytes(dtype); };
  for (const std::vector<int>& roots : plan.stores) {
    for (const int root : roots) bytes += row_of(plan.graph.roots()[at(root)].dtype());
  }
  for (const KeptValue& kept : plan.kept) bytes += row_of(kept.node.dtype());
  return bytes;
}

}  // namespace

std::int64_t bytes_moved_by_rows(const KernelGraph& graph) {
  std::int64_t bytes = 0;
  for (const ir::Shape* input : graph.inputs()) bytes += input->byte_size();
  for (const KernelNode& root : graph.roots()) bytes += root.shape->byte_size();
  return bytes;
}

std::int64_t rows_together(const RowPlan& plan) {
  if (plan.cut.blocks() > 1) return 1;
  const auto fitting = static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(kTogetherBytes / bytes_of_row(plan), 1, kMostTogether));
  auto together = static_cast<std::int64_t>(std::bit_floor(fitting));
  while (together > 1 && plan.shape.rows < kLeastUnits * together) together /= 2;
  return together;
}

// Maxima and minima may be taken in any order, and each waits longer for the one before than sums
// do: twice as many.
std::int64_t slots_in_sweep(const RowPlan& plan, int s, std::int64_t slots) {
  const std::vector<int>& reduces = plan.reduces[at(s)];
  const bool any_order = std::all_of(reduces.begin(), reduces.end(), [&](int reduce) {
    const ir::Computation& computation = *plan.graph.reduces()[at(reduce)]->to_apply();
    return ir::is_binary_computation(computation, ir::Opcode::maximum) ||
           ir::is_binary_computation(computation, ir::Opcode::minimum);
  });
  return any_order ? 2 * slots : slots;
}

}  // namespace plimsoll::jit
