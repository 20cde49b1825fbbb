// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/loops/split_loops.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/dataflow/induction_variables.h"
#include "runtime/ir/dataflow/views.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

// The slices of the residuals that a part of a loop touches.
struct Range {
  std::int64_t lowest = 0, count = 0;
};

Instruction* add_constant_before(Instruction* position, ir::DType dtype, std::int64_t value) {
  auto literal = std::make_shared<ir::Literal>(ir::Shape(dtype, {}));
  literal->set(0, static_cast<double>(value));
  ir::Attributes attributes;
  attributes.literal = std::move(literal);
  return position->parent()->insert_before(position, Opcode::constant, ir::Shape(dtype, {}), {}, {},
                                           std::move(attributes));
}

// A loop that is taken apart: the leaves of its state that are residuals, and what is known of its
// scalars in every round.
class Parts {
 public:
  Parts(Instruction& loop, const std::vector<int>& residuals)
      : loop_(loop), parent_(*loop.parent()), residuals_(residuals) {}

  // False where no counter tells one round from the others.
  bool count(std::int64_t rounds) {
    const Instruction& state = *loop_.while_body()->parameters()[0];
    for (const Instruction* element : state.users()) {
      const ir::Shape& shape = element->shape();
      if (!shape.is_scalar() || !ir::is_integer(shape.dtype())) continue;
      auto values = ir::scalar_by_round(loop_, *element, {});
      if (!values || std::ssize(*values) != rounds) continue;
      const auto leaf = static_cast<int>(element->attributes().tuple_index);
      const bool rises = std::is_sorted(values->begin(), values->end(), std::less_equal<>());
      const bool falls = std::is_sorted(values->begin(), values->end(), std::greater_equal<>());
      if (counter_ < 0 && (rises || falls)) {
        counter_ = leaf;
        rises_ = rises;
      }
      scalars_.emplace(leaf, std::move(*values));
    }
    for (const Instruction* element : loop_.while_condition()->parameters()[0]->users()) {
      if (is_residual(static_cast<int>(element->attributes().tuple_index))) return false;
    }
    return counter_ >= 0;
  }

  // What the loop is given, but for the residuals.
  std::vector<Instruction*> starts() const { return loop_.operand(0)->operands(); }

  // The rounds up to `end`, or all the others, on this state. `touches` are the instructions of the
  // body that slice residuals, and the operand with the slice of each.
  Instruction* make(std::vector<Instruction*> starts, const Range& range,
                    std::optional<std::int64_t> end,
                    const std::vector<std::pair<const Instruction*, int>>& touches) {
    ir::Module& module = *parent_.module();
    std::vector<ir::Shape> shapes;
    for (std::size_t leaf = 0; leaf < starts.size(); ++leaf) {
      shapes.push_back(starts[leaf]->shape());
    }
    const ir::Shape state = ir::Shape::tuple(shapes);
    Computation* const body = module.add_clone(*loop_.while_body());
    body->parameters()[0]->set_shape(state);
    body->root()->set_shape(state);
    for (Instruction* element : body->parameters()[0]->users()) {
      element->set_shape(shapes[at(element->attributes().tuple_index)]);
    }
    const auto& originals = loop_.while_body()->instructions();
    std::vector<std::pair<Instruction*, int>> copies;
    for (std::size_t i = 0; i < originals.size(); ++i) {
      for (const auto& [original, operand] : touches) {
        if (original == originals[i].get()) {
          copies.emplace_back(body->instructions()[i].get(), operand);
        }
      }
    }
    for (const auto& [copy, operand] : copies) {
      if (copy->opcode() == Opcode::dynamic_update_slice)
        copy->set_shape(copy->operand(0)->shape());
      if (range.lowest == 0) continue;
      Instruction* slice = copy->operand(operand);
      Instruction* lowest = add_constant_before(copy, slice->shape().dtype(), range.lowest);
      copy->replace_operand(
          operand, body->insert_before(copy, Opcode::subtract, slice->shape(), {slice, lowest}));
    }
    Computation* const condition =
        end ? until(state, *end) : module.add_clone(*loop_.while_condition());
    condition->parameters()[0]->set_shape(state);
    Instruction* start = parent_.insert_before(&loop_, Opcode::tuple, state, std::move(starts));
    ir::Attributes attributes = loop_.attributes();
    // It says how often the whole loop runs.
    std::erase_if(attributes.extra,
                  [](const auto& each) { return each.first == "backend_config"; });
    Instruction* made = parent_.insert_before(&loop_, Opcode::while_, state, {start}, loop_.name(),
                                              std::move(attributes));
    made->set_called_computations({condition, body});
    return made;
  }

  // What the rounds behind `part`, which ran `rounds`, are given.
  std::vector<Instruction*> starts_behind(Instruction* part, std::int64_t rounds) {
    std::vector<Instruction*> starts = this->starts();
    for (int leaf = 0; leaf < static_cast<int>(starts.size()); ++leaf) {
      if (ir::passes_through(loop_, leaf) || is_residual(leaf)) continue;
      const auto scalar = scalars_.find(leaf);
      starts[at(leaf)] = scalar != scalars_.end()
                             ? add_constant_before(&loop_, starts[at(leaf)]->shape().dtype(),
                                                   scalar->second[at(rounds)])
                             : element_of(part, leaf);
    }
    return starts;
  }

