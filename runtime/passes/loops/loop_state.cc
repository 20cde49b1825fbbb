// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/loops/loop_state.h"

#include <algorithm>
#include <memory>

#include "runtime/base/index.h"
#include "runtime/ir/dataflow/views.h"
#include "runtime/passes/loops/residual_pair.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

ir::Dims stacked_dims(const ir::Shape& shape, std::int64_t slices) {
  std::vector<std::int64_t> dims{slices};
  for (int d = 0; d < shape.rank(); ++d) dims.push_back(shape.dim(d));
  return ir::Dims(dims);
}

}  // namespace

const Instruction* handed_on(const Instruction* value) {
  while (value->opcode() == Opcode::get_tuple_element) {
    const Instruction& loop = *value->operand(0);
    const auto element = static_cast<int>(value->attributes().tuple_index);
    if (loop.opcode() != Opcode::while_ || loop.operand(0)->opcode() != Opcode::tuple) break;
    if (!ir::passes_through(loop, ir::leaf_offset(loop.shape(), element))) break;
    value = loop.operand(0)->operand(element);
  }
  return value;
}

Result<bool> change_loops(ir::Module& module, const std::function<bool(Instruction&)>& change) {
  const auto change_one = [&] {
    const std::vector<Computation*> programs = programs_of(module);
    for (auto it = programs.rbegin(); it != programs.rend(); ++it) {
      for (const auto& instruction : (*it)->instructions()) {
        if (instruction->opcode() != Opcode::while_ || !has_flat_state(*instruction)) continue;
        if (change(*instruction)) return true;
      }
    }
    return false;
  };
  bool changed = false;
  constexpr int kMostChanges = 256;
  for (int i = 0; i < kMostChanges && change_one(); ++i) {
    changed = true;
    PLIMSOLL_RETURN_IF_ERROR(eliminate_dead_code(module).status());
  }
  return changed;
}

LoopState::LoopState(Instruction& loop)
    : loop_(loop),
      parent_(*loop.parent()),
      condition_(parent_.module()->add_clone(*loop.while_condition())),
      body_(parent_.module()->add_clone(*loop.while_body())) {
  const auto& originals = loop.while_body()->instructions();
  for (std::size_t i = 0; i < originals.size(); ++i) {
    copies_.emplace(originals[i].get(), body_->instructions()[i].get());
  }
  shapes_ = loop.shape().elements();
  starts_ = loop.operand(0)->operands();
  results_ = body_->root()->operands();
}

// Instructions are appended, wherever they belong: `finish` puts them in their places all at once.
// The root is set again each time because what is added last becomes the root.
Instruction* LoopState::add_to_parent(Opcode opcode, ir::Shape shape,
                                      std::vector<Instruction*> operands,
                                      ir::Attributes attributes) {
  Instruction* root = parent_.root();
  in_parent_.push_back(
      parent_.add(opcode, std::move(shape), std::move(operands), {}, std::move(attributes)));
  parent_.set_root(root);
  return in_parent_.back();
}

int LoopState::add_leaf(Instruction* start) {
  shapes_.push_back(start->shape());
  starts_.push_back(start);
  results_.push_back(nullptr);
  return static_cast<int>(starts_.size()) - 1;
}

// A leaf that is there will do if it starts from the same value and no round changes it: of the
// original's leaves the body tells; of those that were added, one without a result.
int LoopState::add_invariant(Instruction* start) {
  const Instruction* source = handed_on(start);
  const auto leaves = static_cast<int>(loop_.shape().elements().size());
  for (int leaf = 0; leaf < static_cast<int>(starts_.size()); ++leaf) {
    const bool stays =
        leaf < leaves ? ir::passes_through(loop_, leaf) : results_[at(leaf)] == nullptr;
    if (handed_on(starts_[at(leaf)]) == source && stays) return leaf;
  }
  return add_leaf(start);
}

Instruction* LoopState::element(int leaf) {
  Instruction*& element = elements_[leaf];
  if (element == nullptr) {
    Instruction* root = body_->root();
    ir::Attributes attributes;
    attributes.tuple_index = leaf;
    element = body_->add(Opcode::get_tuple_element, shapes_[at(leaf)], {body_->parameters()[0]}, {},
                         std::move(attributes));
    body_->set_root(root);
    first_in_body_.push_back(element);
  }
  return element;
}

Instruction* LoopState::placed(Instruction* added) {
  before_[position_].push_back(added);
  return added;
}

Instruction* LoopState::add(Opcode opcode, ir::Shape shape, std::vector<Instruction*> operands,
                            ir::Attributes attributes) {
  Instruction* root = body_->root();
  Instruction* added =
      body_->add(opcode, std::move(shape), std::move(operands), {}, std::move(attributes));
  body_->set_root(root);
  return placed(added);
}

Instruction* LoopState::add_clone(const Instruction& original, std::vector<Instruction*> operands) {
  Instruction* root = body_->root();
  Instruction* added = body_->add_clone(original, std::move(operands));
  body_->set_root(root);
  return placed(added);
}

