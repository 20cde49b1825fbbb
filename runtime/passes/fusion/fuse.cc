// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/pointer_map.h"
#include "runtime/base/pointer_set.h"
#include "runtime/ir/fusions/in_place.h"
#include "runtime/ir/hint.h"
#include "runtime/passes/fusion/fused_body.h"
#include "runtime/passes/fusion/fusion_rules.h"
#include "runtime/passes/fusion/made_bytes.h"
#include "runtime/passes/fusion/standing_values.h"
#include "runtime/passes/fusion/sums.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

// Vertical fusion of one computation. Going from users to operands, an instruction joins the groups
// of all its users, or starts a group of its own. All users of a group's members but the root's are
// in the group (copies included), so a group can't be part of a cycle.
//
// Example: y = exp(x), s = y + a, t = y * b, where s and t are read by dots. The walk goes t, s, y.
// t and s start groups of their own (a dot is no loop: they have a user outside). y has users in
// two groups, so it may join both and be computed twice. That costs one more exponential an
// element and reads x in both kernels instead of y; apart, there is one kernel more, which reads x
// and writes y. What is less by the model (fusion_price.h) is done.
//
// The walk from the back is what makes one decision per instruction enough: when it comes to an
// instruction, all its users have been placed. And since a group takes an instruction only together
// with all of its users (or a copy of it), nothing outside a group lies between two of its members:
// the fusion can stand where its root stood.
class VerticalFusion {
 public:
  VerticalFusion(Computation& computation, const KernelSpeeds& speeds, bool narrow)
      : computation_(computation),
        speeds_(speeds),
        narrow_(narrow),
        accumulations_(accumulations(computation)),
        made_(computation),
        standing_(narrow ? standing_values(computation) : StandingValues()),
        visited_(computation.instructions().size()),
        groups_of_(computation.instructions().size()) {}

  bool run() {
    const auto& instructions = computation_.instructions();
    for (auto it = instructions.rbegin(); it != instructions.rend(); ++it) {
      visit(**it);
    }
    return emit();
  }

 private:
  struct Group {
    std::vector<Instruction*> members;  // users before operands; the root first
    double seconds = 0;                 // as one kernel
    Instruction* root() const { return members[0]; }
  };

  // A spread constant is visited right after the last of its users, wherever it stands: groups hold
  // a limited number of instructions, and one that is full would read it as an array.
  void visit(Instruction& instruction) {
    if (!visited_.insert(&instruction)) return;
    if (is_fusible(instruction) && (instruction.is_root() || !instruction.users().empty())) {
      place(instruction);
    }
    for (Instruction* const operand : instruction.operands()) {
      if (!is_spread_constant(*operand) || operand->is_root()) continue;
      const auto& users = operand->users();
      std::size_t& seen = users_seen_[operand];
      while (seen < users.size() && visited_.contains(users[users.size() - 1 - seen])) ++seen;
      if (seen == users.size()) visit(*operand);
    }
  }

  void place(Instruction& instruction) {
    if (ir::must_materialize(instruction) || accumulations_.contains(&instruction) ||
        is_start_of_slice(instruction)) {
      return start(instruction);
    }
    bool outside = instruction.is_root();
    std::vector<int> groups;
    for (const Instruction* user : instruction.users()) {
      const std::vector<int>* const of_user = groups_of_.find(user);
      if (of_user == nullptr) {
        outside = true;
        continue;
      }
      for (int group : *of_user) {
        if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
      }
    }
    if (copies_freely(instruction, outside)) {
      for (int group : groups) {
        if (const auto with = profile_with({&instruction}, group)) {
          join(instruction, group, with->seconds);
        } else {
          outside = true;
        }
      }
    } else if (outside || !joins_all(instruction, groups)) {
      outside = true;
    }
    if (outside) start(instruction);
  }

