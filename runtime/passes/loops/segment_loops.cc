// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/loops/segment_loops.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/alignment.h"
#include "runtime/base/index.h"
#include "runtime/ir/dataflow/views.h"
#include "runtime/passes/loops/loop_state.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

namespace {

const Shape kRoundNumber(DType::s32, {});

Instruction* add_integer_to(Computation& computation, DType dtype, std::int64_t value) {
  ir::Literal literal(Shape(dtype, {}));
  literal.set(0, static_cast<double>(value));
  return computation.add_constant(std::move(literal));
}

// `element < end`, of a state.
Computation* add_condition(ir::Module& module, const Shape& state, int element, std::int64_t end) {
  Computation* const condition = module.add_computation("more");
  Instruction* const parameter = condition->add_parameter(0, state);
  Instruction* const round = condition->add_get_tuple_element(parameter, element);
  Instruction* const last = add_integer_to(*condition, DType::s32, end);
  ir::Attributes attributes;
  attributes.comparison_direction = ir::ComparisonDirection::lt;
  condition->set_root(condition->add(Opcode::compare, Shape(DType::pred, {}), {round, last}, {},
                                     std::move(attributes)));
  return condition;
}

Shape state_of(const std::vector<Instruction*>& leaves) {
  std::vector<Shape> shapes;
  for (const Instruction* leaf : leaves) shapes.push_back(leaf->shape());
  return Shape::tuple(std::move(shapes));
}

// In a computation that is made from its parameter to its root.
Instruction* add_loop(Computation& computation, std::vector<Instruction*> starts,
                      Computation* condition, Computation* body) {
  const Shape state = state_of(starts);
  Instruction* const start = computation.add_tuple(std::move(starts));
  Instruction* const loop = computation.add(Opcode::while_, state, {start});
  loop->set_called_computations({condition, body});
  return loop;
}

ir::Dims stack_dims(const Shape& slice, std::int64_t slices) {
  std::vector<std::int64_t> dims{slices};
  for (int d = 0; d < slice.rank(); ++d) dims.push_back(slice.dim(d));
  return ir::Dims(dims);
}

// Slice `index` (s32) of a stack, as an array of `shape`.
Instruction* add_slice(Computation& computation, Instruction* stack, Instruction* index,
                       const Shape& shape) {
  std::vector<Instruction*> operands{stack, index};
  for (int d = 0; d < shape.rank(); ++d) {
    operands.push_back(add_integer_to(computation, DType::s32, 0));
  }
  const ir::Dims dims = stack_dims(shape, 1);
  ir::Attributes attributes;
  attributes.slice_sizes.assign(dims.begin(), dims.end());
  Instruction* const slice = computation.add(Opcode::dynamic_slice, Shape(shape.dtype(), dims),
                                             std::move(operands), {}, std::move(attributes));
  return computation.add(Opcode::reshape, shape, {slice});
}

class Segments {
 public:
  explicit Segments(const ResidualPair& pair)
      : pair_(pair), body_(*pair.forward->while_body()), module_(*body_.module()) {}

  // What has to be known at the start of a segment to run its rounds: the leaves that are stacked,
  // and what they are carried on by. False where that can't be said.
  bool find_carried() {
    if (!may_have_segments(pair_)) return false;
    for (const Residual& residual : pair_.residuals) {
      const Instruction& value = *ir::shown_by(residual.update);
      const int leaf = leaf_of(value);
      if (leaf < 0 || ir::passes_through(*pair_.forward, leaf)) return false;
      if (!need(leaf, value)) return false;
      residual_leaves_.push_back(leaf);
    }
    stacked_ = carried_;
    for (std::size_t i = 0; i < carried_.size(); ++i) {
      if (!visit(body_.root()->operand(carried_[i]))) return false;
    }
    return true;
  }

  std::int64_t length() const {
    const std::int64_t rounds = pair_.slices;
    const std::int64_t all = bytes_of(carried_), stacked = bytes_of(stacked_);
    std::int64_t least = 7 * stacked * rounds / 10, best = 0;
    for (std::int64_t length = 2; length <= rounds / 2; ++length) {
      const std::int64_t bytes = all * (rounds / length + 1) + stacked * (length + rounds % length);
      if (bytes >= least) continue;
      least = bytes;
      best = length;
    }
    return best;
  }

