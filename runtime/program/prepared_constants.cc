// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/prepared_constants.h"

#include "runtime/base/index.h"
#include "runtime/device/input_preparation.h"
#include "runtime/ir/text/text.h"

// Example: a convolution of weights that are a constant. Its library has a layout of its own for
// weights, and the kernel changes theirs at every launch, on the way of every batch of one image as
// of a hundred. Once the constant's bytes lie in that layout, launches find them there; that they
// are still called f32[64,64,3,3] in row-major order is a fiction which nobody but this kernel
// reads.

namespace plimsoll::executor {

Status PreparedConstants::prepare(ir::Module& module, Kernels& kernels) {
  for (const auto& computation : module.computations()) {
    for (const auto& owned : computation->instructions()) {
      ir::Instruction& constant = *owned;
      if (constant.opcode() != ir::Opcode::constant || constant.users().size() != 1 ||
          computation->root() == &constant) {
        continue;
      }
      const Literal& plain = constant.attributes().literal;
      if (plain == nullptr || plain->is_elided() || !plain->shape().is_array()) continue;
      const ir::Instruction& reader = *constant.users().front();
      const auto kernel = kernels.find(&reader);
      if (kernel == kernels.end()) continue;
      const device::InputPreparation* const preparation = kernel->second->input_preparation();
      if (preparation == nullptr || preparation->prepared_bytes() != std::ssize(plain->bytes())) {
        continue;
      }
      const int input = preparation->prepared_input();
      bool is_alone = reader.operands().size() > at(input);
      for (std::size_t k = 0; k < reader.operands().size(); ++k) {
        const ir::Instruction& operand = *reader.operands()[k];
        is_alone =
            is_alone && operand.shape().is_array() && (&operand == &constant) == (k == at(input));
      }
      if (!is_alone) continue;
      std::shared_ptr<const device::Kernel> taking = preparation->taking_prepared();
      if (taking == nullptr) continue;
      const std::lock_guard lock(mutex_);
      auto& [kept, prepared] = made_[{plain.get(), ir::to_text(reader)}];
      if (prepared == nullptr) {
        auto made = std::make_shared<ir::Literal>(plain->shape());
        PLIMSOLL_RETURN_IF_ERROR(
            preparation->prepare(plain->bytes().data(), made->mutable_bytes().data())
                .with_context("preparing '" + constant.name() + "'"));
        kept = plain;
        prepared = std::move(made);
      }
      constant.attributes().literal = prepared;
      kernel->second = std::move(taking);
    }
  }
  return ok_status();
}

}  // namespace plimsoll::executor
