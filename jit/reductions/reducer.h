// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "jit/emit/value_emitter.h"
#include "jit/graph/graph.h"

namespace plimsoll::jit {

// One reduce instruction inside a kernel: how its accumulators are kept and combined. Sums,
// products and extrema of f16 and bf16 accumulate in f32 and are rounded once (extrema are exact
// anyway); everything else in its own dtype.
struct Reducer {
  const ir::Instruction* reduce = nullptr;
  int first = 0;  // number of its first component among all reducers'
  std::vector<ir::DType> dtypes;
  std::vector<ir::DType> accumulators;
  // What an accumulator may start from without changing any bit; empty when there is no such value.
  std::vector<llvm::Constant*> identity;

  // Starts from the initial value and takes the elements one by one.
  bool in_order = false;

  // An accumulator has a value before its first element.
  bool starts_full() const { return in_order || !identity.empty(); }
  int components() const { return static_cast<int>(dtypes.size()); }
};

std::vector<Reducer> make_reducers(const KernelGraph& graph, llvm::LLVMContext& context);

// `a` combined with `b`, in that order; accumulator dtypes, any width.
std::vector<llvm::Value*> combine(ValueEmitter& emitter, llvm::IRBuilder<>& builder,
                                  const Reducer& reducer, const std::vector<llvm::Value*>& a,
                                  const std::vector<llvm::Value*>& b);

}  // namespace plimsoll::jit
