// SPDX-License-Identifier: Apache-2.0
#include "jit/loops/flat_form.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace plimsoll::jit {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

// Element-wise fusions over arrays of the same number of elements differ by their extents only:
// f32[128,256] and f32[64,512] are the same loop over 32768 elements. The flat form writes such a
// body over a single dim of a fixed extent (kFlatExtent), with scalars left as they are; bodies
// with equal flat forms share one compiled function, which is told the number of elements at the
// launch. An optimizer's update of 200 parameters then compiles one or two functions.
//
// Anything whose index is not the element's number (a transpose, a broadcast along one dim, a
// slice) has no flat form.
class Flattener {
 public:
  Flattener(const Computation& fused, std::int64_t elements, Computation& target)
      : fused_(fused), elements_(elements), target_(target) {}

  // False when some instruction is not flat.
  bool run() {
    for (const Instruction* parameter : fused_.parameters()) {
      if (parameter == nullptr || !is_flat(parameter->shape())) return false;
      flat_[parameter] = target_.add_parameter(parameter->attributes().parameter_number,
                                               flat(parameter->shape()), "p");
    }
    for (const auto& instruction : fused_.instructions()) {
      if (instruction->opcode() == Opcode::parameter) continue;
      if (instruction.get() == fused_.root() && instruction->opcode() == Opcode::tuple) continue;
      Instruction* made = flatten(*instruction);
      if (made == nullptr) return false;
      flat_[instruction.get()] = made;
    }
    const Instruction& root = *fused_.root();
    if (root.opcode() != Opcode::tuple) {
      target_.set_root(flat_.at(&root));
      return true;
    }
    std::vector<Instruction*> results;
    for (const Instruction* result : root.operands()) {
      if (!is_whole(result->shape())) return false;
      results.push_back(flat_.at(result));
    }
    target_.add_tuple(std::move(results));
    return true;
  }

 private:
  bool is_whole(const Shape& shape) const { return shape.element_count() == elements_; }
  bool is_flat(const Shape& shape) const {
    return shape.is_array() && shape.layout() == nullptr &&
           (is_whole(shape) || shape.element_count() == 1);
  }
  Shape flat(const Shape& shape) const {
    return {shape.dtype(), is_whole(shape) ? ir::Dims{kFlatExtent} : ir::Dims{}};
  }

  Instruction* spread(Instruction* scalar) {
    return target_.add(Opcode::broadcast, Shape(scalar->shape().dtype(), {kFlatExtent}), {scalar});
  }

  Instruction* flatten(const Instruction& instruction) {
    if (!is_flat(instruction.shape())) return nullptr;
    std::vector<Instruction*> operands;
    for (const Instruction* operand : instruction.operands()) operands.push_back(flat_.at(operand));
    const bool whole = is_whole(instruction.shape());
    switch (instruction.opcode()) {
      case Opcode::constant: {
        const auto& literal = instruction.attributes().literal;
        if (literal == nullptr || literal->is_elided() || !literal->is_splat()) return nullptr;
        const auto bytes = literal->bytes().first(
            static_cast<std::size_t>(ir::dtype_bytes(instruction.shape().dtype())));
        Instruction* scalar = target_.add_constant(
            ir::Literal::from_bytes(Shape(instruction.shape().dtype(), {}), bytes));
        return whole ? spread(scalar) : scalar;
      }
      case Opcode::broadcast: {
        if (is_whole(instruction.operand(0)->shape()) == whole) {
          const auto& dimensions = instruction.attributes().dimensions;
          return std::is_sorted(dimensions.begin(), dimensions.end()) ? operands[0] : nullptr;
        }
        return whole ? spread(operands[0]) : nullptr;
      }
      case Opcode::reshape:
        return operands[0];
      case Opcode::bitcast:
        return instruction.shape().dtype() == instruction.operand(0)->shape().dtype() ? operands[0]
                                                                                      : nullptr;
      default:
        break;
    }
    if (!ir::is_elementwise(instruction.opcode()) || !keeps_extents(instruction)) return nullptr;
    return target_.add(instruction.opcode(), flat(instruction.shape()), std::move(operands), {},
                       instruction.attributes());
  }

  bool keeps_extents(const Instruction& instruction) const {
    for (int i = 0; i < instruction.operand_count(); ++i) {
      const Shape& operand = instruction.operand(i)->shape();
      if (operand.element_count() == instruction.shape().element_count()) continue;
      const bool may_be_scalar = (instruction.opcode() == Opcode::select && i == 0) ||
                                 (instruction.opcode() == Opcode::clamp && i != 1);
      if (!may_be_scalar || operand.element_count() != 1) return false;
    }
    return true;
  }

  const Computation& fused_;
  std::int64_t elements_;
  Computation& target_;
  std::unordered_map<const Instruction*, Instruction*> flat_;
};

}  // namespace

FlatForm flat_form(const Instruction& instruction) {
  FlatForm form;
  if (instruction.opcode() != Opcode::fusion || instruction.called_computations().size() != 1) {
    return form;
  }
  const Computation& fused = *instruction.to_apply();
  const std::vector<const Shape*> results = ir::leaves(instruction.shape());
  if (results.empty() || !results[0]->is_array() || results[0]->element_count() == 0) return form;
  form.elements = results[0]->element_count();
  auto module = std::make_unique<ir::Module>("flat");
  Computation* target = module->add_computation("fused");
  if (!Flattener(fused, form.elements, *target).run()) return form;
  Computation* entry = module->add_computation("entry");
  std::vector<Instruction*> arguments;
  for (const Instruction* parameter : target->parameters()) {
    arguments.push_back(
        entry->add_parameter(static_cast<std::int64_t>(arguments.size()), parameter->shape()));
  }
  Instruction* fusion =
      entry->add(Opcode::fusion, target->root()->shape(), std::move(arguments), "flat");
  fusion->set_called_computations({target});
  module->set_entry(entry);
  form.module = std::move(module);
  return form;
}

}  // namespace plimsoll::jit
