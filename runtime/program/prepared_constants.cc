// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/prepared_constants.h"

#include <unordered_map>

#include "runtime/base/index.h"
#include "runtime/device/input_preparation.h"
#include "runtime/ir/text/text.h"

// Example: a convolution of weights that are a constant. Its library has a layout of its own for
// weights, and the kernel changes theirs at every launch, on the way of every batch of one image as
// of a hundred. Once the constant's bytes lie in that layout, launches find them there; that they
// are still called f32[64,64,3,3] in row-major order is a fiction which nobody but this kernel
// reads. Where those weights came from a file, the plain ones, moved to another order perhaps, are
// in memory for as long as they are being prepared.

namespace plimsoll::executor {
namespace {

template <typename Take>
void for_each_constant(const ir::Module& module, Take&& take) {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      const auto& literal = instruction->attributes().literal;
      if (literal != nullptr) take(*literal);
    }
  }
}

}  // namespace

void PreparedConstants::take_over(ir::Module& module) {
  std::unordered_map<const ir::Literal*, Literal> own;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      Literal& literal = instruction->attributes().literal;
      if (literal == nullptr || literal->deferred_bytes() == nullptr) continue;
      Literal& taken = own[literal.get()];
      if (taken == nullptr) taken = std::make_shared<const ir::Literal>(literal->unread());
      literal = taken;
    }
  }
}

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

void PreparedConstants::note_read(const ir::Module& module) {
  const std::lock_guard lock(mutex_);
  for_each_constant(module, [&](const ir::Literal& read) { read_.insert(read.deferred_bytes()); });
}

void PreparedConstants::forget(const ir::Module& module) {
  for_each_constant(module, [](const ir::Literal& literal) { literal.forget(); });
}

void PreparedConstants::forget_unread(const ir::Module& source) {
  const std::lock_guard lock(mutex_);
  const auto forget = [&](const ir::Literal& literal) {
    if (!read_.contains(literal.deferred_bytes())) literal.forget();
  };
  for_each_constant(source, forget);
  for (const auto& [what, literals] : made_) forget(*literals.first);
}

}  // namespace plimsoll::executor
