// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/pointer_set.h"
#include "runtime/ir/fusions/in_place.h"
#include "runtime/ir/hint.h"
#include "runtime/passes/fusion/fused_body.h"
#include "runtime/passes/fusion/fusion_rules.h"
#include "runtime/passes/fusion/merged_kernel.h"
#include "runtime/passes/fusion/sums.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

// Only kernels this close in the schedule are merged: the results of a kernel are born together,
// and one that was to be born much later would take memory for nothing.
constexpr int kOutputWindow = 64;

// What a fusion or a lone instruction looks like as a kernel.
struct Kernel {
  FusionProfile profile;
  std::vector<Instruction*> outputs;  // itself, or its get-tuple-elements
};

std::optional<Kernel> kernel_of(Instruction& instruction, const KernelSpeeds& speeds) {
  if (!instruction.control_predecessors().empty() || !instruction.control_successors().empty() ||
      instruction.users().empty()) {
    return std::nullopt;
  }
  Kernel kernel;
  std::optional<FusionProfile> profile;
  if (instruction.opcode() == Opcode::fusion) {
    if (instruction.attributes().fusion_kind != ir::FusionKind::loop &&
        instruction.attributes().fusion_kind != ir::FusionKind::input) {
      return std::nullopt;
    }
    profile = profile_of_kernel(*instruction.to_apply(), speeds);
  } else if (is_fusible(instruction) && instruction.shape().is_array() && !is_free(instruction)) {
    Instruction* one[] = {&instruction};
    profile = examine_fusion(one, one, speeds);
  }
  if (!profile) return std::nullopt;
  kernel.profile = std::move(*profile);
  auto outputs = kernel_outputs(instruction);
  if (!outputs) return std::nullopt;
  kernel.outputs = std::move(*outputs);
  return kernel;
}

// Updates share a kernel where each reads what it replaces and all are made in one sweep, in place.
// What is only written, as a stack of residuals is, keeps a kernel of its own, by which it is known
// (ir/dataflow/scan_residuals.h).
//
// Example: a round of an optimizer's step, m[i] = 0.9 m[i] + g; w[i] = w[i] - 0.1 m[i].
bool may_update(const Computation& fused) {
  Instruction* const root = fused.root();
  const std::vector<Instruction*> results =
      root->opcode() == Opcode::tuple ? root->operands() : std::vector<Instruction*>{root};
  bool updates = false;
  for (const Instruction* result : results) {
    if (result->opcode() != Opcode::dynamic_update_slice) continue;
    updates = true;
    if (results.size() > 1 && result->operand(0)->users().size() < 2) return false;
  }
  return !updates || ir::updates_in_place(fused);
}

// Kernels that walk the same elements become one with several results: siblings, which read the
// same large input (it is read once), or a producer and its consumer where others want the
// producer's result as well.
//
// Merging kernels needs care with the order. Let A be the next kernel of the schedule and B one
// behind it in the window. The merged kernel runs at B's place or before, after everything B reads;
// whatever depends on A must come behind it. So if anything between the two depends on A and B
// depends on that, the merged kernel would need its own result: no merge (`indirectly`). Otherwise
// the window is put in a new order: first all that does not depend on A, then A and B as one, then
// what depended on A. The walk goes on at the front of that, so that the merged kernel itself is
// offered to the next candidates.
//
// Example: A, C (reads A), D, B (reads A and D). B does not need C, so the new order is D, A+B, C.
// Had B read C, nothing could be done.
//
// The window is short (kOutputWindow kernels), for a reason of memory: results of a merged kernel
// are born together. Merging the first use of a large input with one a thousand steps later would
// keep the second result for a thousand steps.
class MultiOutputFusion {
 public:
  MultiOutputFusion(Computation& computation, const KernelSpeeds& speeds)
      : computation_(computation), speeds_(speeds) {}

