// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "runtime/base/index.h"
#include "runtime/passes/collectives/participant_groups.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

bool is_read_by_element(const Instruction& tuple) {
  return std::all_of(tuple.users().begin(), tuple.users().end(), [](const Instruction* user) {
    return user->opcode() == Opcode::get_tuple_element;
  });
}

std::vector<Instruction*> readers_of(const Instruction& tuple, int element) {
  std::vector<Instruction*> found;
  for (Instruction* user : tuple.users()) {
    if (user->attributes().tuple_index == element) found.push_back(user);
  }
  return found;
}

// state[element] + sum, or state[element] - sum, and nothing else of either.
struct Accumulation {
  Instruction* update = nullptr;
  Instruction* all_reduce = nullptr;
  int place = 1;  // of the sum among the operands
};

Accumulation find_accumulation(const Instruction& loop, int element) {
  const Computation& body = *loop.while_body();
  const Instruction& state = *body.parameters()[0];
  const Instruction& next = *body.root();
  Instruction* const update = next.operand(element);
  const bool adds = update->opcode() == Opcode::add;
  if ((!adds && update->opcode() != Opcode::subtract) || update->users().size() != 1 ||
      std::count(next.operands().begin(), next.operands().end(), update) != 1) {
    return {};
  }
  const auto readers = readers_of(state, element);
  if (readers.size() != 1 || readers[0]->users().size() != 1 || readers[0]->users()[0] != update ||
      readers[0]->is_root() ||
      !readers_of(*loop.while_condition()->parameters()[0], element).empty()) {
    return {};
  }
  for (const int place : {1, 0}) {
    if (place == 0 && !adds) break;
    Instruction* const sum = update->operand(place);
    if (update->operand(1 - place) != readers[0] || !is_sum_for(*sum, *update) ||
        !(sum->shape() == update->shape())) {
      continue;
    }
    return {update, sum, place};
  }
  return {};
}

void hoist(Instruction& loop, int element, const Accumulation& found) {
  Computation& computation = *loop.parent();
  Instruction& all_reduce = *found.all_reduce;
  Instruction& start = *loop.operand(0)->operand(element);
  const ir::Shape& shape = all_reduce.shape();
  // The loop adds up from zero what each has.
  std::vector<Instruction*> state = loop.operand(0)->operands();
  ir::Attributes zero;
  zero.literal = std::make_shared<const ir::Literal>(ir::Shape(shape.dtype(), {}));
  Instruction* zeros = computation.insert_before(&loop, Opcode::constant,
                                                 ir::Shape(shape.dtype(), {}), {}, {}, zero);
  if (!shape.is_scalar()) {
    zeros = computation.insert_before(&loop, Opcode::broadcast, shape, {zeros});
  }
  state[at(element)] = zeros;
  loop.replace_operand(
      0, computation.insert_before(&loop, Opcode::tuple, loop.shape(), std::move(state)));
  std::vector<Instruction*> order;
  for (const auto& instruction : computation.instructions()) order.push_back(instruction.get());
  Instruction* const root = computation.root();
  const auto readers = readers_of(loop, element);
  std::vector<Instruction*> added;
  added.push_back(computation.add_get_tuple_element(&loop, element));
  added.push_back(computation.add_clone(all_reduce, {added[0]}));
  if (!is_zero(start)) {
    added.push_back(computation.add(Opcode::add, shape, {&start, added[1]}));
  }
  computation.set_root(root);
  for (Instruction* reader : readers) reader->replace_all_uses_with(added.back());
  order.insert(std::find(order.begin(), order.end(), &loop) + 1, added.begin(), added.end());
  computation.set_order(order);
  found.update->replace_operand(found.place, all_reduce.operand(0));
  loop.while_body()->remove_dead();
  computation.remove_dead();
}

}  // namespace

Result<bool> hoist_all_reduces(ir::Module& module) {
  std::unordered_map<const Computation*, int> calls;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      for (const Computation* callee : instruction->called_computations()) ++calls[callee];
    }
  }
  bool changed = false;
  // Callees first: what leaves an inner loop may leave the outer one.
  for (Computation* computation : programs_of(module)) {
    std::vector<Instruction*> loops;
    for (const auto& instruction : computation->instructions()) {
      if (instruction->opcode() == Opcode::while_) loops.push_back(instruction.get());
    }
    for (Instruction* loop : loops) {
      const Computation& body = *loop->while_body();
      if (loop->is_root() || loop->operand(0)->opcode() != Opcode::tuple ||
          body.root()->opcode() != Opcode::tuple || calls[&body] != 1 ||
          !is_read_by_element(*loop) || !is_read_by_element(*body.parameters()[0]) ||
          !is_read_by_element(*loop->while_condition()->parameters()[0])) {
        continue;
      }
      for (int element = 0; element < loop->operand(0)->operand_count(); ++element) {
        const Accumulation found = find_accumulation(*loop, element);
        if (found.update == nullptr) continue;
        hoist(*loop, element, found);
        changed = true;
      }
    }
  }
  return changed;
}

}  // namespace plimsoll::passes
