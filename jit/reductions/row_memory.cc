// SPDX-License-Identifier: Apache-2.0
#include "jit/reductions/row_memory.h"

#include "jit/emit/elementwise.h"

namespace plimsoll::jit {

RowMemory::RowMemory(const RowPlan& plan, const RowStages& stages, llvm::IRBuilder<>& builder,
                     llvm::Instruction* entry, std::int64_t elements, int rows)
    : plan_(plan), stages_(stages), b_(builder), entry_(entry), elements_(elements) {
  llvm::IRBuilder<> stack(entry);
  for (const KeptValue& kept : plan.kept) {
    if (kept.output >= 0) {
      kept_.push_back(nullptr);
      continue;
    }
    llvm::Type* type = memory_type(b_.getContext(), kept.node.dtype(), kRowWidth);
    const std::int64_t vectors = divide_up(elements * rows, kRowWidth);
    kept_.push_back(stack.CreateAlloca(type, stack.getInt64(static_cast<std::uint64_t>(vectors))));
  }
}

void RowMemory::remember() {
  const auto& all = stages_.known();
  for (std::size_t i = known_.size(); i < all.size(); ++i) {
    const auto& [at, value] = all[i];
    Place place;
    if (value->getType()->isVectorTy()) {
      place.dtype = at.node.dtype();
      llvm::Value* stored = to_memory(b_, value, place.dtype);
      place.address = llvm::IRBuilder<>(entry_).CreateAlloca(stored->getType());
      b_.CreateStore(stored, place.address);
    }
    known_.push_back(place);
  }
}

void RowMemory::open_row(llvm::Value* row, llvm::Instruction* anchor) {
  llvm::IRBuilder<> once(anchor);
  scalars_.clear();
  for (std::size_t i = 0; i < known_.size(); ++i) {
    const auto& [address, dtype] = known_[i];
    if (address == nullptr) {
      scalars_.push_back(stages_.known()[i].value);
      continue;
    }
    llvm::Type* type = memory_type(once.getContext(), dtype, 1);
    llvm::Value* place = once.CreateInBoundsGEP(type, address, row);
    scalars_.push_back(to_register(once, once.CreateLoad(type, place), dtype));
  }
  kept_of_row_.clear();
  llvm::Value* first = once.CreateMul(row, once.getInt64(static_cast<std::uint64_t>(elements_)));
  for (std::size_t k = 0; k < kept_.size(); ++k) {
    llvm::Type* type = memory_type(once.getContext(), plan_.kept[k].node.dtype(), 1);
    kept_of_row_.push_back(kept_[k] == nullptr ? nullptr
                                               : once.CreateInBoundsGEP(type, kept_[k], first));
  }
}

void RowMemory::tell(ValueEmitter& emitter) const {
  for (std::size_t i = 0; i < scalars_.size(); ++i) {
    const RowValue& at = stages_.known()[i].at;
    emitter.assume(at.node, at.index, scalars_[i]);
  }
}

llvm::Value* RowMemory::kept_at(std::size_t kept, llvm::Value* element) {
  if (kept_of_row_[kept] == nullptr) return nullptr;
  llvm::Type* type = memory_type(b_.getContext(), plan_.kept[kept].node.dtype(), 1);
  return b_.CreateInBoundsGEP(type, kept_of_row_[kept], element);
}

}  // namespace plimsoll::jit