  void rewrite(std::int64_t length) {
    length_ = length;
    segments_ = pair_.slices / length;
    stack_starts_of_segments();
    Computation& parent = *pair_.backward->parent();
    Computation* const body = make_body();
    const Shape state = state_of(starts_);
    Computation* const condition =
        add_condition(module_, state, static_cast<int>(starts_.size()) - 1, segments_);
    Instruction* const start =
        parent.insert_before(pair_.backward, Opcode::tuple, state, std::move(starts_));
    Instruction* const loop = parent.insert_before(pair_.backward, Opcode::while_, state, {start},
                                                   pair_.backward->name());
    loop->set_called_computations({condition, body});
    order_as(*pair_.backward, *loop, *loop);
    for (Instruction* user : std::vector<Instruction*>(pair_.backward->users())) {
      user->replace_operand(0, loop);
    }
    parent.remove(pair_.backward);
    parent.remove(pair_.forward);
    parent.remove_dead();
  }

 private:
  // The leaf of the forward state that it is in the body; -1.
  int leaf_of(const Instruction& value) const {
    const bool is_leaf =
        value.opcode() == Opcode::get_tuple_element && value.operand(0) == body_.parameters()[0];
    return is_leaf ? static_cast<int>(value.attributes().tuple_index) : -1;
  }

  bool need(int leaf, const Instruction& element) {
    const Shape& shape = element.shape();
    if (!shape.is_array() || shape.element_count() == 0 || !ir::is_row_major(shape)) return false;
    if (elements_.try_emplace(leaf, &element).second) carried_.push_back(leaf);
    return true;
  }

  // What computes `value` in a round. False where that may not be repeated.
  bool visit(const Instruction* wanted) {
    std::vector<const Instruction*> work{wanted};
    while (!work.empty()) {
      const Instruction& value = *work.back();
      work.pop_back();
      if (!repeated_.insert(&value).second) continue;
      if (const int leaf = leaf_of(value); leaf >= 0) {
        if (!ir::passes_through(*pair_.forward, leaf)) {
          if (!need(leaf, value)) return false;
        } else if (std::find(invariants_.begin(), invariants_.end(), leaf) == invariants_.end()) {
          invariants_.push_back(leaf);
        }
        continue;
      }
      if (value.opcode() == Opcode::parameter || !may_be_repeated(value)) return false;
      work.insert(work.end(), value.operands().begin(), value.operands().end());
    }
    return true;
  }

  std::int64_t bytes_of(const std::vector<int>& leaves) const {
    std::int64_t bytes = 0;
    for (const int leaf : leaves) bytes += aligned_bytes(elements_.at(leaf)->shape().byte_size());
    return bytes;
  }

  // Round n writes slice ceil(n / length), so that what a segment starts from is what it was
  // written last; and the new loop's stacks among the starts of the loop over segments, at the
  // leaves of the residuals that they stand for where there are any.
  void stack_starts_of_segments() {
    LoopState forward(*pair_.forward);
    forward.insert_at_end();
    Instruction* const index = forward.copy_of(*pair_.index);
    const DType dtype = index->shape().dtype();
    Instruction* const first = forward.add_integer(dtype, pair_.first);
    Instruction* const round = pair_.step > 0
                                   ? forward.add(Opcode::subtract, index->shape(), {index, first})
                                   : forward.add(Opcode::subtract, index->shape(), {first, index});
    Instruction* const raised =
        forward.add(Opcode::add, index->shape(), {round, forward.add_integer(dtype, length_ - 1)});
    Instruction* const slot =
        forward.add(Opcode::divide, index->shape(), {raised, forward.add_integer(dtype, length_)});
    std::vector<int> stacks;
    for (const int leaf : carried_) {
      stacks.push_back(forward.stack(forward.copy_of(*elements_.at(leaf)), slot, segments_ + 1));
    }
    Instruction* const loop = forward.finish();

    starts_ = pair_.backward->operand(0)->operands();
    const auto add_start = [&](Instruction* start) {
      starts_.push_back(start);
      return static_cast<int>(starts_.size()) - 1;
    };
    Computation& parent = *pair_.backward->parent();
    for (std::size_t i = 0; i < carried_.size(); ++i) {
      ir::Attributes attributes;
      attributes.tuple_index = stacks[i];
      Instruction* const stack = parent.insert_before(pair_.backward, Opcode::get_tuple_element,
                                                      loop->shape().elements()[at(stacks[i])],
                                                      {loop}, {}, std::move(attributes));
      int leaf = -1;
      for (std::size_t r = 0; r < residual_leaves_.size(); ++r) {
        if (residual_leaves_[r] != carried_[i]) continue;
        leaf = pair_.residuals[r].backward_leaf;
        starts_[at(leaf)] = stack;
      }
      segment_leaves_.push_back(leaf >= 0 ? leaf : add_start(stack));
    }
    const Instruction& backward = *pair_.backward;
    for (const int leaf : invariants_) {
      Instruction* const start = pair_.forward->operand(0)->operand(leaf);
      int known = -1;
      for (int b = 0; b < backward.operand(0)->operand_count() && known < 0; ++b) {
        const bool is_same = handed_on(backward.operand(0)->operand(b)) == handed_on(start);
        if (is_same && ir::passes_through(backward, b)) known = b;
      }
      invariant_leaves_.push_back(known >= 0 ? known : add_start(start));
    }
    add_start(parent.insert_before(&*pair_.backward, Opcode::constant, kRoundNumber, {}));
    starts_.back()->attributes().literal = std::make_shared<ir::Literal>(kRoundNumber);
  }

