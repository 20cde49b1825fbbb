// SPDX-License-Identifier: Apache-2.0
// ValueEmitter's index expressions, loads and stores.
#include <llvm/IR/Module.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "jit/emit/avx512.h"
#include "jit/emit/elementwise.h"
#include "jit/emit/gpu.h"
#include "jit/emit/strided_vectors.h"
#include "jit/emit/value_emitter.h"

namespace plimsoll::jit {

using ir::DType;
using llvm::Value;

namespace {

// Stores a whole vector: past the caches where the address is aligned and `cached` is 0.
void store_streaming(llvm::IRBuilder<>& b, Value* value, Value* address, llvm::Align alignment,
                     Value* cached) {
  const llvm::DataLayout& layout = b.GetInsertBlock()->getModule()->getDataLayout();
  const std::uint64_t bytes = layout.getTypeStoreSize(value->getType());
  if (bytes < 16) {
    b.CreateAlignedStore(value, address, alignment);
    return;
  }
  Value* bits = b.CreateOr(b.CreatePtrToInt(address, b.getInt64Ty()), cached);
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* past = llvm::BasicBlock::Create(b.getContext(), "past", function);
  auto* through = llvm::BasicBlock::Create(b.getContext(), "through", function);
  auto* next = llvm::BasicBlock::Create(b.getContext(), "next", function);
  b.CreateCondBr(b.CreateIsNull(b.CreateAnd(bits, b.getInt64(bytes - 1))), past, through);
  b.SetInsertPoint(past);
  auto* store = b.CreateAlignedStore(value, address, llvm::Align(bytes));
  store->setMetadata(
      llvm::LLVMContext::MD_nontemporal,
      llvm::MDNode::get(b.getContext(), llvm::ConstantAsMetadata::get(b.getInt32(1))));
  b.CreateBr(next);
  b.SetInsertPoint(through);
  b.CreateAlignedStore(value, address, alignment);
  b.CreateBr(next);
  b.SetInsertPoint(next);
}

}  // namespace

llvm::ConstantInt* ValueEmitter::index_number(std::int64_t n) const {
  return llvm::ConstantInt::getSigned(index_type_, n);
}

// Of `active_` neighbours, or of one element.
llvm::Align ValueEmitter::alignment(DType dtype, const LaneIndex& index) const {
  const std::int64_t element = ir::dtype_bytes(dtype);
  const bool whole = index.lanes == nullptr && index.stride == 1 && index.aligned &&
                     active_ == width_ && mask_ == nullptr;
  const std::int64_t bytes = whole ? std::min(buffer_bytes_, width_ * element) : 0;
  return llvm::Align(static_cast<std::uint64_t>(std::max(element, bytes)));
}

// A formula over the lanes of a vector, in one of three forms: the same in all lanes (stride 0),
// rising by a constant stride from lane to lane, or a vector of numbers. Loads are scalar and
// spread, contiguous (stride 1), or gathers accordingly, so it matters to stay in the earlier forms
// as long as possible. Terms are added in the order of their levels: the part that does not depend
// on the lane is added up outside of the loop, once.
ValueEmitter::LaneIndex ValueEmitter::evaluate(const Affine& x) {
  auto terms = x.terms;
  std::stable_sort(terms.begin(), terms.end(), [&](const auto& a, const auto& b) {
    return space_.symbol(a.first).level < space_.symbol(b.first).level;
  });
  LaneIndex sum;
  int level = 0;
  sum.base = index_number(x.constant);
  sum.aligned = x.constant % width_ == 0;
  for (const auto& [id, factor] : terms) {
    const LaneIndex term = evaluate_symbol(id);
    level = std::max(level, space_.symbol(id).level);
    llvm::IRBuilder<>& b = at(level);
    Value* scale = index_number(factor);
    if (term.base != nullptr) {
      sum.base = b.CreateAdd(sum.base, factor == 1 ? term.base : b.CreateMul(term.base, scale));
      sum.stride += factor * term.stride;
    }
    sum.aligned = sum.aligned && (term.aligned || factor % width_ == 0);
    if (term.lanes != nullptr) {
      llvm::Type* wide = llvm::FixedVectorType::get(index_type_, static_cast<unsigned>(width_));
      Value* lanes = b.CreateIntCast(term.lanes, wide, false);
      if (factor != 1) {
        lanes = b.CreateMul(lanes, b.CreateVectorSplat(static_cast<unsigned>(width_), scale));
      }
      sum.lanes = sum.lanes == nullptr ? lanes : b.CreateAdd(sum.lanes, lanes);
    }
  }
  if (sum.lanes != nullptr) {
    llvm::IRBuilder<>& b = at(level);
    const LaneIndex affine{sum.base, sum.stride, nullptr, false};
    constexpr Range kWide{std::numeric_limits<std::int64_t>::min(),
                          std::numeric_limits<std::int64_t>::max()};
    const Range range = index_type_->getBitWidth() == 32 ? Range{0, 0} : kWide;
    sum.lanes = b.CreateAdd(sum.lanes, lanes_of(affine, range, b));
    sum.base = nullptr;
    sum.stride = 0;
    sum.aligned = false;
  }
  return sum;
}

Value* ValueEmitter::lanes_of(const LaneIndex& index, const Range& range, llvm::IRBuilder<>& b) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  // Idle lanes run past the range, by no more than the width times the stride.
  const std::int64_t slack = std::abs(index.stride) * width_;
  const bool narrow = range.lowest >= -kLimit + slack && range.highest < kLimit - slack;
  llvm::Type* element = narrow ? b.getInt32Ty() : b.getInt64Ty();
  auto* type = llvm::FixedVectorType::get(element, static_cast<unsigned>(width_));
  if (index.lanes != nullptr) return b.CreateIntCast(index.lanes, type, true);
  Value* base = b.CreateVectorSplat(static_cast<unsigned>(width_),
                                    b.CreateIntCast(index.base, element, true));
  if (index.stride == 0) return base;
  std::vector<llvm::Constant*> steps;
  for (int i = 0; i < width_; ++i) {
    steps.push_back(llvm::ConstantInt::getSigned(element, i * index.stride));
  }
  return b.CreateAdd(base, llvm::ConstantVector::get(steps));
}

