// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <string>

#include "runtime/ir/interpreter/interpreter_elementwise.h"
#include "runtime/ir/interpreter/interpreter_parts.h"
#include "runtime/ir/participants.h"

namespace plimsoll::ir::interpreter {
namespace {

// `operand` in the (possibly wider or narrower float) dtype of `shape`.
Result<Literal> in_shape(const Instruction& instruction, const Literal& operand,
                         const Shape& shape) {
  if (!shape.is_array() || !operand.shape().is_array()) {
    if (operand.shape() == shape) return operand;
  } else if (operand.shape().dims() == shape.dims()) {
    if (operand.shape().dtype() == shape.dtype()) return operand;
    Literal result(shape);
    convert_elements({operand.shape().dtype(), operand.bytes().data()}, shape.dtype(),
                     result.mutable_bytes().data(), shape.element_count());
    return result;
  }
  return unsupported(instruction, operand.shape().to_string() + " to " + shape.to_string() +
                                      " with one participant");
}

// The operands as the one result that an identity over them has.
Result<Literal> identity(const Instruction& instruction, Operands operands, const Shape& shape) {
  if (!shape.is_tuple()) return in_shape(instruction, *operands[0], shape);
  if (shape.elements().size() != operands.size()) {
    return unsupported(
        instruction, fmt::format("result {} for {} operands", shape.to_string(), operands.size()));
  }
  std::vector<Literal> elements;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(Literal element,
                              in_shape(instruction, *operands[i], shape.elements()[i]));
    elements.push_back(std::move(element));
  }
  return Literal::tuple(std::move(elements));
}

// Without others, groups are checked and operands go through.
Result<Literal> reduced_or_moved(Context& context, const Instruction& instruction,
                                 Operands operands, const Shape& shape) {
  if (topology_of(instruction).participants() > 1) {
    return together(context, instruction, operands, shape);
  }
  PLIMSOLL_RETURN_IF_ERROR(collective_groups(instruction).status());
  return identity(instruction, operands, shape);
}

Result<Literal> permuted(Context& context, const Instruction& instruction, Operands operands,
                         const Shape& shape) {
  if (topology_of(instruction).participants() > 1) {
    return together(context, instruction, operands, shape);
  }
  const bool several = shape.is_tuple() && shape.elements().size() == operands.size();
  if (operands.size() != 1 && !several) {
    return unsupported(instruction, "the form with output operands");
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const Pairs pairs, permuted_participants(instruction));
  // Who is no target gets zeros.
  if (pairs.empty()) return Literal(shape);
  return identity(instruction, operands, shape);
}

// What a start half returns: the operand(s), then the result, then contexts of no content.
Literal started(const Shape& shape, Operands operands, Literal result, std::size_t result_at) {
  std::vector<Literal> elements;
  for (std::size_t i = 0; i < shape.elements().size(); ++i) {
    const Shape& element = shape.elements()[i];
    if (i == result_at) {
      elements.push_back(std::move(result));
    } else if (i < 2 && element.is_tuple()) {
      std::vector<Literal> inputs;
      for (const Literal* operand : operands) inputs.push_back(*operand);
      elements.push_back(Literal::tuple(std::move(inputs)));
    } else if (i < 2 && !operands.empty()) {
      elements.push_back(*operands[0]);
    } else {
      elements.emplace_back(element);
    }
  }
  return Literal::tuple(std::move(elements));
}

Result<Literal> start(Context& context, const Instruction& instruction, Operands operands) {
  const Shape& shape = instruction.shape();
  if (instruction.opcode() == Opcode::all_reduce_start) {
    return reduced_or_moved(context, instruction, operands, shape);
  }
  const std::size_t result_at = instruction.opcode() == Opcode::copy_start ? 0 : 1;
  if (!shape.is_tuple() || shape.elements().size() <= result_at) {
    return unsupported(instruction, "result " + shape.to_string());
  }
  const Shape& result_shape = shape.elements()[result_at];
  Result<Literal> result = [&]() -> Result<Literal> {
    switch (instruction.opcode()) {
      case Opcode::collective_permute_start:
        return permuted(context, instruction, operands, result_shape);
      case Opcode::all_gather_start:
        return reduced_or_moved(context, instruction, operands, result_shape);
      case Opcode::async_start:
        if (instruction.called_computations().size() != 1) {
          return unsupported(instruction, "no called computation");
        }
        return evaluate(context, *instruction.called(0), operands);
      default:
        return identity(instruction, operands, result_shape);
    }
  }();
  if (!result.ok()) return result.status();
  return started(shape, operands, std::move(result).value(), result_at);
}

Result<Literal> done(const Instruction& instruction, const Literal& operand, std::size_t element) {
  if (!operand.shape().is_tuple() || operand.elements().size() <= element) {
    return unsupported(instruction, "operand " + operand.shape().to_string());
  }
  return operand.elements()[element];
}

}  // namespace

Result<Literal> collective(Context& context, const Instruction& instruction, Operands operands) {
  switch (instruction.opcode()) {
    case Opcode::all_reduce_start:
    case Opcode::all_gather_start:
    case Opcode::collective_permute_start:
    case Opcode::copy_start:
    case Opcode::async_start:
      return start(context, instruction, operands);
    case Opcode::all_reduce_done:
    case Opcode::async_update:
      return *operands[0];
    case Opcode::copy_done:
      return done(instruction, *operands[0], 0);
    case Opcode::all_gather_done:
    case Opcode::collective_permute_done:
    case Opcode::async_done:
      return done(instruction, *operands[0], 1);
    case Opcode::collective_permute:
      return permuted(context, instruction, operands, instruction.shape());
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::collective_broadcast:
      return reduced_or_moved(context, instruction, operands, instruction.shape());
    case Opcode::ragged_all_to_all:
      return ragged_together(context, instruction, operands);
    case Opcode::send:
    case Opcode::send_done:
    case Opcode::recv:
    case Opcode::recv_done:
      return transfer(context, instruction, operands);
    default:
      return unsupported(instruction, "transfers to and from outside");
  }
}

}  // namespace plimsoll::ir::interpreter
