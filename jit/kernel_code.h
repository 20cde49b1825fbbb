// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "jit/graph.h"
#include "jit/phase.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// What the writers of kernels need to know of the machine.
struct Machine {
  int vector_bytes = 16;
  bool avx512 = false;  // F, VL, DQ and BW, with vectors of 64 bytes
  bool avx512_vnni = false;
  // What a loop reads and writes from where on its stores bypass the caches: what it stores first
  // would be gone from them anyway before it is read, and a line that is not read before it is
  // written is a third of the traffic saved.
  std::int64_t streaming_bytes = std::numeric_limits<std::int64_t>::max();
};

// A kernel as LLVM IR: phases run one after the other.
struct KernelCode {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
  std::vector<Phase> phases;
  std::int64_t workspace_bytes = 0;
};

// Loop kernels compute each root element from its index; reduction kernels are in reduction.h's
// terms, row kernels in row_plan.h's. Preconditions: no reduce in `graph`; at least one, and no row
// fusion; a row fusion.
Result<KernelCode> write_loop_kernel(const Graph& graph, const Machine& machine);
Result<KernelCode> write_reduction_kernel(const Graph& graph, const Machine& machine);
Result<KernelCode> write_row_kernel(const Graph& graph, const Machine& machine);
// Of the fusion of a FlatForm (flat_form.h). One phase without units of its own: its function takes
// elements [begin, end) of any extent.
Result<KernelCode> write_flat_kernel(const Graph& graph, const Machine& machine);

// Lanes of a loop kernel's vectors, when rows are long enough: so many of its widest dtype.
int vector_lanes(const Graph& graph, const Machine& machine);

// True when nothing is computed, only moved; when all floats are bf16, and there are some.
bool only_moves(const Graph& graph);
bool computes_bf16(const Graph& graph);

// Kernels of one form have one text: that of a flat kernel says nothing of the extent.
enum class KernelForm { plain, flat };

// One of these, by `form` and what is in `graph`. `id` names the module, and begins the names of
// its functions.
Result<KernelCode> write_kernel(const Graph& graph, KernelForm form, const std::string& id,
                                const Machine& machine);

// Rough seconds to compute one element of everything in the graph, on one thread.
double seconds_per_element(const Graph& graph);

}  // namespace plimsoll::jit
