// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/loops/joined_bodies.h"

#include <algorithm>
#include <utility>

#include "runtime/base/hash.h"
#include "runtime/base/index.h"
#include "runtime/ir/dataflow/run_again.h"
#include "runtime/ir/dataflow/views.h"
#include "runtime/ir/hint.h"
#include "runtime/passes/cleanup/structure.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

bool has_control_edges(const Computation& body) {
  return std::any_of(body.instructions().begin(), body.instructions().end(),
                     [](const auto& at) { return !at->control_predecessors().empty(); });
}

// The leaf of the state that `value` is in the body of `loop`; -1.
int state_leaf(const Instruction& value, const Instruction& loop) {
  const bool is_leaf = value.opcode() == Opcode::get_tuple_element &&
                       value.operand(0) == loop.while_body()->parameters()[0];
  return is_leaf ? static_cast<int>(value.attributes().tuple_index) : -1;
}

std::size_t hash_of(const ComputationClasses& classes, const Instruction& original,
                    const std::vector<Instruction*>& operands) {
  std::size_t hash = classes.hash_operation(original);
  for (const Instruction* operand : operands) {
    hash = combine_hash(hash, reinterpret_cast<std::uintptr_t>(operand));
  }
  return hash;
}

int forward_leaf_of(const ResidualPair& pair, const Residual& residual) {
  const Instruction& stacked = *pair.backward->operand(0)->operand(residual.backward_leaf);
  return static_cast<int>(stacked.attributes().tuple_index);
}

}  // namespace

Computation* JoinedBodies::join() {
  Computation& forward = *pair_.forward->while_body();
  Computation& backward = *pair_.backward->while_body();
  if (has_control_edges(forward) || has_control_edges(backward)) return nullptr;
  ir::Module& module = *forward.module();
  joined_ = module.add_computation("joined");
  if (!copy_forward()) return nullptr;
  marker_ =
      joined_->add_parameter(std::ssize(joined_->parameters()), ir::Shape(ir::DType::pred, {}));
  if (!copy_backward()) return nullptr;
  std::vector<Instruction*> results;
  for (const int leaf : forward_results_) {
    results.push_back(copies_.at(forward.root()->operand(leaf)));
  }
  for (const Instruction* result : backward.root()->operands()) {
    results.push_back(copies_.at(result));
  }
  joined_->set_root(joined_->add_tuple(std::move(results)));
  for (const auto& at : joined_->instructions()) operands_[at.get()] = at->operands();
  return joined_;
}

// A value that both loops are given and leave alone is one parameter.
Instruction* JoinedBodies::parameter_for(const Instruction& element, const Instruction& loop) {
  const int leaf = state_leaf(element, loop);
  const bool stays = ir::passes_through(loop, leaf);
  const Instruction* start = handed_on(loop.operand(0)->operand(leaf));
  if (stays) {
    if (const auto known = invariants_.find(start); known != invariants_.end()) {
      return known->second;
    }
  }
  Instruction* made = joined_->add_parameter(std::ssize(joined_->parameters()), element.shape());
  if (stays) invariants_[start] = made;
  return made;
}

bool JoinedBodies::copy_forward() {
  const Computation& body = *pair_.forward->while_body();
  std::unordered_set<const Instruction*> updates;  // of the stacks
  std::unordered_set<int> stacks;
  for (const Residual& residual : pair_.residuals) {
    const int leaf = forward_leaf_of(pair_, residual);
    const Instruction* update = body.root()->operand(leaf);
    if (update->opcode() != Opcode::dynamic_update_slice || update->operand(1) != residual.update ||
        update->users().size() != 1) {
      return false;
    }
    updates.insert(update);
    stacks.insert(leaf);
  }
  for (const auto& at : body.instructions()) {
    if (at.get() == body.root() || at->opcode() == Opcode::parameter ||
        updates.contains(at.get())) {
      continue;
    }
    Instruction* copy = nullptr;
    if (state_leaf(*at, *pair_.forward) >= 0) {
      copy = parameter_for(*at, *pair_.forward);
    } else {
      std::vector<Instruction*> operands;
      for (const Instruction* operand : at->operands()) operands.push_back(copies_.at(operand));
      copy = joined_->add_clone(*at, std::move(operands));
    }
    copies_[at.get()] = copy;
    forward_.try_emplace(copy, at.get());
  }
  for (int leaf = 0; leaf < body.root()->operand_count(); ++leaf) {
    if (!stacks.contains(leaf)) forward_results_.push_back(leaf);
  }
  return true;
}

