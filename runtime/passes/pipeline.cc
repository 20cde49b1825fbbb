// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>

#include "runtime/ir/shapes/verifier.h"
#include "runtime/passes/passes.h"

namespace plimsoll::passes {
namespace {

Result<bool> run(const PassInfo& pass, ir::Module& module, const KernelSpeeds& speeds = {}) {
  Result<bool> changed = pass.run(module, speeds);
  if (!changed.ok()) return changed.status().with_context(pass.name);
#ifndef NDEBUG
  const Status valid = ir::verify(module);
  if (!valid.ok()) {
    return internal_error("after pass " + std::string(pass.name) + ": " + valid.message());
  }
#endif
  return changed;
}

// A pass that looks at no speeds.
auto whatever_the_speeds(Result<bool> (*pass)(ir::Module&)) {
  return [pass](ir::Module& module, const KernelSpeeds&) { return pass(module); };
}

const PassInfo kInlineCalls = {"inline", "Inlines calls, and fusions that came with the text",
                               whatever_the_speeds(inline_calls)};
const PassInfo kSimplify = {"simplify", "Algebraic identities that keep every bit",
                            whatever_the_speeds(simplify)};
const PassInfo kCse = {"cse", "Merges equal instructions",
                       whatever_the_speeds(eliminate_common_subexpressions)};
const PassInfo kDce = {"dce", "Removes what nothing needs",
                       whatever_the_speeds(eliminate_dead_code)};
const PassInfo kLayouts = {
    "assign-layouts",
    "Puts the activations of convolutions into channels-last order (compiled "
    "sums round otherwise than as written)",
    whatever_the_speeds(assign_layouts)};
const PassInfo kFuse = {"fusion", "Fuses producers into their consumers", fuse};
const PassInfo kFuseRows = {"row-fusion",
                            "Merges chained reductions along rows (softmax, normalisations)",
                            whatever_the_speeds(fuse_rows)};
const PassInfo kFuseMultiOutput = {
    "multi-output-fusion", "Merges kernels that read the same or each other", fuse_multi_output};
const PassInfo kAttention = {
    "attention", "Attention in one kernel without its scores (rounds otherwise than as written)",
    whatever_the_speeds(recognize_attention)};
const PassInfo kFuseHorizontal = {"horizontal-fusion",
                                  "Launches small independent kernels together",
                                  whatever_the_speeds(fuse_horizontal), true};

Status clean_up(ir::Module& module) {
  constexpr int kMaxRounds = 4;
  for (int round = 0; round < kMaxRounds; ++round) {
    bool changed = false;
    for (const PassInfo* pass : {&kSimplify, &kCse, &kDce}) {
      PLIMSOLL_ASSIGN_OR_RETURN(const bool pass_changed, run(*pass, module));
      changed = changed || pass_changed;
    }
    if (!changed) break;
  }
  return ok_status();
}

}  // namespace

std::span<const PassInfo> all_passes() {
  static const std::array kPasses = {kInlineCalls, kSimplify,        kCse,
                                     kDce,         kLayouts,         kFuse,
                                     kFuseRows,    kFuseMultiOutput, kFuseHorizontal};
  return kPasses;
}

std::span<const PassInfo> rounding_passes() {
  static const std::array kPasses = {
      kAttention,
      PassInfo{"sum-scheduling",
               "Adds large addends up as they are made (rounds otherwise than as written)",
               whatever_the_speeds(schedule_sums)}};
  return kPasses;
}

Status optimize(ir::Module& module, const OptimizeOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(run(kInlineCalls, module).status());
  PLIMSOLL_RETURN_IF_ERROR(clean_up(module));
  if (options.fused_attention) PLIMSOLL_RETURN_IF_ERROR(run(kAttention, module).status());
  PLIMSOLL_ASSIGN_OR_RETURN(const bool relaid, run(kLayouts, module));
  if (relaid) PLIMSOLL_RETURN_IF_ERROR(clean_up(module));
  if (options.fusion == Fusion::none) return ok_status();
  for (const PassInfo* pass : {&kFuse, &kFuseRows, &kFuseMultiOutput, &kCse, &kDce}) {
    if (pass == &kFuseMultiOutput && options.fusion == Fusion::vertical) continue;
    PLIMSOLL_RETURN_IF_ERROR(run(*pass, module, options.speeds).status());
  }
  if (!options.launches_cost || options.fusion != Fusion::full) return ok_status();
  return run(kFuseHorizontal, module).status();
}

}  // namespace plimsoll::passes