Instruction* LoopState::add_integer(ir::DType dtype, std::int64_t value) {
  ir::Literal literal(ir::Shape(dtype, {}));
  literal.set(0, static_cast<double>(value));
  Instruction* root = body_->root();
  Instruction* added = body_->add_constant(std::move(literal));
  body_->set_root(root);
  return placed(added);
}

int LoopState::stack(Instruction* value, Instruction* index, std::int64_t slices) {
  const ir::DType dtype = value->shape().dtype();
  const ir::Shape stacked(dtype, stacked_dims(value->shape(), slices));
  Instruction* zero = add_to_parent(Opcode::constant, ir::Shape(dtype, {}), {});
  zero->attributes().literal = std::make_shared<ir::Literal>(ir::Shape(dtype, {}));
  const int leaf = add_leaf(add_to_parent(Opcode::broadcast, stacked, {zero}));
  write_slice(leaf, value, index);
  return leaf;
}

void LoopState::write_slice(int leaf, Instruction* value, Instruction* index) {
  insert_at_end();
  const ir::Shape& shape = value->shape();
  Instruction* update =
      add(Opcode::reshape, ir::Shape(shape.dtype(), stacked_dims(shape, 1)), {value});
  std::vector<Instruction*> operands{element(leaf), update, index};
  if (shape.rank() > 0) {
    operands.resize(at(3 + shape.rank()), add_integer(index->shape().dtype(), 0));
  }
  set_result(leaf, add(Opcode::dynamic_update_slice, shapes_[at(leaf)], std::move(operands)));
}

Instruction* LoopState::slice_of(int leaf, Instruction* index, const ir::Shape& shape) {
  Instruction* residual = element(leaf);
  ir::Dims dims = residual->shape().dims();
  dims[0] = 1;
  std::vector<Instruction*> operands{residual, index};
  for (int d = 1; d < dims.size(); ++d) {
    operands.push_back(add_integer(index->shape().dtype(), 0));
  }
  ir::Attributes attributes;
  attributes.slice_sizes.assign(dims.begin(), dims.end());
  Instruction* slice = add(Opcode::dynamic_slice, ir::Shape(residual->shape().dtype(), dims),
                           std::move(operands), std::move(attributes));
  return slice->shape().dims() == shape.dims() ? slice : add(Opcode::reshape, shape, {slice});
}

// Up to here the copies have the old state's shape and the additions stand at the body's end. What
// is done now, in this order:
// 1. Leaves without a result get their own element as one (`element` may add to the body).
// 2. The parameters of body and condition get the wider shape.
// 3. The body's order: elements of the state right behind the parameter, as anything may read them;
//    each addition before the copy that it was meant for; the rest at the end. Only the first
//    `originals` instructions are gone through, as behind them stand the additions themselves.
// 4. What reads a value that stands further down goes behind it.
// 5. The new loop stands where the original one does in the parent, with all that was added for it
//    right before it, and takes over its readers.
//
// Example: a loop over (i, s) whose body is `i' = i + 1; s' = s + f(i)`, with a leaf `stack` added
// that keeps f(i) of every round: the new body reads (i, s, stack) and returns (i', s', stack'),
// where `stack' = dynamic-update-slice(stack, f(i), i)`.
Instruction* LoopState::finish() {
  const ir::Shape shape = ir::Shape::tuple(shapes_);
  for (std::size_t leaf = 0; leaf < results_.size(); ++leaf) {
    if (results_[leaf] == nullptr) results_[leaf] = element(static_cast<int>(leaf));
  }
  Instruction* const parameter = body_->parameters()[0];
  parameter->set_shape(shape);
  condition_->parameters()[0]->set_shape(shape);

  std::vector<Instruction*> order;
  const std::size_t originals = loop_.while_body()->instructions().size();
  for (std::size_t i = 0; i < originals; ++i) {
    Instruction* copy = body_->instructions()[i].get();
    const auto before = before_.find(copy);
    if (before != before_.end()) {
      order.insert(order.end(), before->second.begin(), before->second.end());
    }
    order.push_back(copy);
    if (copy == parameter) order.insert(order.end(), first_in_body_.begin(), first_in_body_.end());
  }
  const std::vector<Instruction*>& last = before_[nullptr];
  order.insert(order.end(), last.begin(), last.end());
  body_->set_order(order);
  body_->set_root(body_->add_tuple(results_));
  body_->remove_dead();
  static_cast<void>(body_->sort_topologically());  // fails on cycles only

  const std::vector<Instruction*> users = loop_.users();
  Instruction* start = add_to_parent(Opcode::tuple, shape, starts_);
  Instruction* result = add_to_parent(Opcode::while_, shape, {start}, loop_.attributes());
  result->set_called_computations({condition_, body_});
  for (Instruction* user : users) user->replace_operand(0, result);
  order_as(loop_, *result, *result);
  order.clear();
  std::vector<Instruction*> added = in_parent_;
  for (const auto& instruction : parent_.instructions()) {
    Instruction* at = instruction.get();
    if (std::find(added.begin(), added.end(), at) != added.end()) continue;
    if (at == &loop_) order.insert(order.end(), added.begin(), added.end());
    order.push_back(at);
  }
  parent_.set_order(order);
  return result;
}

}  // namespace plimsoll::passes
