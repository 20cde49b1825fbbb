// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/interpreter/interpreter.h"

#include <fmt/core.h>
#include <algorithm>
#include <new>
#include <stdexcept>
#include <thread>

#include "runtime/base/float_environment.h"
#include "runtime/base/index.h"
#include "runtime/ir/interpreter/interpreter_parts.h"

namespace plimsoll::ir {
namespace interpreter {
namespace {

// A result beyond this is refused rather than asked of the operating system.
constexpr std::int64_t kLargestValue = std::int64_t{1} << 33;

const Prepared& prepare(Context& context, const Computation& computation) {
  std::unique_ptr<Prepared>& prepared = context.prepared[&computation];
  if (prepared != nullptr) return *prepared;
  prepared = std::make_unique<Prepared>();
  const auto& instructions = computation.instructions();
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    prepared->position.emplace(instructions[i].get(), i);
    prepared->last_use.push_back(i);
    for (const Instruction* operand : instructions[i]->operands()) {
      prepared->last_use[prepared->position.at(operand)] = i;
    }
  }
  return *prepared;
}

Result<Literal> dispatch(Context& context, const Instruction& instruction, Operands operands) {
  switch (op_info(instruction.opcode()).op_class) {
    case OpClass::unary:
    case OpClass::binary:
    case OpClass::ternary:
      return elementwise(instruction, operands);
    case OpClass::creation:
      return creation(context, instruction);
    case OpClass::movement:
      return movement(instruction, operands);
    case OpClass::contraction:
      return contraction(instruction, operands);
    case OpClass::reduction:
      return reduction(context, instruction, operands);
    case OpClass::irregular:
      return irregular(context, instruction, operands);
    case OpClass::control:
    case OpClass::structure:
    case OpClass::kernel:
      return control(context, instruction, operands);
    case OpClass::collective:
    case OpClass::async:
      return collective(context, instruction, operands);
  }
  return internal_error("interpreter: unknown op class");
}

bool is_elided(const Literal& literal) {
  if (!literal.shape().is_tuple()) return literal.is_elided();
  for (const Literal& element : literal.elements()) {
    if (is_elided(element)) return true;
  }
  return false;
}

Status check_argument(const Literal& argument, const Shape& expected, std::string_view what,
                      std::size_t number) {
  const std::string place = fmt::format("{} {}", what, number);
  if (!(argument.shape() == expected)) {
    return invalid_argument(fmt::format("{}: is {}, must be {}", place,
                                        argument.shape().to_string(), expected.to_string()));
  }
  if (is_elided(argument)) return failed_precondition(place + ": has no values");
  return ok_status();
}

// The interpreter allocates wherever it computes; running out ends here.
template <typename F>
Result<Literal> within_memory(F f) {
  const auto exhausted = [] {
    return Status::resource_exhausted("interpreter: host memory is exhausted", {});
  };
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return exhausted();
  } catch (const std::length_error&) {
    return exhausted();
  }
}

}  // namespace

Status unsupported(const Instruction& instruction, std::string_view what) {
  return unimplemented(std::string(to_string(instruction.opcode())) + " '" + instruction.name() +
                       "': " + std::string(what));
}

// What there is arithmetic of here: of complex and narrow dtypes there is none.
bool is_plain(const Shape& shape) {
  if (shape.is_tuple()) {
    return std::all_of(shape.elements().begin(), shape.elements().end(), is_plain);
  }
  return !shape.is_array() || !(is_complex(shape.dtype()) || is_narrow(shape.dtype()));
}

Result<Literal> evaluate(Context& context, const Instruction& instruction, Operands operands) {
  if (instruction.shape().byte_size() > kLargestValue) {
    MemoryShortage shortage;
    shortage.limit_bytes = kLargestValue;
    shortage.culprit = instruction.name();
    return Status::resource_exhausted("interpreter: '" + instruction.name() + "' of " +
                                          instruction.shape().to_string() +
                                          " is over the largest value it evaluates (8GiB)",
                                      std::move(shortage));
  }
  if (!is_plain(instruction.shape()) ||
      !std::all_of(operands.begin(), operands.end(),
                   [](const Literal* operand) { return is_plain(operand->shape()); })) {
    return unimplemented("interpreter: '" + instruction.name() +
                         "' has complex or narrow values (passes/complex and passes/narrow make "
                         "others of them)");
  }
  return dispatch(context, instruction, operands);
}

