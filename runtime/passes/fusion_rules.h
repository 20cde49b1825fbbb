// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::passes {

// Bounds that keep kernels small enough to compile quickly.
inline constexpr int kMaxFusedInstructions = 64;
inline constexpr int kMaxFusionInputs = 32;
inline constexpr int kMaxFusionOutputs = 8;

// What it costs to compute a value again in another loop.
enum class FusionCost {
  free,       // no more than an index: broadcast, iota, constants, reshape, slice
  cheap,      // a few cycles; at most twice
  expensive,  // only where it is computed once
};

// True when the JIT can have the instruction inside a fusion, and fusing it is sound: arrays only,
// no control edges, no effects, no meaningful layout.
bool is_fusible(const ir::Instruction& instruction);
FusionCost fusion_cost(const ir::Instruction& instruction);
// How often one fusion may compute each element.
double evaluation_limit(const ir::Instruction& instruction);

// The distinct operands with at least as many elements as the result; what is generated, not read
// (broadcast, iota, constant), is left out.
std::vector<ir::Instruction*> large_operands(const ir::Instruction& instruction);

// What a set of instructions would be as one kernel.
struct FusionProfile {
  bool is_reduction = false;
  // Of the loop: the results' or, in a reduction, the reduced array's.
  ir::Dims loop_dims;
  // Elements of a reduction's result; those of the loop otherwise.
  std::int64_t result_count = 0;
  int input_count = 0;
  // Per member: evaluations per element, when each value is computed once for every different
  // index expression that reads it.
  std::vector<double> evaluations;
};

// The profile of the fusion of `members` (users before operands) with results `roots`; nothing when
// it breaks a rule of fusions (jit/README.md) or computes something too often. All other operands
// are its inputs.
std::optional<FusionProfile> examine_fusion(std::span<ir::Instruction* const> members,
                                            std::span<ir::Instruction* const> roots);

}  // namespace plimsoll::passes