  bool run() {
    const auto& instructions = computation_.instructions();
    for (auto it = instructions.rbegin(); it != instructions.rend(); ++it) {
      ahead_.push_back({it->get(), kernel_of(**it, speeds_)});
    }
    bool changed = false;
    while (!ahead_.empty()) {
      if (merge_next()) {
        changed = true;
        continue;  // what stands here now is looked at again
      }
      done_.push_back(ahead_.back().instruction);
      ahead_.pop_back();
    }
    if (!changed) return false;
    computation_.remove_dead();
    Set live(computation_.instructions().size());
    for (const auto& instruction : computation_.instructions()) live.insert(instruction.get());
    std::erase_if(done_, [&](const Instruction* i) { return !live.contains(i); });
    computation_.set_order(done_);
    return true;
  }

 private:
  struct Slot {
    Instruction* instruction;
    std::optional<Kernel> kernel;
  };
  using Set = PointerSet<Instruction>;

  // The k-th instruction that is not done.
  Slot& ahead(std::size_t k) { return ahead_[ahead_.size() - 1 - k]; }

  // Merges the next kernel with the first one in its window that it fits.
  bool merge_next() {
    if (!ahead(0).kernel) return false;
    // What depends on the kernel other than by reading it directly can't come before a merged
    // kernel, and must not feed it.
    Set own;
    own.insert(ahead(0).instruction);
    for (const Instruction* output : ahead(0).kernel->outputs) own.insert(output);
    Set after;
    int kernels = 0, attempts = 0;
    const std::size_t end = std::min<std::size_t>(ahead_.size(), 8 * kOutputWindow);
    for (std::size_t k = 1; k < end && kernels < kOutputWindow && attempts < kMaxAttempts; ++k) {
      const Instruction& candidate = *ahead(k).instruction;
      if (own.contains(&candidate)) continue;
      bool depends = false, indirectly = false;
      const auto look = [&](const Instruction* before) {
        depends = depends || own.contains(before) || after.contains(before);
        indirectly = indirectly || after.contains(before);
      };
      for (const Instruction* operand : candidate.operands()) look(operand);
      for (const Instruction* before : candidate.control_predecessors()) look(before);
      if (ahead(k).kernel) {
        ++kernels;
        if (!indirectly && may_fit(ahead(0), ahead(k))) {
          ++attempts;
          if (merge(k, own, after)) return true;
        }
      }
      if (depends) after.insert(&candidate);
    }
    return false;
  }

  // A cheap look before the merged body is built and examined.
  static bool may_fit(const Slot& first, const Slot& second) {
    const Kernel& a = *first.kernel;
    const Kernel& b = *second.kernel;
    const auto reads = [](const Slot& slot, const Instruction* value) {
      return contains(slot.instruction->operands(), value);
    };
    std::int64_t loop_count = 1;
    for (std::int64_t d : a.profile.loop_dims) loop_count *= d;
    bool feeds = false;
    for (const Instruction* output : a.outputs) {
      if (!reads(second, output)) continue;
      if (ir::must_materialize(*output)) return false;
      feeds = true;
      const std::int64_t count = output->shape().element_count();
      // A value that is read at other places than where it is made would be recomputed.
      if (count != loop_count && count != b.profile.result_count) return false;
    }
    if (!(a.profile.loop_dims == b.profile.loop_dims)) {
      return feeds && a.profile.is_reduction && !b.profile.is_reduction &&
             a.profile.result_count == b.profile.result_count;
    }
    if (a.profile.is_reduction && b.profile.is_reduction &&
        a.profile.result_count != b.profile.result_count) {
      return false;
    }
    const auto& operands = first.instruction->operands();
    return feeds || std::any_of(operands.begin(), operands.end(), [&](const Instruction* input) {
             return input->shape().is_array() && input->shape().element_count() >= loop_count &&
                    reads(second, input);
           });
  }

