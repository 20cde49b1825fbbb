// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/fused_entry.h"

#include <algorithm>
#include <vector>

namespace plimsoll::cases {

std::unique_ptr<ir::Module> fused_entry(const ir::Module& module) {
  auto copy = module.clone();
  ir::Computation* body = copy->entry();
  if (std::any_of(body->parameters().begin(), body->parameters().end(),
                  [](const auto* p) { return !p->shape().is_array(); })) {
    return nullptr;
  }
  ir::Computation* entry = copy->add_computation("fused_entry");
  std::vector<ir::Instruction*> operands;
  for (std::size_t i = 0; i < body->parameters().size(); ++i) {
    operands.push_back(
        entry->add_parameter(static_cast<std::int64_t>(i), body->parameters()[i]->shape()));
  }
  ir::Instruction* fusion = entry->add(ir::Opcode::fusion, body->root()->shape(), operands);
  fusion->set_called_computations({body});
  copy->set_entry(entry);
  return copy;
}

}  // namespace plimsoll::cases
