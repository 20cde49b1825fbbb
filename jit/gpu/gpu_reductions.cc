// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu/gpu_reductions.h"

#include "jit/gpu/gpu_sweep.h"

namespace plimsoll::jit {

using llvm::Value;

std::vector<Value*> fold_lanes(GpuEntry& entry, ValueEmitter& emitter, const Reducer& reducer,
                               std::vector<std::vector<Value*>> slots, int threads, Value* lane,
                               Value* length) {
  llvm::IRBuilder<>& b = entry.builder();
  const auto joined = [&](const GpuValues& low, const GpuValues& high, int distance) {
    const GpuValues sum = combine(emitter, b, reducer, low, high);
    if (reducer.starts_full()) return sum;
    Value* other = b.CreateAdd(lane, b.getInt32(static_cast<std::uint32_t>(distance)));
    Value* exists = b.CreateICmpSLT(other, length);
    GpuValues kept;
    for (std::size_t c = 0; c < sum.size(); ++c) {
      kept.push_back(b.CreateSelect(exists, sum[c], low[c]));
    }
    return kept;
  };
  for (std::size_t half = slots.size() / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) {
      slots[i] = joined(slots[i], slots[i + half], static_cast<int>(i + half) * threads);
    }
  }
  GpuValues total = slots[0];
  for (int half = threads / 2; half > 0; half /= 2) {
    GpuValues above;
    for (Value* value : total) above.push_back(entry.from_lane_above(value, half, threads));
    total = joined(total, above, half);
  }
  return total;
}

Status write_gpu_reductions(GpuWriter& writer) {
  const ReductionPlan plan = make_reduction_plan(*writer.graph, *writer.code.context);
  writer.code.workspace_bytes = plan.workspace_bytes;
  if (plan.shape.kept == 0) return ok_status();
  if (plan.shape.reduced > 0) {
    PLIMSOLL_RETURN_IF_ERROR(plan.shape.rows ? write_gpu_row_sweep(writer, plan)
                                             : write_gpu_column_sweep(writer, plan));
  }
  return plan.is_cut() ? write_gpu_combination(writer, plan) : ok_status();
}

}  // namespace plimsoll::jit