  // Of the loop over segments.
  Computation* make_body() {
    Computation& body = *module_.add_computation("segment");
    Instruction* const state = body.add_parameter(0, state_of(starts_));
    std::vector<Instruction*> leaves;
    for (int leaf = 0; leaf < std::ssize(starts_); ++leaf) {
      leaves.push_back(body.add_get_tuple_element(state, leaf));
    }
    Instruction* const last = add_integer_to(body, DType::s32, segments_ - 1);
    Instruction* const segment = body.add(Opcode::subtract, kRoundNumber, {last, leaves.back()});

    const int stacks = static_cast<int>(carried_.size() + invariants_.size());
    Instruction* const again = forward_rounds(body, leaves, segment);
    const int backward_leaves = pair_.backward->operand(0)->operand_count();
    std::vector<Instruction*> starts(leaves.begin(), leaves.begin() + backward_leaves);
    for (std::size_t r = 0; r < residual_leaves_.size(); ++r) {
      const auto place = std::find(stacked_.begin(), stacked_.end(), residual_leaves_[r]);
      starts[at(pair_.residuals[r].backward_leaf)] =
          body.add_get_tuple_element(again, stacks + static_cast<int>(place - stacked_.begin()));
    }
    starts.push_back(add_integer_to(body, DType::s32, 0));
    const Shape inner = state_of(starts);
    Instruction* const backward =
        add_loop(body, std::move(starts), add_condition(module_, inner, backward_leaves, length_),
                 backward_round(inner));

    std::vector<Instruction*> results = leaves;
    for (int leaf = 0; leaf < backward_leaves; ++leaf) {
      const bool is_residual =
          std::any_of(pair_.residuals.begin(), pair_.residuals.end(),
                      [&](const Residual& residual) { return residual.backward_leaf == leaf; });
      if (is_residual || ir::passes_through(*pair_.backward, leaf)) continue;
      results[at(leaf)] = body.add_get_tuple_element(backward, leaf);
    }
    results.back() =
        body.add(Opcode::add, kRoundNumber, {leaves.back(), add_integer_to(body, DType::s32, 1)});
    body.set_root(body.add_tuple(std::move(results)));
    return &body;
  }

  // The forward rounds of a segment: a loop over what is carried, what stays as it is, the stacks
  // of the segment and the number of the round.
  Instruction* forward_rounds(Computation& body, const std::vector<Instruction*>& leaves,
                              Instruction* segment) {
    std::vector<Instruction*> starts;
    for (std::size_t i = 0; i < carried_.size(); ++i) {
      starts.push_back(add_slice(body, leaves[at(segment_leaves_[i])], segment,
                                 elements_.at(carried_[i])->shape()));
    }
    for (const int leaf : invariant_leaves_) starts.push_back(leaves[at(leaf)]);
    for (const int leaf : stacked_) {
      const Shape& slice = elements_.at(leaf)->shape();
      Instruction* const zero = add_integer_to(body, slice.dtype(), 0);
      starts.push_back(
          body.add(Opcode::broadcast, Shape(slice.dtype(), stack_dims(slice, length_)), {zero}));
    }
    starts.push_back(add_integer_to(body, DType::s32, 0));
    const Shape state = state_of(starts);
    const int round = static_cast<int>(starts.size()) - 1;
    Computation* const condition = add_condition(module_, state, round, length_);
    return add_loop(body, std::move(starts), condition, forward_round(state));
  }

