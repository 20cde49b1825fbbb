// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/baselines/greedy_pass.h"

#include <algorithm>
#include <limits>

#include "runtime/base/index.h"

// The baseline that is compared with: the greedy rematerialization of compilers such as XLA. It
// goes over the schedule once; where more is live than the limit, it picks a block of consecutive
// earlier instructions, clones it behind the present one (before the first that needs it) and goes
// on. What is done is never taken back, and what is cloned early may be missing later: this is why
// it stops at limits far above the floor.
//
// The pick is the block with the most bytes saved. A block whose results nobody has read yet costs
// nothing: it is only moved. Blocks of 1, 2, 4, ... instructions are tried, larger ones only where
// no smaller one helps.
//
// What may loop for ever is cut off: an instruction that is moved twice in a row is denied from
// then on, and no schedule grows beyond 8 times its length.

namespace plimsoll::planner {
namespace {

using ir::Instruction;
using ir::Opcode;

bool is_chain_link(const Instruction& instruction) {
  return instruction.opcode() == Opcode::bitcast ||
         instruction.opcode() == Opcode::get_tuple_element;
}

bool is_rematerializable(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::call:
    case Opcode::constant:
    case Opcode::conditional:
    case Opcode::custom_call:
    case Opcode::parameter:
    case Opcode::while_:
    case Opcode::copy:  // layouts are kept: a copy of a copy frees nothing
      return false;
    default:
      return ir::op_info(instruction.opcode()).op_class != ir::OpClass::async &&
             !instruction.has_side_effect();
  }
}

// Whether anything but links that nobody reads any more uses it.
bool is_read(const Instruction& instruction) {
  return std::any_of(
      instruction.users().begin(), instruction.users().end(),
      [](const Instruction* user) { return !is_chain_link(*user) || is_read(*user); });
}

bool runs_callees(const Instruction& instruction) {
  return ir::op_info(instruction.opcode()).op_class == ir::OpClass::control;
}

std::int64_t highest_channel(const ir::Module& module) {
  std::int64_t highest = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      const auto& collective = instruction->attributes().collective;
      if (collective != nullptr) highest = std::max(highest, collective->channel_id);
    }
  }
  return highest;
}

}  // namespace

int GreedyPass::index(const Instruction* instruction) const { return index_.at(instruction); }

void GreedyPass::reindex() {
  index_.clear();
  for (std::size_t i = 0; i < order_.size(); ++i) index_[order_[i]] = static_cast<int>(i);
}

std::int64_t GreedyPass::callee_usage(const Instruction& instruction) {
  if (!runs_callees(instruction)) return 0;
  std::int64_t bytes = 0;
  for (const ir::Computation* callee : instruction.called_computations()) bytes += peak(*callee);
  return bytes;
}

std::int64_t GreedyPass::peak(const ir::Computation& computation) {
  const auto known = peaks_.find(&computation);
  if (known != peaks_.end()) return known->second;
  std::vector<Instruction*> order;
  for (const auto& instruction : computation.instructions()) order.push_back(instruction.get());
  const GreedyLiveness liveness(order, computation.root(), options_.tuple_entry_bytes);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    most = std::max(most, liveness.usage(static_cast<int>(i)) + callee_usage(*order[i]));
  }
  peaks_[&computation] = most;
  return most;
}

bool GreedyPass::is_candidate(const Instruction& instruction, int now) {
  if (denied_.contains(&instruction) || !is_rematerializable(instruction)) return false;
  return std::none_of(instruction.control_successors().begin(),
                      instruction.control_successors().end(),
                      [&](const Instruction* successor) { return index(successor) <= now; });
}

// Bytes that go now if the block is computed again later: what it defines and nobody needs now,
// minus the dead operands that must stay for it. 0 when it may not be moved.
std::int64_t GreedyPass::saved_bytes(const GreedyLiveness& liveness, int first, int count,
                                     int now) const {
  std::int64_t bytes = 0;
  for (int i = first; i < first + count; ++i) {
    for (const int b : liveness.defined(i)) {
      if (liveness.buffer(b).indirect) return 0;
      if (liveness.alive(b, now) && !liveness.used_by(b, now)) bytes += liveness.buffer(b).size;
    }
    for (const int b : liveness.used(i)) {
      const int defined = liveness.buffer(b).defined;
      if (defined >= first && defined < first + count) continue;
      if (!liveness.alive(b, now)) bytes -= liveness.buffer(b).size;
    }
  }
  return bytes;
}

GreedyPass::Block GreedyPass::pick(const GreedyLiveness& liveness, int now, std::int64_t limit) {
  Block best;
  for (int count = 1; count <= std::max(1, options_.block_size_limit); count *= 2) {
    for (int first = 0; first + count <= now; ++first) {
      bool fits = true;
      bool read_already = false;
      std::int64_t size = 0;
      for (int i = first; i < first + count && fits; ++i) {
        const Instruction& instruction = *order_[at(i)];
        fits = is_candidate(instruction, now);
        if (!fits) break;
        for (const int b : liveness.defined(i)) size += liveness.buffer(b).size;
        for (const Instruction* user : instruction.users()) {
          const int at = index(user);
          read_already = read_already || (at <= now && at >= first + count);
        }
      }
      if (!fits || size == 0 || size < options_.min_bytes) continue;
      const std::int64_t saved = saved_bytes(liveness, first, count, now);
      if (saved <= 0) continue;
      const std::int64_t cost = read_already ? std::max<std::int64_t>(0, limit) / saved : 0;
      if (best.first < 0 || cost < best.cost) best = {first, count, cost};
    }
    if (best.first >= 0) break;
  }
  return best;
}

