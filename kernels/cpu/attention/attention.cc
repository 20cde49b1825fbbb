// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention.h"

#include <algorithm>
#include <vector>

#include "runtime/base/index.h"

namespace plimsoll::kernels {
namespace {

std::vector<ir::Shape> operand_shapes(const ir::Instruction& instruction) {
  std::vector<ir::Shape> shapes;
  for (const ir::Instruction* operand : instruction.operands()) shapes.push_back(operand->shape());
  return shapes;
}

// Those of what is multiplied: queries, keys, values, and the output's gradient.
const BlockProducts& products_for(const ir::AttentionForm& form,
                                  const std::vector<ir::Shape>& shapes) {
  std::vector<int> multiplied = {0, 1, 2};
  if (form.backward) multiplied.push_back(form.output_operand() + 1);
  const bool all_bf16 = std::all_of(multiplied.begin(), multiplied.end(), [&](int i) {
    return shapes[at(i)].dtype() == ir::DType::bf16;
  });
  const BlockProducts* const narrow = all_bf16 ? bf16_products() : nullptr;
  return narrow != nullptr ? *narrow : f32_products();
}

KernelResult make(const ir::Instruction& instruction, const BlockProducts* products) {
  const auto form = ir::read_attention(instruction);
  if (!form.has_value()) {
    return unimplemented("kernel of " + instruction.name() +
                         ": the fusion is not the attention that it says");
  }
  const std::vector<ir::Shape> shapes = operand_shapes(instruction);
  PLIMSOLL_ASSIGN_OR_RETURN(const ir::AttentionSizes sizes, ir::attention_sizes(*form, shapes));
  const BlockProducts& by = products != nullptr ? *products : products_for(*form, shapes);
  return form->backward ? make_attention_backward(instruction, *form, sizes, by)
                        : make_attention_forward(instruction, *form, sizes, by);
}

}  // namespace

KernelResult make_attention(const ir::Instruction& instruction) {
  return make(instruction, nullptr);
}

KernelResult make_attention_of(const ir::Instruction& instruction, const BlockProducts& products) {
  return make(instruction, &products);
}

}  // namespace plimsoll::kernels
