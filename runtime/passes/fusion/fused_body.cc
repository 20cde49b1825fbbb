// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/fusion/fused_body.h"

#include <algorithm>

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;

FusedBody::~FusedBody() {
  if (computation_ != nullptr) computation_->module()->remove(computation_);
}

Instruction* FusedBody::value(Instruction* outer) {
  if (Instruction** const known = values_.find(outer)) return *known;
  Instruction* parameter =
      computation_->add_parameter(static_cast<std::int64_t>(inputs_.size()), outer->shape(), "p");
  inputs_.push_back(outer);
  values_.emplace(outer, parameter);
  return parameter;
}

void FusedBody::add(Instruction& outer) {
  if (outer.opcode() == Opcode::fusion) return add_body_of(outer);
  std::vector<Instruction*> operands;
  operands.reserve(outer.operands().size());
  for (Instruction* operand : outer.operands()) operands.push_back(value(operand));
  values_.emplace(&outer, computation_->add_clone(outer, std::move(operands)));
}

void FusedBody::add_body_of(Instruction& fusion) {
  const ir::Computation& body = *fusion.to_apply();
  PointerMap<Instruction, Instruction*> copies(body.instructions().size());
  for (std::size_t i = 0; i < body.parameters().size(); ++i) {
    copies.emplace(body.parameters()[i], value(fusion.operand(static_cast<int>(i))));
  }
  const bool many = body.root()->opcode() == Opcode::tuple;
  for (const auto& instruction : body.instructions()) {
    if (instruction->opcode() == Opcode::parameter) continue;
    if (many && instruction.get() == body.root()) continue;
    std::vector<Instruction*> operands;
    operands.reserve(instruction->operands().size());
    for (const Instruction* operand : instruction->operands()) {
      operands.push_back(copies.at(operand));
    }
    copies.emplace(instruction.get(), computation_->add_clone(*instruction, std::move(operands)));
  }
  if (!many) {
    values_.emplace(&fusion, copies.at(body.root()));
    return;
  }
  for (const Instruction* user : fusion.users()) {
    if (user->opcode() != Opcode::get_tuple_element) continue;
    const auto index = static_cast<int>(user->attributes().tuple_index);
    values_.emplace(user, copies.at(body.root()->operand(index)));
  }
}

void FusedBody::finish(const std::vector<Instruction*>& results) {
  if (results.size() == 1) {
    computation_->set_root(results[0]);
  } else {
    computation_->add_tuple(results);
  }
  std::vector<Instruction*> order;
  for (const auto& instruction : computation_->instructions()) order.push_back(instruction.get());
  std::stable_partition(order.begin(), order.end(), [](const Instruction* instruction) {
    return instruction->opcode() == Opcode::parameter;
  });
  computation_->set_order(order);
}

std::string fusion_name(const ir::Computation& body) {
  const Instruction* root = body.root();
  if (root->opcode() == Opcode::tuple && root->operand_count() > 0) root = root->operand(0);
  if (root->opcode() == Opcode::get_tuple_element) root = root->operand(0);
  std::string name(to_string(root->opcode()));
  std::replace(name.begin(), name.end(), '-', '_');
  return name + "_fusion";
}

}  // namespace plimsoll::passes
