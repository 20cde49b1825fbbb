// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/layout/lay_out_filters.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/derived_literal.h"
#include "runtime/ir/shapes/large_filters.h"
#include "runtime/passes/layout/relaid.h"

namespace plimsoll::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

// The order that a constant filter should get; empty: it stays. One of 1 x 1 is a matrix either
// way.
DimensionOrder wished_order(const Instruction& convolution) {
  const Instruction& filters = *convolution.operand(1);
  if (filters.opcode() != Opcode::constant || filters.attributes().literal->is_elided() ||
      filters.users().size() != 1 || convolution.operand(0) == &filters ||
      !ir::has_large_filters(convolution)) {
    return {};
  }
  const ir::ConvolutionDimensions& labels = *convolution.attributes().convolution;
  DimensionOrder order = labels.kernel_spatial;
  const bool has_window = std::any_of(order.begin(), order.end(), [&](std::int64_t d) {
    return filters.shape().dim(static_cast<int>(d)) > 1;
  });
  order.push_back(labels.kernel_input_feature);
  order.push_back(labels.kernel_output_feature);
  return has_window && !is_identity(order) ? order : DimensionOrder();
}

// Some numbers along the innermost dimension of the result at a time, so that both sides are walked
// in runs.
void permute(const ir::Shape& shape, const DimensionOrder& order, const float* source,
             float* target) {
  constexpr std::int64_t kRun = 16;
  const ir::Dims strides = ir::row_major_strides(shape.dims());
  const std::int64_t last = order.back();
  const std::int64_t count = shape.dim(static_cast<int>(last));
  const std::int64_t stride = strides[static_cast<int>(last)];
  // Where each run begins in `from`, in the order of `to`.
  std::vector<std::int64_t> starts = {0};
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const int d = static_cast<int>(order[i]);
    std::vector<std::int64_t> finer;
    for (const std::int64_t start : starts) {
      for (std::int64_t j = 0; j < shape.dim(d); ++j) finer.push_back(start + j * strides[d]);
    }
    starts = std::move(finer);
  }
  for (std::int64_t first = 0; first < count; first += kRun) {
    const std::int64_t end = std::min(count, first + kRun);
    for (std::size_t s = 0; s < starts.size(); ++s) {
      float* const run = target + static_cast<std::int64_t>(s) * count;
      for (std::int64_t j = first; j < end; ++j) run[j] = source[starts[s] + j * stride];
    }
  }
}

ir::Literal permuted(const std::shared_ptr<const ir::Literal>& literal,
                     const DimensionOrder& order) {
  return ir::derived_literal(reordered(literal->shape(), order), {&literal, 1},
                             [shape = literal->shape(), order](
                                 std::span<const std::byte* const> from, std::span<std::byte> to) {
                               permute(shape, order, reinterpret_cast<const float*>(from[0]),
                                       reinterpret_cast<float*>(to.data()));
                             });
}

}  // namespace

bool lay_out_filters(ir::Computation& computation) {
  std::vector<Instruction*> before;
  for (const auto& instruction : computation.instructions()) before.push_back(instruction.get());
  Instruction* const root = computation.root();
  std::unordered_map<const Instruction*, Instruction*> relaid;
  for (Instruction* convolution : before) {
    if (convolution->opcode() != Opcode::convolution) continue;
    const DimensionOrder order = wished_order(*convolution);
    if (order.empty()) continue;
    Instruction* const filters = convolution->operand(1);
    Instruction* const constant =
        computation.add_constant(permuted(filters->attributes().literal, order), filters->name());
    reorder_operand(*convolution, 1, order);
    convolution->replace_operand(1, constant);
    relaid[filters] = constant;
  }
  if (relaid.empty()) return false;
  std::vector<Instruction*> schedule;
  for (Instruction* instruction : before) {
    schedule.push_back(instruction);
    if (const auto found = relaid.find(instruction); found != relaid.end()) {
      schedule.push_back(found->second);
    }
  }
  computation.set_order(schedule);
  computation.set_root(root);
  computation.remove_dead();
  return true;
}

}  // namespace plimsoll::passes