  // What costs nothing goes wherever it is used. A view of something computed here is an exception
  // where it has to be stored anyway: the others read what is stored.
  bool copies_freely(const Instruction& instruction, bool outside) const {
    if (!is_free(instruction)) return false;
    switch (instruction.opcode()) {
      case Opcode::reshape:
      case Opcode::bitcast:
      case Opcode::slice:
        return !outside || !is_fusible(*instruction.operand(0));
      default:
        return true;
    }
  }

  // Counters of loops stay readable where slices of residuals are taken.
  static bool is_start_of_slice(const Instruction& instruction) {
    return instruction.shape().is_scalar() && !is_free(instruction) &&
           std::any_of(instruction.users().begin(), instruction.users().end(),
                       [](const auto* u) { return u->opcode() == Opcode::dynamic_slice; });
  }

  // Joins all groups, if a rule allows it and it takes less time than a kernel of its own.
  bool joins_all(Instruction& instruction, const std::vector<int>& groups) {
    if (instruction.opcode() == Opcode::dynamic_update_slice || !instruction.shape().is_array()) {
      return false;
    }
    constexpr double kOnce = 1 + 1e-6;
    std::vector<double> seconds;
    double evaluations = 0;
    for (int group : groups) {
      const auto with = profile_with({&instruction}, group);
      if (!with || keeps_operand(instruction, groups_[at(group)])) return false;
      evaluations += with->evaluations.back();
      seconds.push_back(with->seconds);
    }
    if (evaluations > kOnce || groups.size() > 1) {
      if (groups.size() > 1 && !may_be_copied(instruction)) return false;
      if (!pays_to_repeat(instruction, groups)) return false;
    }
    for (std::size_t i = 0; i < groups.size(); ++i) join(instruction, groups[i], seconds[i]);
    return true;
  }

  // Whether a large operand, of which `instruction` makes little, would have to stay for the group
  // while more than its own size is made: the group waits for its other operands. A launch is less
  // than that.
  //
  // Example: the loss of a classifier takes one logit of each row and the logarithm of the rows'
  // sums of exponentials. In one kernel with the loss the logits would be read again when the
  // exponentials are there already, which could have taken their place.
  bool keeps_operand(const Instruction& instruction, const Group& group) const {
    constexpr std::int64_t kLittle = 16, kLeastBytes = 64 << 10;
    for (const Instruction* operand : instruction.operands()) {
      const std::int64_t bytes = operand->shape().byte_size();
      if (bytes < std::max(kLeastBytes, kLittle * instruction.shape().byte_size()) ||
          operand->opcode() == Opcode::parameter || operand->opcode() == Opcode::constant ||
          operand->is_root()) {
        continue;
      }
      double last = 0;  // when the operand could go: nothing but its readers keep it
      for (const Instruction* own : instruction.operands()) {
        last = std::max(last, made_.until(*own));
      }
      bool reads_it = false;
      for (const Instruction* user : operand->users()) {
        if (user == &instruction) continue;
        reads_it = reads_it || contains(group.members, user);
        last = std::max(last, made_.before(*user));
      }
      if (reads_it) continue;
      double ready = 0;  // when the group's other operands are
      for (const Instruction* member : group.members) {
        for (const Instruction* other : member->operands()) {
          if (other != &instruction && !contains(group.members, other)) {
            ready = std::max(ready, made_.until(*other));
          }
        }
      }
      if (ready - last > static_cast<double>(bytes)) return true;
    }
    return false;
  }

  // A copy makes its group read (and memory hold) the operand instead of the result, so there must
  // be one at most, no larger, or one that is there throughout.
  static bool may_be_copied(const Instruction& instruction) {
    constexpr std::int64_t kNothing = 4 << 10;
    std::int64_t bytes = 0;
    for (const Instruction* operand : large_operands(instruction)) {
      if (operand->opcode() == Opcode::parameter && instruction.opcode() == Opcode::gather)
        continue;
      bytes += operand->shape().byte_size();
    }
    return bytes <= std::max(kNothing, instruction.shape().byte_size());
  }