// Sends the uses of `from` that are still to come to `to`. Uses through tuple elements and bitcasts
// that have run are followed: the link is made anew on `to`. True when anything reads `to`.
bool GreedyPass::redirect(Instruction* from, Instruction* to, int now,
                          std::vector<Instruction*>& made) {
  bool used = false;
  const std::vector<Instruction*> users = from->users();
  for (Instruction* user : users) {
    const auto at = index_.find(user);
    if (at == index_.end()) continue;
    if (at->second > now) {
      for (int k = 0; k < user->operand_count(); ++k) {
        if (user->operand(k) == from) user->replace_operand(k, to);
      }
      used = true;
    } else if (is_chain_link(*user)) {
      Instruction* link = computation_->add_clone(*user, {to}, names_.next(*user));
      origin_[link] = origin_.contains(user) ? origin_.at(user) : user;
      made.push_back(link);
      if (redirect(user, link, now, made)) {
        used = true;
      } else {
        made.pop_back();
        origin_.erase(link);
        computation_->remove(link);
      }
    }
  }
  return used;
}

// Clones the block behind `now`, before whatever needs it first. Returns how many instructions were
// inserted.
int GreedyPass::recompute(const Block& block, int now) {
  Instruction* const root = computation_->root();
  std::vector<Instruction*> made;
  std::unordered_map<const Instruction*, Instruction*> clones;
  for (int i = block.first; i < block.first + block.count; ++i) {
    Instruction* original = order_[at(i)];
    std::vector<Instruction*> operands;
    for (Instruction* operand : original->operands()) {
      const auto inside = clones.find(operand);
      operands.push_back(inside == clones.end() ? operand : inside->second);
    }
    Instruction* clone =
        computation_->add_clone(*original, std::move(operands), names_.next(*original));
    if (clone->attributes().collective != nullptr && clone->attributes().collective->channel_id) {
      auto fresh = std::make_shared<ir::CollectiveAttributes>(*clone->attributes().collective);
      fresh->channel_id = highest_channel(module_) + 1;
      clone->attributes().collective = std::move(fresh);
    }
    origin_[clone] = origin_.contains(original) ? origin_.at(original) : original;
    for (Instruction* successor : std::vector(original->control_successors())) {
      successor->add_control_predecessor(clone);
    }
    for (Instruction* before : original->control_predecessors()) {
      clone->add_control_predecessor(before);
    }
    clones.emplace(original, clone);
    made.push_back(clone);
  }
  for (int i = block.first; i < block.first + block.count; ++i) {
    Instruction* original = order_[at(i)];
    redirect(original, clones.at(original), now, made);
  }
  computation_->set_root(root);

  std::unordered_set<const Instruction*> fresh(made.begin(), made.end());
  int before = static_cast<int>(order_.size());
  const auto consider = [&](const Instruction* instruction) {
    if (fresh.contains(instruction)) return;
    const int at = index(instruction);
    if (at > now) before = std::min(before, at);
  };
  for (const Instruction* instruction : made) {
    for (const Instruction* user : instruction->users()) consider(user);
    for (const Instruction* successor : instruction->control_successors()) consider(successor);
    // Not later than the operands' own uses to come: their lives are not to grow.
    for (const Instruction* operand : instruction->operands()) {
      if (fresh.contains(operand)) continue;
      for (const Instruction* user : operand->users()) consider(user);
    }
  }
  order_.insert(order_.begin() + before, made.begin(), made.end());
  reindex();

  for (int i = block.first; i < block.first + block.count; ++i) {
    Instruction* original = order_[at(i)];
    ++rematerialized_;
    if (!is_read(*original)) {
      // A move. What is moved twice in a row would be moved for ever.
      if (moved_.contains(original)) denied_.insert(clones.at(original));
      moved_.insert(clones.at(original));
    } else {
      ++net_added_;
    }
  }
  return static_cast<int>(made.size());
}

void GreedyPass::rematerialize(ir::Computation& computation, std::int64_t limit, bool callees) {
  visited_.insert(&computation);
  computation_ = &computation;
  order_.clear();
  denied_.clear();
  moved_.clear();
  for (const auto& instruction : computation.instructions()) order_.push_back(instruction.get());
  reindex();
  GreedyLiveness liveness(order_, computation.root(), options_.tuple_entry_bytes);
  // No schedule worth having is this long.
  const std::size_t longest = order_.size() * 8 + 64;
  for (int now = 0; now < static_cast<int>(order_.size()); ++now) {
    const Instruction& instruction = *order_[at(now)];
    // A link takes no bytes; what it points into would only be moved behind it.
    if (is_chain_link(instruction)) continue;
    const std::int64_t below = callee_usage(instruction);
    while (liveness.usage(now) + below > limit && order_.size() < longest) {
      const Block block = pick(liveness, now, limit);
      if (block.first < 0) break;
      recompute(block, now);
      changed_ = true;
      liveness = GreedyLiveness(order_, computation.root(), options_.tuple_entry_bytes);
    }
    if (!callees || !runs_callees(instruction)) continue;
    if (liveness.usage(now) + below <= limit) continue;
    for (ir::Computation* callee : instruction.called_computations()) {
      if (visited_.contains(callee)) continue;
      // The callee's turn borrows the fields of this one.
      auto order = std::move(order_);
      auto denied = std::move(denied_);
      auto moved = std::move(moved_);
      rematerialize(*callee, std::max<std::int64_t>(0, limit - liveness.usage(now)), callees);
      computation_ = &computation;
      order_ = std::move(order);
      denied_ = std::move(denied);
      moved_ = std::move(moved);
      reindex();
    }
  }
  computation.set_order(order_);
  peaks_.clear();
}

}  // namespace plimsoll::planner
