// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/dataflow/views.h"
#include "runtime/passes/cleanup/dead_code.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

namespace {

void mark_read(const Instruction& tuple, std::vector<bool>& live) {
  for (const Instruction* user : tuple.users()) {
    live[at(user->attributes().tuple_index)] = true;
  }
}

// Which state elements are needed by the results taken, the condition, effects, or a needed
// element.
//
// An element is not needed because its own next value reads it: what is needed is followed
// backwards from outside, and only a needed element adds what its next value reads, which may need
// further elements, until nothing new is found. Example: of `i' = i + 1; s' = s + i; t' = t * s`,
// with a condition on i and s as the result, i and s are needed; t, which only t' reads, is not.
//
// Each instruction of the body is visited once at most.
std::vector<bool> live_elements(const Instruction& loop) {
  const Computation& body = *loop.while_body();
  std::vector<bool> live(loop.shape().elements().size(), false);
  mark_read(loop, live);
  mark_read(*loop.while_condition()->parameters()[0], live);
  std::unordered_set<const Instruction*> seen = {body.parameters()[0]};
  std::vector<const Instruction*> work;
  for (const auto& instruction : body.instructions()) {
    if (instruction->has_side_effect()) work.push_back(instruction.get());
  }
  std::vector<bool> expanded(live.size(), false);
  for (;;) {
    for (std::size_t i = 0; i < live.size(); ++i) {
      if (!live[i] || expanded[i]) continue;
      expanded[i] = true;
      work.push_back(body.root()->operand(static_cast<int>(i)));
    }
    if (work.empty()) return live;
    const Instruction* instruction = work.back();
    work.pop_back();
    if (!seen.insert(instruction).second) continue;
    if (instruction->opcode() == Opcode::get_tuple_element &&
        instruction->operand(0) == body.parameters()[0]) {
      live[at(instruction->attributes().tuple_index)] = true;
    }
    for (const Instruction* operand : instruction->operands()) work.push_back(operand);
    for (const Instruction* before : instruction->control_predecessors()) work.push_back(before);
  }
}

// Makes `reads` take their elements, renumbered, from `tuple`.
void renumber(const std::vector<Instruction*>& reads, Instruction* tuple,
              const std::vector<std::int64_t>& position) {
  for (Instruction* read : reads) {
    std::int64_t& index = read->attributes().tuple_index;
    const std::int64_t to = position[at(index)];
    if (to < 0) continue;
    index = to;
    if (read->operand(0) != tuple) read->replace_operand(0, tuple);
  }
}

bool narrow(Instruction& loop) {
  Computation& body = *loop.while_body();
  Computation& condition = *loop.while_condition();
  Instruction* state = body.parameters()[0];
  if (!loop.shape().is_tuple() || loop.is_root() || body.root()->opcode() != Opcode::tuple ||
      !body.root()->users().empty() || !ir::only_elements_are_taken(loop) ||
      !ir::only_elements_are_taken(*state) ||
      !ir::only_elements_are_taken(*condition.parameters()[0])) {
    return false;
  }
  const std::vector<bool> live = live_elements(loop);
  if (std::find(live.begin(), live.end(), false) == live.end()) return false;

  std::vector<std::int64_t> position(live.size(), -1);
  std::vector<int> kept;
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    position[i] = static_cast<std::int64_t>(kept.size());
    kept.push_back(static_cast<int>(i));
    shapes.push_back(loop.shape().elements()[i]);
  }
  const Shape narrow_shape = Shape::tuple(shapes);

  // The body's root first: then nothing uses the dead elements, and they can go.
  std::vector<Instruction*> results;
  for (int i : kept) results.push_back(body.root()->operand(i));
  body.add_tuple(std::move(results));
  body.remove_dead();
  for (Computation* computation : {&body, &condition}) {
    Instruction* parameter = computation->parameters()[0];
    parameter->set_shape(narrow_shape);
    renumber(parameter->users(), parameter, position);
  }

  Computation& parent = *loop.parent();
  std::vector<Instruction*> initial;
  for (int i : kept) {
    ir::Attributes attributes;
    attributes.tuple_index = i;
    initial.push_back(parent.insert_before(&loop, Opcode::get_tuple_element, shapes[initial.size()],
                                           {loop.operand(0)}, {}, std::move(attributes)));
  }
  Instruction* start = parent.insert_before(&loop, Opcode::tuple, narrow_shape, std::move(initial));
  Instruction* replacement = parent.insert_before(&loop, Opcode::while_, narrow_shape, {start},
                                                  loop.name(), loop.attributes());
  replacement->set_called_computations(loop.called_computations());
  renumber(std::vector(loop.users()), replacement, position);
  for (Instruction* before : loop.control_predecessors()) {
    replacement->add_control_predecessor(before);
  }
  for (Instruction* after : loop.control_successors()) after->add_control_predecessor(replacement);
  // An effectful loop would not be dropped as dead code.
  parent.remove(&loop);
  return true;
}

}  // namespace

bool narrow_loop_states(ir::Module& module) {
  std::unordered_map<const Computation*, int> callers;
  std::vector<Instruction*> loops;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      for (const Computation* callee : instruction->called_computations()) ++callers[callee];
      if (instruction->opcode() == Opcode::while_) loops.push_back(instruction.get());
    }
  }
  bool changed = false;
  for (Instruction* loop : loops) {
    if (callers[loop->while_body()] != 1 || callers[loop->while_condition()] != 1) continue;
    if (narrow(*loop)) changed = true;
  }
  return changed;
}

}  // namespace plimsoll::passes
