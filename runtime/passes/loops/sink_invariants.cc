// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/dataflow/run_again.h"
#include "runtime/ir/dataflow/views.h"
#include "runtime/ir/hint.h"
#include "runtime/passes/loops/loop_state.h"
#include "runtime/passes/passes.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::OpClass;
using ir::Opcode;

namespace {

// More work than this (additions, for an element that a loop reads) is dearer than its bytes.
constexpr int kMostWork = 12;

bool is_elementwise(const Instruction& value) {
  const OpClass op_class = ir::op_info(value.opcode()).op_class;
  return op_class == OpClass::unary || op_class == OpClass::binary || op_class == OpClass::ternary;
}

// Whether the body reads it, and only element by element, so that one kernel makes and reads it.
bool is_read_by_elements(const Instruction& element) {
  bool is_read = false;
  for (const Instruction* user : element.users()) {
    if (user == element.parent()->root()) continue;
    if (!is_elementwise(*user) && user->opcode() != Opcode::broadcast) return false;
    is_read = true;
  }
  return is_read;
}

// What a loop is given, as operations that every round may repeat on smaller arrays, or on what the
// loop is given besides. Example: the mask of causal attention, pred[8,8,128,128]
// broadcast(compare(iota, iota)), is five operations on nothing; a bias spread over a batch is a
// broadcast of the bias; the two factors of a tanh's gradient, t and 1 - t, are one array.
class Recipe {
 public:
  using Given = std::unordered_set<const Instruction*>;

  // `given`: what the loop is given and does not change.
  explicit Recipe(const Given& given) : given_(&given) {}

  // Whether there is one of little work.
  bool read(Instruction& invariant) { return invariant.shape().rank() > 0 && visit(invariant); }

  // What in the body of `loop` has the value that it read.
  Instruction* repeat(LoopState& loop) const {
    std::unordered_map<const Instruction*, Instruction*> made;
    for (Instruction* leaf : leaves_) made[leaf] = loop.element(loop.add_invariant(leaf));
    Instruction* last = nullptr;
    for (const Instruction* operation : operations_) {
      std::vector<Instruction*> operands;
      for (const Instruction* operand : operation->operands()) operands.push_back(made.at(operand));
      last = made[operation] = loop.add_clone(*operation, std::move(operands));
    }
    return last;
  }

 private:
  // Operands before what reads them.
  bool visit(Instruction& value) {
    if (!seen_.insert(&value).second) return true;
    work_ += ir::op_info(value.opcode()).work;
    if (work_ > kMostWork || !ir::may_run_again(value) || ir::must_materialize(value)) return false;
    switch (value.opcode()) {
      case Opcode::constant:
        if (value.shape().element_count() != 1) return false;
        break;
      case Opcode::iota:
        break;
      case Opcode::broadcast:
        return visit_spread(value);
      default:
        if (!is_elementwise(value)) return false;
    }
    for (Instruction* operand : value.operands()) {
      if (!visit_or_take(*operand, given_->contains(operand))) return false;
    }
    operations_.push_back(&value);
    return true;
  }

  // As it is, where it is no recipe's and may be taken so.
  bool visit_or_take(Instruction& value, bool may_be_taken) {
    const Recipe before = *this;
    if (visit(value)) return true;
    if (!may_be_taken) return false;
    *this = before;
    if (seen_.insert(&value).second) leaves_.push_back(&value);
    return true;
  }

  // Of something smaller, whatever it is.
  bool visit_spread(Instruction& value) {
    Instruction& spread = *value.operand(0);
    const bool is_smaller = 2 * spread.shape().element_count() <= value.shape().element_count();
    if (!visit_or_take(spread, is_smaller || given_->contains(&spread))) return false;
    operations_.push_back(&value);
    return true;
  }

  const Given* given_;
  int work_ = 0;
  std::vector<Instruction*> operations_, leaves_;
  std::unordered_set<const Instruction*> seen_;
};

bool sink_into(Instruction& original) {
  Recipe::Given given;
  for (int leaf = 0; leaf < original.operand(0)->operand_count(); ++leaf) {
    if (ir::passes_through(original, leaf)) given.insert(original.operand(0)->operand(leaf));
  }
  std::vector<std::pair<const Instruction*, Recipe>> sunk;
  for (const Instruction* element : original.while_body()->parameters()[0]->users()) {
    const auto leaf = static_cast<int>(element->attributes().tuple_index);
    Recipe recipe(given);
    if (ir::passes_through(original, leaf) && is_read_by_elements(*element) &&
        recipe.read(*original.operand(0)->operand(leaf))) {
      sunk.emplace_back(element, std::move(recipe));
    }
  }
  if (sunk.empty()) return false;
  Computation& parent = *original.parent();
  LoopState loop(original);
  for (const auto& [element, recipe] : sunk) {
    Instruction* copy = loop.copy_of(*element);
    loop.insert_before(*copy);
    copy->replace_all_uses_with(recipe.repeat(loop));
  }
  loop.finish();
  parent.remove(&original);
  return true;
}

}  // namespace

Result<bool> sink_invariants(ir::Module& module) { return change_loops(module, sink_into); }

}  // namespace plimsoll::passes