  // What `instruction` would be a kernel with if it stood alone: what feeds it and nothing else.
  static std::vector<Instruction*> chain_of(Instruction& instruction) {
    constexpr std::size_t kLongest = 4;
    std::vector<Instruction*> chain = {&instruction};
    while (chain.size() < kLongest) {
      const std::vector<Instruction*> large = large_operands(*chain.back());
      if (large.size() != 1) break;
      Instruction& next = *large[0];
      if (!is_fusible(next) || next.is_root() || next.users().size() != 1 ||
          ir::must_materialize(next)) {
        break;
      }
      chain.push_back(&next);
    }
    return chain;
  }

  // Whether computing `instruction` in all of `groups`, more than once in all, takes less time than
  // a kernel that stores it. The kernel may begin further up the chain that feeds it, and so may
  // what is computed in the groups.
  //
  // In seconds of the model: `apart` is the kernel that stores what is wanted, together with what
  // feeds it alone (the chain); `together` is what the groups take more than before when they
  // compute it themselves. The groups may take a part of the chain only: a chain c <- d <- e may
  // end as "e in a kernel, c and d in each group", which is best where e is dear and c and d are
  // not.
  //
  // Example, f32[1024,1024] (4 MiB, 131 us to read or write at 32 GB/s): y = -x for two users.
  // Apart: 131 us to read x, 131 us to write y, 0.4 us for the launch; the users read y. Together:
  // the users read x where they read y, and negate it while they wait for memory: 0 us more. So it
  // is copied.
  bool pays_to_repeat(Instruction& instruction, const std::vector<int>& groups) const {
    const std::vector<Instruction*> chain = chain_of(instruction);
    const double apart = kernel_seconds(chain);
    std::optional<double> together;  // below zero where the groups read less than before
    for (std::size_t n = 1; n <= chain.size(); ++n) {
      const std::span<Instruction* const> inside = std::span(chain).first(n);
      double sum = n < chain.size() ? kernel_seconds(std::span(chain).subspan(n)) : 0;
      bool fits = true;
      for (int group : groups) {
        const auto with = profile_with(inside, group);
        fits = fits && with.has_value();
        if (with) sum += with->seconds - groups_[at(group)].seconds;
      }
      if (!fits) break;
      if (!together || sum < *together) together = sum;
    }
    return together && *together < apart;
  }