  Computation* forward_round(const Shape& state) {
    Computation& round = *module_.add_computation("again");
    Instruction* const parameter = round.add_parameter(0, state);
    std::vector<Instruction*> leaves;
    for (int leaf = 0; leaf < std::ssize(state.elements()); ++leaf) {
      leaves.push_back(round.add_get_tuple_element(parameter, leaf));
    }
    std::unordered_map<const Instruction*, Instruction*> copies;
    const auto leaf_in = [&](int leaf) {
      const auto carried = std::find(carried_.begin(), carried_.end(), leaf);
      if (carried != carried_.end()) return leaves[at(carried - carried_.begin())];
      const auto invariant = std::find(invariants_.begin(), invariants_.end(), leaf);
      return leaves[carried_.size() + at(invariant - invariants_.begin())];
    };
    for (const auto& original : body_.instructions()) {
      if (!repeated_.contains(original.get())) continue;
      if (const int leaf = leaf_of(*original); leaf >= 0) {
        copies[original.get()] = leaf_in(leaf);
        continue;
      }
      std::vector<Instruction*> operands;
      for (const Instruction* operand : original->operands()) {
        operands.push_back(copies.at(operand));
      }
      copies[original.get()] = round.add_clone(*original, std::move(operands));
    }
    std::vector<Instruction*> results = leaves;
    for (std::size_t i = 0; i < carried_.size(); ++i) {
      results[i] = copies.at(body_.root()->operand(carried_[i]));
    }
    for (std::size_t i = 0; i < stacked_.size(); ++i) {
      const std::size_t leaf = carried_.size() + invariants_.size() + i;
      Instruction* const value = leaf_in(stacked_[i]);
      Instruction* const slice = round.add(
          Opcode::reshape, Shape(value->shape().dtype(), stack_dims(value->shape(), 1)), {value});
      std::vector<Instruction*> operands{leaves[leaf], slice, leaves.back()};
      for (int d = 0; d < value->shape().rank(); ++d) {
        operands.push_back(add_integer_to(round, DType::s32, 0));
      }
      results[leaf] =
          round.add(Opcode::dynamic_update_slice, leaves[leaf]->shape(), std::move(operands));
    }
    results.back() =
        round.add(Opcode::add, kRoundNumber, {leaves.back(), add_integer_to(round, DType::s32, 1)});
    round.set_root(round.add_tuple(std::move(results)));
    return &round;
  }

  // A backward round reads the segment's stacks, last slice first, instead of the whole's.
  Computation* backward_round(const Shape& state) {
    const Computation& original = *pair_.backward->while_body();
    Computation& round = *module_.add_clone(original);
    std::unordered_map<const Instruction*, Instruction*> copies;
    for (std::size_t i = 0; i < original.instructions().size(); ++i) {
      copies[original.instructions()[i].get()] = round.instructions()[i].get();
    }
    Instruction* const parameter = round.parameters()[0];
    parameter->set_shape(state);
    for (Instruction* element : parameter->users()) {
      element->set_shape(state.elements()[at(element->attributes().tuple_index)]);
    }
    std::vector<Instruction*> results = round.root()->operands();
    const int number = static_cast<int>(state.elements().size()) - 1;
    Instruction* const number_now = round.add_get_tuple_element(parameter, number);
    for (const Residual& residual : pair_.residuals) {
      for (const Instruction* read : residual.reads) {
        Instruction* const copy = copies.at(read);
        const Shape index = copy->operand(1)->shape();
        Instruction* const last = add_integer_to(round, DType::s32, length_ - 1);
        Instruction* slice = round.add(Opcode::subtract, kRoundNumber, {last, number_now});
        if (index.dtype() != DType::s32) slice = round.add(Opcode::convert, index, {slice});
        copy->replace_operand(1, slice);
      }
    }
    results.push_back(
        round.add(Opcode::add, kRoundNumber, {number_now, add_integer_to(round, DType::s32, 1)}));
    round.set_root(round.add_tuple(std::move(results)));
    round.remove_dead();
    static_cast<void>(round.sort_topologically());  // fails on cycles only
    return &round;
  }

  const ResidualPair& pair_;
  Computation& body_;  // of the forward loop
  ir::Module& module_;
  std::int64_t length_ = 0, segments_ = 0;
  // Leaves of the forward state: those that a segment starts from, of which the first are stacked
  // for the backward loop, and those that no round changes.
  std::vector<int> carried_, stacked_, invariants_;
  std::vector<int> residual_leaves_;                      // by residual: the leaf that it stacks
  std::unordered_map<int, const Instruction*> elements_;  // by leaf of carried_: in the body
  std::unordered_set<const Instruction*> repeated_;       // what carries a round on
  // Of the loop over segments: its starts, and the leaves of carried_'s stacks and of invariants_.
  std::vector<Instruction*> starts_;
  std::vector<int> segment_leaves_, invariant_leaves_;
};

}  // namespace

bool may_have_segments(const ResidualPair& pair) {
  constexpr std::int64_t kFewest = 12;
  return pair.slices >= kFewest && reads_in_reverse(pair);
}

std::int64_t segment_length(const ResidualPair& pair) {
  Segments segments(pair);
  return segments.find_carried() ? segments.length() : 0;
}

void segment_loops(const ResidualPair& pair, std::int64_t length) {
  Segments segments(pair);
  if (segments.find_carried()) segments.rewrite(length);
}

}  // namespace plimsoll::passes
