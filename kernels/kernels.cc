// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernels.h"

#include "kernels/cpu/contraction.h"

namespace plimsoll::kernels {
namespace {

using Maker = KernelResult (*)(const ir::Instruction&);

// Null when there is no kernel for the opcode.
Maker maker_of(ir::Opcode opcode) {
  switch (opcode) {
    case ir::Opcode::dot:
      return make_dot;
    case ir::Opcode::convolution:
      return make_convolution;
    default:
      return nullptr;
  }
}

}  // namespace

bool supports(const ir::Instruction& instruction) {
  return maker_of(instruction.opcode()) != nullptr;
}

Result<std::shared_ptr<const device::Kernel>> make_kernel(const ir::Instruction& instruction) {
  const Maker maker = maker_of(instruction.opcode());
  if (maker == nullptr) {
    return unimplemented("kernel of " + instruction.name() + ": no kernel for " +
                         std::string(ir::to_string(instruction.opcode())));
  }
  return maker(instruction);
}

}  // namespace plimsoll::kernels
