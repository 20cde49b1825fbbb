// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/ir/hint.h"
#include "runtime/passes/fused_body.h"
#include "runtime/passes/fusion_rules.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"
#include "runtime/passes/sums.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

// Vertical fusion of one computation. Going from users to operands, an instruction joins the groups
// of all its users, or starts a group of its own. All users of a group's members but the root's are
// in the group (copies included), so a group can't be part of a cycle.
class VerticalFusion {
 public:
  explicit VerticalFusion(Computation& computation)
      : computation_(computation), accumulations_(accumulations(computation)) {}

  bool run() {
    const auto& instructions = computation_.instructions();
    for (auto it = instructions.rbegin(); it != instructions.rend(); ++it) {
      Instruction& instruction = **it;
      if (is_fusible(instruction) && (instruction.is_root() || !instruction.users().empty())) {
        place(instruction);
      }
    }
    return emit();
  }

 private:
  struct Group {
    std::vector<Instruction*> members;  // users before operands; the root first
    Instruction* root() const { return members[0]; }
  };

  void place(Instruction& instruction) {
    if (ir::must_materialize(instruction) || accumulations_.contains(&instruction)) {
      return start(instruction);
    }
    bool outside = instruction.is_root();
    std::vector<int> groups;
    for (const Instruction* user : instruction.users()) {
      const auto it = groups_of_.find(user);
      if (it == groups_of_.end()) {
        outside = true;
        continue;
      }
      for (int group : it->second) {
        if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
      }
    }
    if (copies_freely(instruction, outside)) {
      for (int group : groups) {
        if (evaluations_in(instruction, group) >= 0) {
          join(instruction, group);
        } else {
          outside = true;
        }
      }
    } else if (!outside && joins_all(instruction, groups)) {
      for (int group : groups) join(instruction, group);
    } else {
      outside = true;
    }
    if (outside) start(instruction);
  }

  // What costs nothing goes wherever it is used. A view of something computed here is an exception
  // where it has to be stored anyway: the others read what is stored.
  bool copies_freely(const Instruction& instruction, bool outside) const {
    if (fusion_cost(instruction) != FusionCost::free) return false;
    switch (instruction.opcode()) {
      case Opcode::reshape:
      case Opcode::bitcast:
      case Opcode::slice:
        return !outside || !is_fusible(*instruction.operand(0));
      default:
        return true;
    }
  }

  bool joins_all(Instruction& instruction, const std::vector<int>& groups) const {
    if (instruction.opcode() == Opcode::dynamic_update_slice || !instruction.shape().is_array()) {
      return false;
    }
    const double limit =
        groups.size() > 1 ? copies_limit(instruction) : evaluation_limit(instruction);
    double total = 0;
    for (int group : groups) {
      const double evaluations = evaluations_in(instruction, group);
      if (evaluations < 0) return false;
      total += evaluations;
    }
    return total <= limit;
  }

  // How often an instruction may be computed in several groups together. A copy makes its group
  // read (and memory hold) the operand instead of the result, so there must be one at most, no
  // larger.
  static double copies_limit(const Instruction& instruction) {
    constexpr int kLightChain = 3;
    constexpr double kLightLimit = 4, kCheapLimit = 2;
    const Instruction* at = &instruction;
    for (int i = 0; i < kLightChain; ++i) {
      if (fusion_cost(*at) == FusionCost::expensive) return i == 0 ? 0 : kCheapLimit;
      const std::vector<Instruction*> large = large_operands(*at);
      if (large.empty()) return kLightLimit;
      if (large.size() > 1 || large[0]->shape().byte_size() > at->shape().byte_size()) {
        return i == 0 ? 0 : kCheapLimit;
      }
      at = large[0];
      if (!is_fusible(*at)) return kLightLimit;  // read from memory, whoever asks
    }
    return kCheapLimit;
  }

  // Evaluations per element of `instruction` as a member of a group; negative when it can't be one.
  double evaluations_in(Instruction& instruction, int group) const {
    std::vector<Instruction*> members = groups_[static_cast<std::size_t>(group)].members;
    if (members.size() >= static_cast<std::size_t>(kMaxFusedInstructions)) return -1;
    members.push_back(&instruction);
    const auto profile = examine_fusion(members, std::span(members).first(1));
    if (!profile || profile->input_count > kMaxFusionInputs) return -1;
    return profile->evaluations.back();
  }

