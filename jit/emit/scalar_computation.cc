// SPDX-License-Identifier: Apache-2.0
#include "jit/emit/scalar_computation.h"

#include <algorithm>
#include <unordered_map>

#include "jit/emit/elementwise.h"
#include "runtime/ir/elided_constant.h"

namespace plimsoll::jit {

using ir::DType;
using ir::Opcode;
using llvm::Value;

Result<std::vector<Value*>> apply_scalars(llvm::IRBuilderBase& builder,
                                          const ir::Computation& computation,
                                          const std::vector<Value*>& arguments) {
  std::unordered_map<const ir::Instruction*, Value*> values;
  std::vector<Value*> results;
  for (const auto& owned : computation.instructions()) {
    const ir::Instruction& instruction = *owned;
    if (instruction.opcode() == Opcode::tuple) continue;
    Value* result = nullptr;
    if (instruction.opcode() == Opcode::parameter) {
      result = arguments[static_cast<std::size_t>(instruction.attributes().parameter_number)];
    } else if (instruction.opcode() == Opcode::constant) {
      if (instruction.attributes().literal == nullptr ||
          instruction.attributes().literal->is_elided()) {
        return ir::elided_constant(instruction);
      }
      result = literal_element(builder.getContext(), *instruction.attributes().literal, 0);
    } else {
      std::vector<Value*> operands;
      std::vector<DType> dtypes;
      bool vector = false;
      for (const ir::Instruction* operand : instruction.operands()) {
        operands.push_back(values.at(operand));
        dtypes.push_back(operand->shape().dtype());
        vector = vector || operands.back()->getType()->isVectorTy();
      }
      if (vector) {
        const auto* type = llvm::cast<llvm::FixedVectorType>(
            (*std::find_if(operands.begin(), operands.end(), [](Value* v) {
              return v->getType()->isVectorTy();
            }))->getType());
        for (Value*& operand : operands) {
          if (!operand->getType()->isVectorTy()) {
            operand = builder.CreateVectorSplat(type->getNumElements(), operand);
          }
        }
      }
      result = emit_elementwise(builder, instruction, std::move(operands), std::move(dtypes));
    }
    if (result == nullptr) {
      return unimplemented("compile '" + instruction.name() +
                           "': " + std::string(ir::to_string(instruction.opcode())) + " of " +
                           std::string(ir::to_string(instruction.shape().dtype())));
    }
    values.emplace(&instruction, result);
  }
  const ir::Instruction& root = *computation.root();
  if (root.opcode() == Opcode::tuple) {
    for (const ir::Instruction* element : root.operands()) results.push_back(values.at(element));
  } else {
    results.push_back(values.at(&root));
  }
  return results;
}

}  // namespace plimsoll::jit
