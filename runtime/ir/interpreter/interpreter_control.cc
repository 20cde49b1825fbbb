// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "runtime/base/index.h"
#include "runtime/ir/interpreter/interpreter_parts.h"

namespace plimsoll::ir::interpreter {
namespace {

Result<Literal> while_loop(Context& context, const Instruction& instruction, const Literal& init) {
  Literal state = init;
  for (;;) {
    const Literal* argument = &state;
    PLIMSOLL_ASSIGN_OR_RETURN(
        const Literal goes_on,
        evaluate(context, *instruction.while_condition(), Operands(&argument, 1)));
    if (integer_at(goes_on, 0) == 0) return state;
    PLIMSOLL_ASSIGN_OR_RETURN(state,
                              evaluate(context, *instruction.while_body(), Operands(&argument, 1)));
  }
}

// An index out of range takes the last branch.
Result<Literal> conditional(Context& context, const Instruction& instruction, Operands operands) {
  const auto branches = static_cast<std::int64_t>(instruction.called_computations().size());
  std::int64_t branch = integer_at(*operands[0], 0);
  if (operands[0]->shape().dtype() == DType::pred) {
    branch = branch != 0 ? 0 : 1;
  } else if (branch < 0 || branch >= branches) {
    branch = branches - 1;
  }
  return evaluate(context, *instruction.called(static_cast<int>(branch)),
                  operands.subspan(at(branch) + 1, 1));
}

}  // namespace

Result<Literal> control(Context& context, const Instruction& instruction, Operands operands) {
  switch (instruction.opcode()) {
    case Opcode::tuple: {
      std::vector<Literal> elements;
      for (const Literal* operand : operands) elements.push_back(*operand);
      return Literal::tuple(std::move(elements));
    }
    case Opcode::get_tuple_element:
      return operands[0]->elements()[at(instruction.attributes().tuple_index)];
    case Opcode::call:
    case Opcode::fusion:
      return evaluate(context, *instruction.to_apply(), operands);
    case Opcode::while_:
      return while_loop(context, instruction, *operands[0]);
    case Opcode::conditional:
      return conditional(context, instruction, operands);
    case Opcode::domain:
    case Opcode::opt_barrier:
    case Opcode::add_dependency:
      return *operands[0];
    case Opcode::after_all:
      return Literal(instruction.shape());
    case Opcode::custom_call:
      return unsupported(
          instruction, "custom call target '" + instruction.attributes().custom_call_target + "'");
    default:  // parameter
      return invalid_argument("parameter '" + instruction.name() + "' has no value of its own");
  }
}

}  // namespace plimsoll::ir::interpreter
