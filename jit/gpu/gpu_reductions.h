// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/gpu/gpu_entry.h"
#include "jit/reductions/reducer.h"

namespace plimsoll::jit {

// Adds the launches of a reduction in reduction_shape.h's terms, with the bits of the CPU's kernel:
// a sweep over the operands, and one that combines the blocks where the reduction is cut.
// Precondition: a reduce in the graph, which is no row fusion.
Status write_gpu_reductions(GpuWriter& writer);

// How many threads share a row: as many as the reduction has lanes, at most a warp.
inline int threads_of_row(std::int64_t lanes) {
  return static_cast<int>(lanes < kWarp ? lanes : kWarp);
}

// The total of lanes 0, 1, ... of a reduction by halves: lane i takes in lane i + n/2, and so on.
// `slots[s]` holds, in thread t of `threads` side by side, what lane t + s * threads has taken, one
// value a component. Lanes at and past `length` are empty, where the reducer has no identity. The
// result is thread 0's. Every thread of the warp must come here; `lane`: of this thread, i32.
std::vector<llvm::Value*> fold_lanes(GpuEntry& entry, ValueEmitter& emitter, const Reducer& reducer,
                                     std::vector<std::vector<llvm::Value*>> slots, int threads,
                                     llvm::Value* lane, llvm::Value* length);

}  // namespace plimsoll::jit