Value* ValueEmitter::first_lane(const Affine& x) {
  const LaneIndex index = evaluate(x);
  return index.lanes == nullptr ? index.base
                                : builder_.CreateExtractElement(index.lanes, std::uint64_t{0});
}

void ValueEmitter::stage(int input, const Affine& position, Value* address) {
  staged_[{input, position}] = address;
}

void ValueEmitter::prefetch(const Affine& loop, std::int64_t steps, std::int64_t except) {
  prefetch_except_ = except;
  prefetch_symbol_ = loop.is_constant() ? -1 : loop.terms[0].first;
  prefetch_steps_ = steps;
}

// Quotients and remainders of consecutive numbers are not consecutive in general: 14, 15, 16, 17 by
// 16 give 0, 0, 1, 1. But if a vector of 16 begins at a multiple of 16 and the divisor is a
// multiple of 16, no boundary lies inside: the quotient is the same for all lanes and the remainder
// goes on by one. `aligned` carries that knowledge through sums and products.
ValueEmitter::LaneIndex ValueEmitter::evaluate_division(const Symbol& symbol,
                                                        llvm::IRBuilder<>& b) {
  const LaneIndex argument = evaluate(symbol.argument);
  const bool quotient = symbol.kind == SymbolKind::quotient;
  const auto divide = [&](Value* x, Value* d) {
    return quotient ? b.CreateUDiv(x, d) : b.CreateURem(x, d);
  };
  // A whole vector lies between two multiples of the divisor when both start on a multiple of the
  // width.
  const bool whole = argument.lanes == nullptr && argument.stride == 1 && argument.aligned &&
                     symbol.divisor % width_ == 0;
  LaneIndex result;
  if (argument.is_uniform() || whole) {
    result.base = divide(argument.base, index_number(symbol.divisor));
    if (whole && !quotient) {
      result.stride = 1;
      result.aligned = true;
    }
    return result;
  }
  Value* lanes = lanes_of(argument, space_.range(symbol.argument), b);
  result.lanes = divide(lanes, llvm::ConstantInt::getSigned(lanes->getType(), symbol.divisor));
  return result;
}