  void join(Instruction& instruction, int group) {
    groups_[static_cast<std::size_t>(group)].members.push_back(&instruction);
    groups_of_[&instruction].push_back(group);
  }

  void start(Instruction& instruction) {
    groups_of_[&instruction].push_back(static_cast<int>(groups_.size()));
    groups_.push_back({{&instruction}});
  }

  static bool is_worth_it(const Group& group) {
    if (group.members.size() < 2) return false;
    // Loop counters stay readable: trip counts are found by looking at them.
    return !std::all_of(group.members.begin(), group.members.end(), [](const Instruction* m) {
      return m->shape().is_scalar() && !is_floating(m->shape().dtype());
    });
  }

  Instruction* add_fusion(const Group& group,
                          const std::unordered_map<const Instruction*, Instruction*>& fusions) {
    FusedBody body(*computation_.module());
    for (auto it = group.members.rbegin(); it != group.members.rend(); ++it) body.add(**it);
    Instruction* result = body.value(group.root());
    std::vector<Instruction*> results = {result};
    if (result->shape().is_tuple()) {
      results.clear();
      for (std::size_t i = 0; i < result->shape().elements().size(); ++i) {
        results.push_back(
            body.computation()->add_get_tuple_element(result, static_cast<std::int64_t>(i)));
      }
    }
    body.finish(results);

    std::vector<Instruction*> operands;
    for (Instruction* input : body.inputs()) {
      const auto it = fusions.find(input);
      operands.push_back(it == fusions.end() ? input : it->second);
    }
    ir::Attributes attributes;
    const bool reduces =
        std::any_of(group.members.begin(), group.members.end(),
                    [](const Instruction* member) { return member->opcode() == Opcode::reduce; });
    attributes.fusion_kind = reduces ? ir::FusionKind::input : ir::FusionKind::loop;
    for (const auto& [name, text] : group.root()->attributes().extra) {
      if (name == "metadata") attributes.extra.emplace_back(name, text);
    }
    ir::set_hint(attributes, ir::hint_of(*group.root()));
    Instruction* root = computation_.root();
    Instruction* fusion =
        computation_.add(Opcode::fusion, group.root()->shape(), std::move(operands),
                         fusion_name(*body.computation()), std::move(attributes));
    fusion->set_called_computations({body.computation()});
    computation_.set_root(root);
    return fusion;
  }

  bool emit() {
    std::unordered_map<const Instruction*, const Group*> group_with_root;
    for (const Group& group : groups_) {
      if (is_worth_it(group)) group_with_root.emplace(group.root(), &group);
    }
    if (group_with_root.empty()) return false;
    std::vector<Instruction*> before, order;
    for (const auto& instruction : computation_.instructions()) before.push_back(instruction.get());
    std::unordered_map<const Instruction*, Instruction*> fusions;
    for (Instruction* instruction : before) {
      order.push_back(instruction);
      const auto it = group_with_root.find(instruction);
      if (it == group_with_root.end()) continue;
      Instruction* fusion = add_fusion(*it->second, fusions);
      fusions.emplace(instruction, fusion);
      order.push_back(fusion);
    }
    for (Instruction* instruction : before) {
      const auto it = fusions.find(instruction);
      if (it != fusions.end()) instruction->replace_all_uses_with(it->second);
    }
    computation_.set_order(order);
    computation_.remove_dead();
    return true;
  }

  Computation& computation_;
  const std::unordered_set<const Instruction*> accumulations_;
  std::vector<Group> groups_;
  std::unordered_map<const Instruction*, std::vector<int>> groups_of_;
};

}  // namespace

Result<bool> fuse(ir::Module& module) {
  bool changed = false;
  for (Computation* computation : programs_of(module)) {
    if (VerticalFusion(*computation).run()) changed = true;
  }
  if (changed) module.remove_unreachable();
  return changed;
}

}  // namespace plimsoll::passes