  Instruction* element_of(Instruction* loop, int leaf) {
    ir::Attributes attributes;
    attributes.tuple_index = leaf;
    return parent_.insert_before(&loop_, Opcode::get_tuple_element,
                                 loop->shape().elements()[at(leaf)], {loop}, {},
                                 std::move(attributes));
  }

  // Room for the residual's slices of `range`.
  Instruction* add_stack(int leaf, const Range& range) {
    const ir::Shape& whole = loop_.shape().elements()[at(leaf)];
    ir::Dims dims = whole.dims();
    dims[0] = range.count;
    Instruction* zero = add_constant_before(&loop_, whole.dtype(), 0);
    return parent_.insert_before(&loop_, Opcode::broadcast, ir::Shape(whole.dtype(), dims), {zero});
  }

  void replace_by(Instruction* last) {
    for (Instruction* user : std::vector<Instruction*>(loop_.users())) {
      user->replace_operand(0, last);
    }
    parent_.remove(&loop_);
  }

 private:
  bool is_residual(int leaf) const {
    return std::find(residuals_.begin(), residuals_.end(), leaf) != residuals_.end();
  }

  // Whether the counter has not come to where it stands after `rounds`.
  Computation* until(const ir::Shape& state, std::int64_t rounds) {
    Computation* condition = parent_.module()->add_computation("more");
    Instruction* parameter = condition->add_parameter(0, state);
    Instruction* counter = condition->add_get_tuple_element(parameter, counter_);
    ir::Literal literal(counter->shape());
    literal.set(0, static_cast<double>(scalars_.at(counter_)[at(rounds)]));
    Instruction* end = condition->add_constant(std::move(literal));
    ir::Attributes attributes;
    attributes.comparison_direction =
        rises_ ? ir::ComparisonDirection::lt : ir::ComparisonDirection::gt;
    condition->set_root(condition->add(Opcode::compare, ir::Shape(ir::DType::pred, {}),
                                       {counter, end}, {}, std::move(attributes)));
    return condition;
  }

  Instruction& loop_;
  Computation& parent_;
  const std::vector<int>& residuals_;
  std::map<int, std::vector<std::int64_t>> scalars_;  // by leaf: its value in each round
  int counter_ = -1;                                  // one that rises, or falls, with the rounds
  bool rises_ = true;
};

}  // namespace

Instruction* split_loops(const ResidualPair& pair, std::int64_t rounds) {
  const std::int64_t all = pair.slices;
  if (rounds <= 0 || rounds >= all || !reads_in_reverse(pair)) return nullptr;
  std::vector<int> written, read;
  std::vector<std::pair<const Instruction*, int>> writes, reads;
  for (const Residual& residual : pair.residuals) {
    const Instruction& stacked = *pair.backward->operand(0)->operand(residual.backward_leaf);
    written.push_back(static_cast<int>(stacked.attributes().tuple_index));
    read.push_back(residual.backward_leaf);
    const Instruction* update = pair.forward->while_body()->root()->operand(written.back());
    if (update->opcode() != Opcode::dynamic_update_slice || update->operand(1) != residual.update ||
        update->users().size() != 1) {
      return nullptr;
    }
    writes.emplace_back(update, 2);
    for (const Instruction* slice : residual.reads) reads.emplace_back(slice, 1);
  }
  Parts forward(*pair.forward, written), backward(*pair.backward, read);
  if (!forward.count(all) || !backward.count(all)) return nullptr;

  const Range first{pair.step > 0 ? 0 : all - rounds, rounds};
  const Range second{pair.step > 0 ? rounds : 0, all - rounds};
  std::vector<Instruction*> starts = forward.starts();
  for (const int leaf : written) starts[at(leaf)] = forward.add_stack(leaf, first);
  Instruction* const forward_first = forward.make(std::move(starts), first, rounds, writes);
  starts = forward.starts_behind(forward_first, rounds);
  for (const int leaf : written) starts[at(leaf)] = forward.add_stack(leaf, second);
  Instruction* const forward_second = forward.make(std::move(starts), second, {}, writes);

  // Backwards the second half comes first.
  starts = backward.starts();
  for (std::size_t i = 0; i < read.size(); ++i) {
    starts[at(read[i])] = backward.element_of(forward_second, written[i]);
  }
  Instruction* const backward_second =
      backward.make(std::move(starts), second, all - rounds, reads);
  starts = backward.starts_behind(backward_second, all - rounds);
  for (std::size_t i = 0; i < read.size(); ++i) {
    starts[at(read[i])] = backward.element_of(forward_first, written[i]);
  }
  Instruction* const backward_first = backward.make(std::move(starts), first, {}, reads);

  // What comes before a loop comes before its first rounds, and what comes behind it behind the
  // last.
  order_as(*pair.forward, *forward_first, *forward_second);
  order_as(*pair.backward, *backward_second, *backward_first);
  Computation& parent = *pair.forward->parent();
  backward.replace_by(backward_first);
  // With the backward loop's old start, for which the residuals were taken.
  forward.replace_by(forward_second);
  parent.remove_dead();
  return forward_first;
}

}  // namespace plimsoll::passes