ValueEmitter::LaneIndex ValueEmitter::evaluate_symbol(int id) {
  const Symbol symbol = space_.symbol(id);
  auto& known = levels_[static_cast<std::size_t>(symbol.level)].symbols;
  if (const auto it = known.find(id); it != known.end()) return it->second;
  llvm::IRBuilder<>& b = at(symbol.level);
  LaneIndex result;
  switch (symbol.kind) {
    case SymbolKind::quotient:
    case SymbolKind::remainder:
      result = evaluate_division(symbol, b);
      break;
    case SymbolKind::clamp: {
      const LaneIndex argument = evaluate(symbol.argument);
      const auto limit = [&](Value* x) {
        llvm::Type* type = x->getType();
        x = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x,
                                    llvm::ConstantInt::getSigned(type, symbol.range.lowest));
        return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x,
                                       llvm::ConstantInt::getSigned(type, symbol.range.highest));
      };
      if (argument.is_uniform()) {
        result.base = limit(argument.base);
      } else {
        result.lanes = limit(lanes_of(argument, space_.range(symbol.argument), b));
      }
      break;
    }
    case SymbolKind::runtime: {
      const KernelNode node = graph_.operand(*symbol.source, symbol.operand);
      Value* start = value(node, symbol.at);
      const bool is_signed = ir::dtype_class(node.dtype()) == ir::DTypeClass::signed_int;
      const bool vector = start->getType()->isVectorTy();
      // Lanes and narrow indices stay as narrow as they are where the highest fits.
      const unsigned bits = start->getType()->getScalarSizeInBits();
      const bool fits =
          bits == 32 && symbol.range.highest <= std::numeric_limits<std::int32_t>::max();
      const bool narrow = index_type_->getBitWidth() == 32;
      llvm::Type* type = (vector || narrow) && fits ? b.getInt32Ty() : b.getInt64Ty();
      if (vector) type = llvm::FixedVectorType::get(type, static_cast<unsigned>(width_));
      start = b.CreateIntCast(start, type, is_signed);
      if (is_signed) {
        start =
            b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, start, llvm::ConstantInt::get(type, 0));
      }
      start = b.CreateBinaryIntrinsic(
          llvm::Intrinsic::umin, start,
          llvm::ConstantInt::get(type, static_cast<std::uint64_t>(symbol.range.highest)));
      if (vector) {
        result.lanes = start;
      } else {
        result.base = b.CreateIntCast(start, index_type_, false);
      }
      break;
    }
    case SymbolKind::loop:
      fail(internal_error("a loop variable is used outside its loop"), DType::s64);
      result.base = index_number(0);
      break;
  }
  known.emplace(id, result);
  return result;
}

Value* ValueEmitter::read_whole(llvm::IRBuilder<>& b, Value* value) {
  llvm::Type* type = value->getType();
  const unsigned bits = type->getPrimitiveSizeInBits().getFixedValue();
  if (!selects_ || bits % 32 != 0 || gpu::is_target(b)) return value;
  llvm::Type* floats = llvm::FixedVectorType::get(b.getFloatTy(), bits / 32);
  Value* fenced = b.CreateArithmeticFence(b.CreateBitCast(value, floats), floats);
  return b.CreateBitCast(fenced, type);
}