  // As one kernel with the first as its result, or as several where it can't be one.
  double kernel_seconds(std::span<Instruction* const> members) const {
    const auto profile = examine_fusion(members, members.first(1), speeds_);
    if (profile) return profile->seconds;
    double sum = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto one = examine_fusion(members.subspan(i, 1), members.subspan(i, 1), speeds_);
      if (one) sum += one->seconds;
    }
    return sum;
  }

  // Whether `instruction` reads the array that the group updates elsewhere than where it is
  // replaced: the kernel would have to write all of the array to another place.
  //
  // Example: y' = dynamic-update-slice(y, 0.5 * dynamic-slice(y, i), i + 1). A kernel of its own
  // takes the slice.
  static bool keeps_from_place(const Instruction& instruction, const Instruction& root) {
    return root.opcode() == Opcode::dynamic_update_slice && &instruction != &root &&
           contains(instruction.operands(), root.operand(0)) &&
           !ir::reads_what_it_replaces(instruction, root);
  }

  // The group with `added` as further members; nothing when they can't be.
  std::optional<FusionProfile> profile_with(std::span<Instruction* const> added, int group) const {
    std::vector<Instruction*> members = groups_[at(group)].members;
    for (const Instruction* instruction : added) {
      if (keeps_from_place(*instruction, *members[0])) return {};
    }
    if (fused_size(members) + fused_size(added) > kMaxFusedInstructions) return {};
    const std::int64_t bytes = narrow_ ? bytes_read(members, standing_) : 0;
    members.insert(members.end(), added.begin(), added.end());
    if (narrow_ && bytes_read(members, standing_) > bytes) return {};
    auto profile = examine_fusion(members, std::span(members).first(1), speeds_);
    if (!profile || profile->input_count > kMaxFusionInputs) return {};
    return profile;
  }
  std::optional<FusionProfile> profile_with(std::initializer_list<Instruction*> added,
                                            int group) const {
    return profile_with(std::span(added.begin(), added.size()), group);
  }

  void join(Instruction& instruction, int group, double seconds) {
    Group& joined = groups_[at(group)];
    joined.members.push_back(&instruction);
    joined.seconds = seconds;
    groups_of_[&instruction].push_back(group);
  }

  void start(Instruction& instruction) {
    groups_of_[&instruction].push_back(static_cast<int>(groups_.size()));
    Instruction* const alone[] = {&instruction};
    groups_.push_back({{&instruction}, kernel_seconds(alone)});
  }

  static bool is_worth_it(const Group& group) {
    if (group.members.size() < 2) return false;
    // Loop counters stay readable: trip counts are found by looking at them.
    return !std::all_of(group.members.begin(), group.members.end(), [](const Instruction* m) {
      return m->shape().is_scalar() && !is_floating(m->shape().dtype());
    });
  }

  Instruction* add_fusion(const Group& group,
                          const PointerMap<Instruction, Instruction*>& fusions) {
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
      Instruction* const* const fusion = fusions.find(input);
      operands.push_back(fusion == nullptr ? input : *fusion);
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
    fusion->set_called_computations({body.release()});
    computation_.set_root(root);
    return fusion;
  }

  bool emit() {
    PointerMap<Instruction, const Group*> group_with_root;
    for (const Group& group : groups_) {
      if (is_worth_it(group)) group_with_root.emplace(group.root(), &group);
    }
    if (group_with_root.size() == 0) return false;
    std::vector<Instruction*> before, order;
    for (const auto& instruction : computation_.instructions()) before.push_back(instruction.get());
    PointerMap<Instruction, Instruction*> fusions(group_with_root.size());
    for (Instruction* instruction : before) {
      order.push_back(instruction);
      const Group* const* const group = group_with_root.find(instruction);
      if (group == nullptr) continue;
      Instruction* fusion = add_fusion(**group, fusions);
      fusions.emplace(instruction, fusion);
      order.push_back(fusion);
    }
    for (Instruction* instruction : before) {
      Instruction* const* const fusion = fusions.find(instruction);
      if (fusion != nullptr) instruction->replace_all_uses_with(*fusion);
    }
    computation_.set_order(order);
    computation_.remove_dead();
    return true;
  }

  Computation& computation_;
  const KernelSpeeds& speeds_;
  const bool narrow_;  // no kernel reads more bytes than the operations did that it replaces
  const std::unordered_set<const Instruction*> accumulations_;
  const MadeBytes made_;
  const StandingValues standing_;
  std::vector<Group> groups_;
  PointerSet<Instruction> visited_;
  // Of the users of spread constants, how many have been visited, from the last one on.
  PointerMap<Instruction, std::size_t> users_seen_;
  PointerMap<Instruction, std::vector<int>> groups_of_;
};

bool fuse_programs(ir::Module& module, const KernelSpeeds& speeds, bool narrow) {
  bool changed = false;
  for (Computation* computation : programs_of(module)) {
    if (VerticalFusion(*computation, speeds, narrow).run()) changed = true;
  }
  if (changed) module.remove_unreachable();
  return changed;
}

}  // namespace

Result<bool> fuse(ir::Module& module, const KernelSpeeds& speeds) {
  return fuse_programs(module, speeds, false);
}

// An operation goes into its users' kernels only where what it reads takes no more bytes than what
// it makes, which the kernel then reads no more. Any order of the single operations is then one of
// the kernels that needs no more memory: the operands are there instead of the result from its
// place on to the last user's. So the least memory of the module is not raised, whatever else is
// alive.
Result<bool> fuse_narrowly(ir::Module& module, const KernelSpeeds& speeds) {
  return fuse_programs(module, speeds, true);
}

}  // namespace plimsoll::passes
