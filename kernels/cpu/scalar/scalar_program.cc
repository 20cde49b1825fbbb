// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/scalar/scalar_program.h"

#include <cstring>
#include <span>
#include <unordered_map>

#include "runtime/base/index.h"
#include "runtime/ir/elided_constant.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/ir/truths.h"

namespace plimsoll::kernels {
namespace {

using ir::Opcode;

ir::DType slot_dtype(ir::DType dtype, bool widen_halves) {
  const bool half = dtype == ir::DType::f16 || dtype == ir::DType::bf16;
  return half && widen_halves ? ir::DType::f32 : dtype;
}

// A scalar that only changes its name.
bool forwards_its_operand(Opcode opcode) {
  return opcode == Opcode::reshape || opcode == Opcode::bitcast || opcode == Opcode::copy ||
         opcode == Opcode::broadcast || opcode == Opcode::opt_barrier || opcode == Opcode::domain ||
         opcode == Opcode::transpose;
}

}  // namespace

Result<ScalarProgram> ScalarProgram::compile(const ir::Computation& computation,
                                             bool widen_halves) {
  ScalarProgram program;
  for (const ir::Instruction* parameter : computation.parameters()) {
    if (!parameter->shape().is_scalar()) {
      return unimplemented("computation " + computation.name() + ": parameter " +
                           parameter->name() + " is " + parameter->shape().to_string() +
                           " (scalars are supported)");
    }
    program.parameters_.push_back(slot_dtype(parameter->shape().dtype(), widen_halves));
    program.parameter_slots_.push_back(program.slots_.size());
    program.slots_.push_back(program.parameters_.back());
  }
  std::vector<std::size_t> roots;
  PLIMSOLL_RETURN_IF_ERROR(program.add(computation, program.parameter_slots_, widen_halves, roots));
  program.result_slots_ = roots;
  for (const std::size_t slot : roots) program.results_.push_back(program.slots_[slot]);
  return program;
}

Status ScalarProgram::add(const ir::Computation& computation,
                          const std::vector<std::size_t>& arguments, bool widen_halves,
                          std::vector<std::size_t>& roots) {
  // Scalars have one slot, tuples several.
  std::unordered_map<const ir::Instruction*, std::vector<std::size_t>> slots_of;
  for (const auto& owned : computation.instructions()) {
    const ir::Instruction& instruction = *owned;
    std::vector<std::size_t>& slots = slots_of[&instruction];
    const auto operand_slots = [&] {
      std::vector<std::size_t> all;
      for (const ir::Instruction* operand : instruction.operands()) {
        const auto& some = slots_of.at(operand);
        all.insert(all.end(), some.begin(), some.end());
      }
      return all;
    };
    const Opcode opcode = instruction.opcode();
    if (opcode == Opcode::parameter) {
      slots = {arguments[at(instruction.attributes().parameter_number)]};
      continue;
    }
    if (opcode == Opcode::tuple) {
      slots = operand_slots();
      continue;
    }
    if (opcode == Opcode::get_tuple_element) {
      const auto& all = slots_of.at(instruction.operand(0));
      slots = {all[at(instruction.attributes().tuple_index)]};
      continue;
    }
    if (opcode == Opcode::call || opcode == Opcode::fusion) {
      PLIMSOLL_RETURN_IF_ERROR(add(*instruction.to_apply(), operand_slots(), widen_halves, slots));
      continue;
    }
    if (!instruction.shape().is_scalar()) {
      return unimplemented("computation " + computation.name() + ": " + instruction.name() +
                           " is " + instruction.shape().to_string() + " (scalars are supported)");
    }
    const ir::DType dtype = slot_dtype(instruction.shape().dtype(), widen_halves);
    if (forwards_its_operand(opcode) && instruction.operand(0)->shape() == instruction.shape()) {
      slots = slots_of.at(instruction.operand(0));
      continue;
    }
    const std::size_t at = slots_.size();
    slots = {at};
    slots_.push_back(dtype);
    if (opcode == Opcode::constant) {
      const ir::Literal& literal = *instruction.attributes().literal;
      if (literal.is_elided()) return ir::elided_constant(instruction);
      Constant constant{at, dtype, 0};
      ir::interpreter::convert_elements({literal.shape().dtype(), literal.bytes().data()}, dtype,
                                        reinterpret_cast<std::byte*>(&constant.bits), 1);
      constants_.push_back(constant);
      continue;
    }
    // A change of meaning of the same bits is a copy, if no bits have been widened.
    const auto is_widened = [&](ir::DType from) { return slot_dtype(from, widen_halves) != from; };
    const bool other_bits =
        opcode == Opcode::bitcast_convert &&
        (is_widened(instruction.shape().dtype()) ||
         is_widened(instruction.operand(0)->shape().dtype()) ||
         dtype_bytes(instruction.operand(0)->shape().dtype()) != dtype_bytes(dtype));
    if (!ir::is_elementwise(opcode) || other_bits) {
      return unimplemented("computation " + computation.name() + ": " + instruction.name() +
                           ": no scalar form of " + std::string(ir::to_string(opcode)));
    }
    steps_.push_back({opcode, instruction.attributes(), operand_slots(), at});
  }
  roots = slots_of.at(computation.root());
  return ok_status();
}

ScalarProgram::Evaluator::Evaluator(const ScalarProgram& program)
    : program_(program), registers_(program.slots_.size() * kLanes) {
  for (const Constant& constant : program.constants_) {
    const auto bytes = static_cast<std::size_t>(dtype_bytes(constant.dtype));
    std::byte* to = slot(constant.slot);
    for (std::int64_t i = 0; i < kLanes; ++i, to += bytes) std::memcpy(to, &constant.bits, bytes);
  }
}

void ScalarProgram::Evaluator::run(std::int64_t count) {
  ir::interpreter::View views[3];
  for (const Step& step : program_.steps_) {
    if (step.opcode == Opcode::bitcast_convert) {
      const ir::DType dtype = program_.slots_[step.result];
      const std::span result(slot(step.result),
                             static_cast<std::size_t>(count * dtype_bytes(dtype)));
      std::memcpy(result.data(), slot(step.operands[0]), result.size());
      if (dtype == ir::DType::pred) ir::make_truths(result);
      continue;
    }
    for (std::size_t i = 0; i < step.operands.size(); ++i)
      views[i] = {program_.slots_[step.operands[i]], slot(step.operands[i])};
    ir::interpreter::apply_elementwise(step.opcode, step.attributes, {views, step.operands.size()},
                                       program_.slots_[step.result], slot(step.result), count);
  }
}

Combiner recognize_combiner(const ir::Computation& computation) {
  if (computation.parameters().size() != 2) return Combiner::none;
  for (const ir::Instruction* parameter : computation.parameters()) {
    if (!parameter->shape().is_scalar() || parameter->shape() != computation.root()->shape())
      return Combiner::none;
  }
  if (computation.root() == computation.parameters()[1]) return Combiner::second;
  static constexpr std::pair<Opcode, Combiner> kKnown[] = {
      {Opcode::add, Combiner::add},         {Opcode::multiply, Combiner::multiply},
      {Opcode::maximum, Combiner::maximum}, {Opcode::minimum, Combiner::minimum},
      {Opcode::and_, Combiner::and_},       {Opcode::or_, Combiner::or_}};
  for (const auto& [opcode, combiner] : kKnown) {
    if (ir::is_binary_computation(computation, opcode)) return combiner;
  }
  return Combiner::none;
}

std::optional<PlainComparison> recognize_comparison(const ir::Computation& computation) {
  const ir::Instruction& root = *computation.root();
  if (root.opcode() != Opcode::compare) return std::nullopt;
  const ir::Instruction& a = *root.operand(0);
  const ir::Instruction& b = *root.operand(1);
  if (a.opcode() != Opcode::parameter || b.opcode() != Opcode::parameter ||
      a.shape() != b.shape() || !a.shape().is_scalar())
    return std::nullopt;
  PlainComparison plain{0, root.attributes().comparison_direction,
                        root.attributes().comparison_order};
  const std::int64_t first = a.attributes().parameter_number;
  const std::int64_t second = b.attributes().parameter_number;
  if (second == first + 1 && first % 2 == 0) {
    plain.key = static_cast<std::size_t>(first / 2);
    return plain;
  }
  if (first == second + 1 && second % 2 == 0) {
    plain.key = static_cast<std::size_t>(second / 2);
    switch (plain.direction) {
      case ir::ComparisonDirection::lt:
        plain.direction = ir::ComparisonDirection::gt;
        break;
      case ir::ComparisonDirection::gt:
        plain.direction = ir::ComparisonDirection::lt;
        break;
      case ir::ComparisonDirection::le:
        plain.direction = ir::ComparisonDirection::ge;
        break;
      case ir::ComparisonDirection::ge:
        plain.direction = ir::ComparisonDirection::le;
        break;
      default:
        break;
    }
    return plain;
  }
  return std::nullopt;
}

}  // namespace plimsoll::kernels