Value* ValueEmitter::load(Value* base, const Affine& position, DType dtype, int level) {
  level = std::max(level, space_.level(position));
  llvm::IRBuilder<>& b = at(level);
  const LaneIndex index = evaluate(position);
  llvm::Type* element = memory_type(b.getContext(), dtype, 1);
  const llvm::Align alignment = this->alignment(dtype, index);
  const auto address = [&](Value* offset) { return b.CreateInBoundsGEP(element, base, offset); };
  if (index.is_uniform()) {
    return to_register(b, b.CreateAlignedLoad(element, address(index.base), alignment), dtype);
  }
  const std::int64_t step = position.coefficient(prefetch_symbol_);
  const std::int64_t ahead = step == prefetch_except_ ? 0 : prefetch_steps_ * step;
  if (ahead != 0 && active_ == width_ && index.lanes == nullptr && std::abs(index.stride) == 1) {
    Value* there = b.CreateAdd(index.base, b.getInt64(static_cast<std::uint64_t>(ahead)));
    b.CreateIntrinsic(
        llvm::Intrinsic::prefetch, {b.getPtrTy()},
        {b.CreateGEP(element, base, there), b.getInt32(0), b.getInt32(2), b.getInt32(1)});
  }
  auto* vector = llvm::cast<llvm::FixedVectorType>(memory_type(b.getContext(), dtype, width_));
  Value* result = llvm::Constant::getNullValue(vector);
  if (index.lanes != nullptr) {
    llvm::Value* addresses = b.CreateInBoundsGEP(element, base, index.lanes);
    result = b.CreateMaskedGather(vector, addresses, alignment, active_mask(), result);
  } else if (index.stride == 1) {
    result = active_ == width_
                 ? read_whole(b, b.CreateAlignedLoad(vector, address(index.base), alignment))
                 : static_cast<Value*>(b.CreateMaskedLoad(vector, address(index.base), alignment,
                                                          active_mask(), result));
  } else if (index.stride == -1 && active_ == width_) {
    Value* first = address(b.CreateSub(index.base, index_number(width_ - 1)));
    result = b.CreateVectorReverse(b.CreateAlignedLoad(vector, first, alignment));
  } else if (index.stride > 1 && index.stride <= std::min<std::int64_t>(kMostApart, width_) &&
             active_ == width_ && mask_ == nullptr && !gpu::is_target(b)) {
    result = load_apart(b, vector, address(index.base), index.stride, alignment);
  } else if (mask_ != nullptr) {
    return fail(internal_error("a masked load is not of neighbours"), dtype);
  } else {
    Value* first = address(index.base);
    for (int lane = 0; lane < active_; ++lane) {
      Value* at_lane = b.CreateConstInBoundsGEP1_64(
          element, first, static_cast<std::uint64_t>(lane * index.stride));
      result = b.CreateInsertElement(result, b.CreateAlignedLoad(element, at_lane, alignment),
                                     static_cast<std::uint64_t>(lane));
    }
  }
  return to_register(b, result, dtype);
}

void ValueEmitter::store(Value* base, const Affine& position, Value* value, DType dtype,
                         Value* cached) {
  llvm::IRBuilder<>& b = builder_;
  const LaneIndex index = evaluate(position);
  llvm::Type* element = memory_type(b.getContext(), dtype, 1);
  const llvm::Align alignment = this->alignment(dtype, index);
  value = to_memory(b, width_ == 1 ? value : widen(value), dtype);
  if (Value* packed = avx512::upper_halves_to_store(b, value)) value = packed;
  if (width_ == 1) {
    b.CreateAlignedStore(value, b.CreateInBoundsGEP(element, base, index.base), alignment);
    return;
  }
  if (index.lanes != nullptr) {
    Value* addresses = b.CreateInBoundsGEP(element, base, index.lanes);
    b.CreateMaskedScatter(value, addresses, alignment, active_mask());
    return;
  }
  Value* first = b.CreateInBoundsGEP(element, base, index.base);
  if (index.stride == 1) {
    if (active_ == width_ && cached != nullptr) {
      store_streaming(b, value, first, alignment, cached);
    } else if (active_ == width_) {
      b.CreateAlignedStore(value, first, alignment);
    } else {
      b.CreateMaskedStore(value, first, alignment, active_mask());
    }
    return;
  }
  if (mask_ != nullptr) {
    fail(internal_error("a masked store is not to neighbours"), dtype);
    return;
  }
  for (int lane = 0; lane < active_; ++lane) {
    Value* at_lane = b.CreateConstInBoundsGEP1_64(element, first,
                                                  static_cast<std::uint64_t>(lane * index.stride));
    b.CreateAlignedStore(b.CreateExtractElement(value, static_cast<std::uint64_t>(lane)), at_lane,
                         alignment);
  }
}

void ValueEmitter::store_by_turns(Value* base, const Affine& position,
                                  const std::vector<Value*>& values, DType dtype, Value* cached) {
  llvm::IRBuilder<>& b = builder_;
  const LaneIndex index = evaluate(position);
  llvm::Type* const element = memory_type(b.getContext(), dtype, 1);
  const llvm::Align alignment(static_cast<std::uint64_t>(ir::dtype_bytes(dtype)));
  std::vector<Value*> vectors;
  for (Value* const value : values) vectors.push_back(to_memory(b, widen(value), dtype));
  std::int64_t at = 0;
  for (Value* const part : by_turns(b, vectors)) {
    Value* const address = b.CreateConstInBoundsGEP1_64(
        element, b.CreateInBoundsGEP(element, base, index.base), static_cast<std::uint64_t>(at));
    if (cached != nullptr) {
      store_streaming(b, part, address, alignment, cached);
    } else {
      b.CreateAlignedStore(part, address, alignment);
    }
    at += width_;
  }
}

}  // namespace plimsoll::jit