Result<Literal> evaluate(Context& context, const Computation& computation, Operands arguments) {
  const Prepared& prepared = prepare(context, computation);
  const auto& instructions = computation.instructions();
  std::vector<Literal> values(instructions.size());
  std::vector<const Literal*> operands;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = *instructions[i];
    if (instruction.opcode() == Opcode::parameter) {
      values[i] = *arguments[at(instruction.attributes().parameter_number)];
      continue;
    }
    operands.clear();
    for (const Instruction* operand : instruction.operands()) {
      operands.push_back(&values[prepared.position.at(operand)]);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(values[i], evaluate(context, instruction, operands));
    for (const Instruction* operand : instruction.operands()) {
      const std::size_t at = prepared.position.at(operand);
      if (prepared.last_use[at] == i && operand != computation.root()) values[at] = Literal();
    }
  }
  return std::move(values[prepared.position.at(computation.root())]);
}

}  // namespace interpreter

namespace {

Result<Literal> interpret_as(const Module& module, std::span<const Literal> arguments,
                             const interpreter::Participation& participation) {
  const FloatEnvironment floats;
  if (module.entry() == nullptr) {
    return invalid_argument("module '" + module.name() + "' has no entry computation");
  }
  const auto& parameters = module.entry()->parameters();
  if (arguments.size() != parameters.size()) {
    return invalid_argument(fmt::format("module '{}': {} arguments, must have {}", module.name(),
                                        arguments.size(), parameters.size()));
  }
  std::vector<const Literal*> pointers;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    PLIMSOLL_RETURN_IF_ERROR(
        interpreter::check_argument(arguments[i], parameters[i]->shape(), "argument", i));
    pointers.push_back(&arguments[i]);
  }
  interpreter::Context context(participation);
  return interpreter::within_memory(
      [&] { return interpreter::evaluate(context, *module.entry(), pointers); });
}

}  // namespace

Result<Literal> interpret(const Module& module, std::span<const Literal> arguments) {
  return interpret_as(module, arguments, {});
}

Result<std::vector<Literal>> interpret_together(const Module& module,
                                                std::span<const std::vector<Literal>> arguments) {
  const std::int64_t participants = module.replica_count * module.num_partitions;
  if (static_cast<std::int64_t>(arguments.size()) != participants) {
    return invalid_argument(fmt::format("module '{}': arguments of {} participants, must be of {}",
                                        module.name(), arguments.size(), participants));
  }
  MeetingPlace place(participants);
  std::vector<Status> statuses(arguments.size());
  std::vector<Literal> results(arguments.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto self = static_cast<std::int64_t>(i);
      Result<Literal> result = interpret_as(module, arguments[i], {self, &place});
      if (result.ok()) results[i] = std::move(result).value();
      statuses[i] = result.status();
      place.leave(self, statuses[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) PLIMSOLL_RETURN_IF_ERROR(status);
  return results;
}

Result<Literal> interpret(const Instruction& instruction, std::span<const Literal> operands) {
  const FloatEnvironment floats;
  if (operands.size() != instruction.operands().size()) {
    return invalid_argument(fmt::format("instruction '{}': {} operands, must have {}",
                                        instruction.name(), operands.size(),
                                        instruction.operands().size()));
  }
  std::vector<const Literal*> pointers;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Shape& expected = instruction.operands()[i]->shape();
    PLIMSOLL_RETURN_IF_ERROR(interpreter::check_argument(operands[i], expected, "operand", i));
    pointers.push_back(&operands[i]);
  }
  interpreter::Context context;
  return interpreter::within_memory(
      [&] { return interpreter::evaluate(context, instruction, pointers); });
}

}  // namespace plimsoll::ir