bool JoinedBodies::copy_backward() {
  const Computation& body = *pair_.backward->while_body();
  const ComputationClasses classes(*body.module());
  std::unordered_map<std::size_t, std::vector<Instruction*>> known;  // of the forward body
  for (const auto& at : joined_->instructions()) {
    if (at->opcode() == Opcode::parameter || !ir::may_run_again(*at)) continue;
    known[hash_of(classes, *forward_.at(at.get()), at->operands())].push_back(at.get());
  }
  for (const Residual& residual : pair_.residuals) {
    for (const Instruction* read : residual.reads) {
      copies_[read] = copies_.at(residual.update);
      if (copies_[read]->shape() != read->shape()) return false;
    }
  }
  for (const auto& at : body.instructions()) {
    if (at.get() == body.root() || at->opcode() == Opcode::parameter ||
        copies_.contains(at.get())) {
      continue;
    }
    Instruction* copy = nullptr;
    if (state_leaf(*at, *pair_.backward) >= 0) {
      copy = parameter_for(*at, *pair_.backward);
    } else {
      std::vector<Instruction*> operands;
      for (const Instruction* operand : at->operands()) operands.push_back(copies_.at(operand));
      // A slice is stacked as a view of the value and read through a view: the value itself.
      if (at->opcode() == Opcode::reshape && ir::is_view(*at)) {
        for (Instruction* view = operands[0];; view = view->operand(0)) {
          if (view->shape() == at->shape()) copy = view;
          operands[0] = view;
          if (ir::shown_by(view) == view) break;
        }
      }
      // What the forward body computes of the same values is that value, as a mask has to be.
      if (copy == nullptr && ir::may_run_again(*at)) {
        const std::vector<Instruction*>& like = known[hash_of(classes, *at, operands)];
        const auto same = std::find_if(like.begin(), like.end(), [&](const Instruction* other) {
          return other->operands() == operands && classes.same_operation(*forward_.at(other), *at);
        });
        if (same != like.end()) merged_.try_emplace(copy = *same, at.get());
      }
      if (copy != nullptr) {
        copies_[at.get()] = copy;
        continue;
      }
      copy = joined_->add_clone(*at, std::move(operands));
    }
    copies_[at.get()] = copy;
    backward_.try_emplace(copy, at.get());
  }
  return true;
}

// Whether an instruction of the backward body still has the value that it had: what it reads of the
// residuals, if only through others, is what the forward body still computes and stacks.
bool JoinedBodies::still_holds(const Instruction& original) {
  if (holds_.empty()) {
    std::unordered_map<const Instruction*, const Residual*> reads;
    for (const Residual& residual : pair_.residuals) {
      for (const Instruction* read : residual.reads) reads[read] = &residual;
    }
    for (const auto& at : pair_.backward->while_body()->instructions()) {
      const auto read = reads.find(at.get());
      holds_[at.get()] =
          read != reads.end()
              ? left_.contains(ir::shown_by(read->second->update))
              : std::all_of(at->operands().begin(), at->operands().end(),
                            [&](const Instruction* operand) { return holds_.at(operand); });
    }
  }
  return holds_.at(&original);
}

