// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/kernel_speeds.h"
#include "runtime/ir/module.h"

namespace plimsoll::passes {

// Bounds that keep kernels small enough to compile quickly. A function that its author's compiler
// spelled out in arithmetic (erfc: some 60 operations, in a GELU's gradient beside 20 others)
// should be one kernel: cut in two, all that its halves share goes through memory.
inline constexpr std::size_t kMaxFusedInstructions = 128;
inline constexpr int kMaxFusionInputs = 32;
inline constexpr int kMaxFusionOutputs = 8;

// No value of a fusion is computed more often per element, whatever it costs.
inline constexpr double kMaxEvaluations = 4096;

// True when the JIT can have the instruction inside a fusion, and fusing it is sound: arrays only,
// no control edges, no effects, no meaningful layout.
bool is_fusible(const ir::Instruction& instruction);
// No more than an index, wherever it is read: broadcast, iota, constants, reshape, slice.
bool is_free(const ir::Instruction& instruction);

// A broadcast of a constant: a number in the code of whatever kernel reads it.
bool is_spread_constant(const ir::Instruction& instruction);
// How many of these count for kMaxFusedInstructions: all but spread constants.
std::size_t fused_size(std::span<ir::Instruction* const> members);

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
  // index expression that reads it, and once a row where it is the same along the innermost loop.
  std::vector<double> evaluations;
  // Modelled times (fusion_price.h): of a launch, and of its parts, which go on at once.
  double seconds = 0, work_seconds = 0, traffic_seconds = 0;
};

// The profile of the fusion of `members` (users before operands) with results `roots`; nothing when
// it breaks a rule of fusions (jit/README.md). All other operands are its inputs.
std::optional<FusionProfile> examine_fusion(std::span<ir::Instruction* const> members,
                                            std::span<ir::Instruction* const> roots,
                                            const KernelSpeeds& speeds);

}  // namespace plimsoll::passes