  // Two steps of a sum that vertical fusion left apart (sums.h): together they would wait for the
  // addends of both.
  //
  // Example: s1 = a + b, s2 = s1 + c, s3 = s2 + d, with a ... d the results of dots. Step by step,
  // one dot's result is there besides the sum. As one kernel all four wait for the last dot: 3
  // arrays more at the peak, which is the moment of the backward pass that usually is the
  // program's.
  static bool accumulate_apart(const Instruction& a, const Instruction& b) {
    const auto is_step = [](const Instruction& step) {
      const Instruction& last = step.opcode() == Opcode::fusion ? *step.to_apply()->root() : step;
      return last.opcode() == Opcode::add &&
             std::any_of(step.operands().begin(), step.operands().end(),
                         [](const Instruction* input) {
                           return input->opcode() != Opcode::fusion && waits_for_sum(*input);
                         });
    };
    return a.users().size() == 1 && a.users()[0] == &b && !a.is_root() && is_step(a) && is_step(b);
  }

  bool merge(std::size_t k, const Set& own, const Set& after) {
    Instruction& a = *ahead(0).instruction;
    Instruction& b = *ahead(k).instruction;
    std::vector<Instruction*> outputs;
    for (Instruction* output : ahead(0).kernel->outputs) {
      const bool internal =
          !output->is_root() && output->users().size() == 1 && output->users()[0] == &b;
      if (!internal) outputs.push_back(output);
    }
    outputs.insert(outputs.end(), ahead(k).kernel->outputs.begin(), ahead(k).kernel->outputs.end());
    if (outputs.size() > static_cast<std::size_t>(kMaxFusionOutputs)) return false;
    if (accumulate_apart(a, b)) return false;

    FusedBody body(*computation_.module());
    body.add(a);
    body.add(b);
    std::vector<Instruction*> results;
    for (Instruction* output : outputs) results.push_back(body.value(output));
    body.finish(results);
    if (!may_update(*body.computation())) return false;
    auto profile = profile_of_kernel(*body.computation(), speeds_);
    if (!profile || profile->input_count > kMaxFusionInputs ||
        fused_size(kernel_members(*body.computation())) > kMaxFusedInstructions ||
        profile->seconds > ahead(0).kernel->profile.seconds + ahead(k).kernel->profile.seconds) {
      return false;
    }
    replace(k, own, after, outputs, body, std::move(*profile));
    return true;
  }

  void replace(std::size_t k, const Set& own, const Set& after,
               const std::vector<Instruction*>& outputs, FusedBody& body, FusionProfile profile) {
    const auto kind = profile.is_reduction ? ir::FusionKind::input : ir::FusionKind::loop;
    auto [fusion, results] = add_merged_kernel(computation_, body, kind, outputs);
    Kernel kernel{std::move(profile), std::move(results)};

    // The window becomes: what does not depend on the first kernel, the merged one, the rest.
    std::vector<Slot> before, behind;
    for (std::size_t i = 0; i <= k; ++i) {
      Slot& slot = ahead(i);
      if (i == k || own.contains(slot.instruction)) continue;
      (after.contains(slot.instruction) ? behind : before).push_back(std::move(slot));
    }
    ahead_.resize(ahead_.size() - k - 1);
    for (auto it = behind.rbegin(); it != behind.rend(); ++it) ahead_.push_back(std::move(*it));
    for (auto it = kernel.outputs.rbegin(); it != kernel.outputs.rend(); ++it) {
      if (*it != fusion) ahead_.push_back({*it, std::nullopt});
    }
    ahead_.push_back({fusion, std::move(kernel)});
    for (auto it = before.rbegin(); it != before.rend(); ++it) ahead_.push_back(std::move(*it));
  }

  static constexpr int kMaxAttempts = 8;

  Computation& computation_;
  const KernelSpeeds& speeds_;
  std::vector<Instruction*> done_;  // in the new order
  std::vector<Slot> ahead_;         // in the old order, the next one last
};

}  // namespace

Result<bool> fuse_multi_output(ir::Module& module, const KernelSpeeds& speeds) {
  bool changed = false;
  for (Computation* computation : programs_of(module)) {
    if (MultiOutputFusion(*computation, speeds).run()) changed = true;
  }
  module.remove_unreachable();
  return changed;
}

}  // namespace plimsoll::passes