bool JoinedBodies::has_changed(const Instruction& value, int operand) {
  const auto before = operands_.find(&value);
  if (before == operands_.end() || before->second[at(operand)] != value.operand(operand)) {
    return true;
  }
  if (!in_first_.contains(value.operand(operand))) return false;
  const auto original = backward_.find(&value);
  if (original != backward_.end()) return !still_holds(*original->second->operand(operand));
  const int result = operand - static_cast<int>(forward_results_.size());
  return &value == joined_->root() && result >= 0 &&
         !still_holds(*pair_.backward->while_body()->root()->operand(result));
}

// What the backward body itself has of a value of the first part.
const Instruction* JoinedBodies::own_in_backward(const Instruction& value) {
  const auto merged = merged_.find(&value);
  return merged != merged_.end() && still_holds(*merged->second) ? merged->second : nullptr;
}

// Whether it follows, by few operations, from what both loops are given and leave alone.
bool JoinedBodies::is_known(const Instruction& value) {
  if (const auto known = known_.find(&value); known != known_.end()) return known->second;
  const auto by_elements = [](ir::OpClass op_class) {
    return op_class == ir::OpClass::unary || op_class == ir::OpClass::binary ||
           op_class == ir::OpClass::ternary || op_class == ir::OpClass::creation;
  };
  bool result = false;
  if (value.opcode() == Opcode::parameter) {
    result = std::any_of(invariants_.begin(), invariants_.end(),
                         [&](const auto& entry) { return entry.second == &value; });
  } else if (value.opcode() == Opcode::broadcast || value.opcode() == Opcode::constant ||
             by_elements(ir::op_info(value.opcode()).op_class)) {
    result = ir::may_run_again(value) && !ir::must_materialize(value);
    for (const Instruction* operand : value.operands()) result = result && is_known(*operand);
  }
  known_[&value] = result;
  return result;
}

const Residual* JoinedBodies::residual_of(const Instruction& value) const {
  const auto original = forward_.find(&value);
  if (original == forward_.end()) return nullptr;
  const auto known = std::find_if(
      pair_.residuals.begin(), pair_.residuals.end(),
      [&](const Residual& residual) { return ir::shown_by(residual.update) == original->second; });
  return known == pair_.residuals.end() ? nullptr : &*known;
}

bool JoinedBodies::find_stacked() {
  for (const Instruction* reader : second_) {
    for (int i = 0; i < reader->operand_count(); ++i) {
      const Instruction* value = ir::shown_by(reader->operand(i));
      if (!in_first_.contains(reader->operand(i)) || !has_changed(*reader, i) || is_known(*value) ||
          own_in_backward(*value) != nullptr || residual_of(*value) != nullptr ||
          std::find(stacked_.begin(), stacked_.end(), value) != stacked_.end()) {
        continue;
      }
      const ir::Shape& shape = value->shape();
      if (!shape.is_array() || shape.element_count() == 0 || !ir::is_row_major(shape)) return false;
      stacked_.push_back(value);
    }
  }
  return true;
}

template <typename Operand>
void JoinedBodies::rebuild(
    LoopState& loop, const std::vector<Instruction*>& part,
    const std::unordered_map<const Instruction*, const Instruction*>& originals,
    const Operand& operand_of) {
  // Which copy each stands before.
  std::vector<Instruction*> next(part.size(), nullptr);
  for (std::size_t i = part.size(); i-- > 0;) {
    const auto original = originals.find(part[i]);
    next[i] = original != originals.end() ? loop.copy_of(*original->second)
              : i + 1 < part.size()       ? next[i + 1]
                                          : nullptr;
  }
  for (std::size_t i = 0; i < part.size(); ++i) {
    Instruction& value = *part[i];
    if (&value == joined_->root() || &value == marker_) continue;
    next[i] != nullptr ? loop.insert_before(*next[i]) : loop.insert_at_end();
    if (const auto original = originals.find(&value); original != originals.end()) {
      Instruction* copy = loop.copy_of(*original->second);
      for (int k = 0; k < value.operand_count(); ++k) {
        if (has_changed(value, k)) copy->replace_operand(k, operand_of(*value.operand(k)));
      }
      at_[&value] = copy;
      continue;
    }
    std::vector<Instruction*> operands;
    for (const Instruction* operand : value.operands()) operands.push_back(operand_of(*operand));
    at_[&value] = loop.add_clone(value, std::move(operands));
  }
}

