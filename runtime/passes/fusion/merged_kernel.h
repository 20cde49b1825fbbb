// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "runtime/ir/module.h"
#include "runtime/passes/fusion/fused_body.h"
#include "runtime/passes/fusion/fusion_rules.h"

namespace plimsoll::passes {

// What passes that merge kernels (fusions and lone instructions) of one computation share.

// What the body of a fusion computes, users before operands; empty when it holds what no kernel
// may.
std::vector<ir::Instruction*> kernel_members(const ir::Computation& body);

// The profile of a fusion with this body; nothing where the JIT does not have it.
std::optional<FusionProfile> profile_of_kernel(const ir::Computation& body,
                                               const KernelSpeeds& speeds);

// A kernel's results: itself, or its get-tuple-elements. None where somebody takes the tuple whole,
// or with a control edge.
std::optional<std::vector<ir::Instruction*>> kernel_outputs(ir::Instruction& kernel);

// A fusion with its results.
struct MergedKernel {
  ir::Instruction* fusion = nullptr;
  std::vector<ir::Instruction*> outputs;
};

// Adds the fusion that computes `body`, whose results stand for `outputs`, and gives it all their
// users and hints. It stands at the end of the computation: the caller sets the order.
MergedKernel add_merged_kernel(ir::Computation& computation, FusedBody& body, ir::FusionKind kind,
                               const std::vector<ir::Instruction*>& outputs);

}  // namespace plimsoll::passes