bool JoinedBodies::split() {
  std::vector<Instruction*>* part = &first_;
  for (const auto& at : joined_->instructions()) {
    if (at.get() == marker_) part = &second_;
    part->push_back(at.get());
  }
  in_first_.insert(first_.begin(), first_.end());
  for (const Instruction* value : first_) {
    if (const auto original = forward_.find(value); original != forward_.end()) {
      left_.insert(original->second);
    }
  }
  if (!find_stacked()) return false;

  const Instruction& root = *joined_->root();
  LoopState forward(*pair_.forward);
  rebuild(forward, first_, forward_, [&](const Instruction& operand) { return at_.at(&operand); });
  for (std::size_t i = 0; i < forward_results_.size(); ++i) {
    const int operand = static_cast<int>(i);
    if (has_changed(root, operand)) {
      forward.set_result(forward_results_[i], at_.at(root.operand(operand)));
    }
  }
  Instruction* const index = forward.copy_of(*pair_.index);
  std::vector<int> leaves;
  for (const Instruction* value : stacked_) {
    leaves.push_back(forward.stack(at_.at(value), index, pair_.slices));
  }
  Instruction* const new_forward = forward.finish();

  LoopState backward(*pair_.backward);
  at_.clear();
  for (std::size_t i = 0; i < stacked_.size(); ++i) {
    ir::Attributes element;
    element.tuple_index = leaves[i];
    leaf_[stacked_[i]] = backward.add_invariant(backward.add_to_parent(
        Opcode::get_tuple_element, new_forward->shape().elements()[at(leaves[i])], {new_forward},
        std::move(element)));
  }
  slice_ = backward.copy_of(*pair_.residuals.front().reads.front())->operand(1);
  rebuild(backward, second_, backward_,
          [&](const Instruction& operand) { return in_backward(operand, backward); });
  backward.insert_at_end();
  for (int leaf = 0; leaf < pair_.backward->while_body()->root()->operand_count(); ++leaf) {
    const int operand = static_cast<int>(forward_results_.size()) + leaf;
    if (has_changed(root, operand)) {
      backward.set_result(leaf, in_backward(*root.operand(operand), backward));
    }
  }
  backward.finish();
  Computation& parent = *pair_.backward->parent();
  parent.remove(pair_.backward);
  parent.remove(pair_.forward);
  return true;
}

// Where the backward body next adds operations: what is there already was added further up.
Instruction* JoinedBodies::in_backward(const Instruction& value, LoopState& backward) {
  if (const auto known = at_.find(&value); known != at_.end()) return known->second;
  Instruction* made = nullptr;
  const Instruction& shown = *ir::shown_by(&value);  // what of it is stacked
  const auto leaf = leaf_.find(&shown);
  const auto own = backward_.find(&value);
  if (own != backward_.end()) {
    made = backward.copy_of(*own->second);
  } else if (const Instruction* merged = own_in_backward(value)) {
    made = backward.copy_of(*merged);
  } else if (leaf != leaf_.end()) {
    made = backward.slice_of(leaf->second, slice_, value.shape());
  } else if (!is_known(shown)) {
    made = backward.slice_of(residual_of(shown)->backward_leaf, slice_, value.shape());
  } else if (value.opcode() == Opcode::parameter) {
    const int forward_leaf = state_leaf(*forward_.at(&value), *pair_.forward);
    made =
        backward.element(backward.add_invariant(pair_.forward->operand(0)->operand(forward_leaf)));
  } else {
    std::vector<Instruction*> operands;
    for (const Instruction* operand : value.operands()) {
      operands.push_back(in_backward(*operand, backward));
    }
    made = backward.add_clone(value, std::move(operands));
  }
  at_[&value] = made;
  return made;
}

}  // namespace plimsoll::passes
