// SPDX-License-Identifier: Apache-2.0
#include "jit/emit/value_emitter.h"

#include <fmt/core.h>

#include "jit/emit/elementwise.h"
#include "jit/emit/scalar_computation.h"

namespace plimsoll::jit {

using ir::DType;
using ir::LoopRole;
using ir::Opcode;
using llvm::Value;

// Code of values by demand. value(node, index) returns what computes that node's element at that
// index, writing the code of operands first, and remembers it: a pair of node and index is computed
// once.
//
// Where the code goes is decided by the *level* of the index, the deepest loop whose counter occurs
// in it. Level 0 is the function's entry, 1 is a unit, 2 is a vector of lanes. What does not depend
// on the lane is written to an anchor before the inner loop. So hoisting needs no analysis: a
// broadcast of exp(b[row]) has an index without the lane, is at level 1, and is computed once a
// row. What was known of the lanes is forgotten when a new loop over lanes begins (open_lanes),
// what was known of outer levels is not.
//
// What follows a reduction is at the deepest level whatever its index says: its operand exists only
// there.
ValueEmitter::ValueEmitter(const KernelGraph& graph, IndexSpace& space, llvm::IRBuilder<>& builder,
                           PhaseFunction& function, int lane_level)
    : graph_(graph),
      space_(space),
      builder_(builder),
      function_(function),
      lane_level_(lane_level),
      index_type_(builder.getInt64Ty()),
      levels_(static_cast<std::size_t>(lane_level) + 1) {
  anchor(0, function.entry_anchor);
  for (const ir::Instruction* instruction : graph.instructions()) {
    selects_ = selects_ || instruction->opcode() == Opcode::select;
  }
}

void ValueEmitter::use_narrow_indices() { index_type_ = builder_.getInt32Ty(); }

void ValueEmitter::anchor(int level, llvm::Instruction* anchor) {
  Level& state = levels_[static_cast<std::size_t>(level)];
  state.builder = std::make_unique<llvm::IRBuilder<>>(anchor);
}

void ValueEmitter::forget(int level) {
  Level& state = levels_[static_cast<std::size_t>(level)];
  state.values.clear();
  state.symbols.clear();
}

void ValueEmitter::open_lanes(int width, int active) {
  width_ = width;
  active_ = active;
  mask_ = nullptr;
  forget(lane_level_);
  staged_.clear();
}

void ValueEmitter::open_masked_lanes(int width, Value* mask) {
  open_lanes(width, 0);
  mask_ = mask;
}

void ValueEmitter::bind(const Affine& loop, Value* value, bool aligned) {
  if (loop.is_constant()) return;
  const int id = loop.terms[0].first;
  levels_[static_cast<std::size_t>(space_.symbol(id).level)].symbols[id] = {value, 0, nullptr,
                                                                            aligned};
}

void ValueEmitter::bind_lane(const Affine& loop, Value* value) {
  if (loop.is_constant()) return;
  const int id = loop.terms[0].first;
  levels_[static_cast<std::size_t>(lane_level_)].symbols[id] = {value, width_ > 1 ? 1 : 0, nullptr,
                                                                true};
}

void ValueEmitter::bind_lanes(const Affine& loop, Value* lanes) {
  if (loop.is_constant()) return;
  const int id = loop.terms[0].first;
  levels_[static_cast<std::size_t>(lane_level_)].symbols[id] = {nullptr, 0, lanes, false};
}

void ValueEmitter::bind_reduce(const ir::Instruction* reduce, int component, Index index,
                               Value* value) {
  reduces_[{reduce, component}] = {std::move(index), value};
}

llvm::IRBuilder<>& ValueEmitter::at(int level) {
  Level& state = levels_[static_cast<std::size_t>(level)];
  return state.builder != nullptr ? *state.builder : builder_;
}

Value* ValueEmitter::fail(Status status, DType dtype) {
  if (status_.ok()) status_ = std::move(status);
  return llvm::PoisonValue::get(register_type(builder_.getContext(), dtype, 1));
}

Value* ValueEmitter::widen(Value* value) {
  if (width_ == 1 || value->getType()->isVectorTy()) return value;
  return builder_.CreateVectorSplat(static_cast<unsigned>(width_), value);
}

Value* ValueEmitter::active_mask() const {
  if (mask_ != nullptr) return mask_;
  std::vector<llvm::Constant*> bits;
  auto* type = llvm::Type::getInt1Ty(builder_.getContext());
  for (int i = 0; i < width_; ++i) bits.push_back(llvm::ConstantInt::get(type, i < active_));
  return llvm::ConstantVector::get(bits);
}

Value* ValueEmitter::select(llvm::IRBuilder<>& b, Value* condition, Value* yes, Value* no) {
  const bool vector = condition->getType()->isVectorTy() || yes->getType()->isVectorTy() ||
                      no->getType()->isVectorTy();
  const auto wide = [&](Value* v) {
    return v->getType()->isVectorTy() ? v : b.CreateVectorSplat(static_cast<unsigned>(width_), v);
  };
  if (!vector) return b.CreateSelect(condition, yes, no);
  if (condition->getType()->isVectorTy()) return b.CreateSelect(condition, wide(yes), wide(no));
  return b.CreateSelect(condition, wide(yes), wide(no));
}

Value* ValueEmitter::test(const std::vector<Condition>& conditions, llvm::IRBuilder<>& b) {
  Value* all = nullptr;
  const auto require = [&](Value* one) {
    if (all == nullptr) {
      all = one;
      return;
    }
    if (all->getType() != one->getType()) {
      const auto count = static_cast<unsigned>(width_);
      if (!all->getType()->isVectorTy()) all = b.CreateVectorSplat(count, all);
      if (!one->getType()->isVectorTy()) one = b.CreateVectorSplat(count, one);
    }
    all = b.CreateAnd(all, one);
  };
  for (const Condition& condition : conditions) {
    const Range bounds = space_.range(condition.x);
    const LaneIndex index = evaluate(condition.x);
    Value* x = index.is_uniform() ? index.base : lanes_of(index, bounds, b);
    const auto number = [&](std::int64_t n) {
      return llvm::ConstantInt::getSigned(x->getType(), n);
    };
    if (bounds.lowest < condition.allowed.lowest) {
      require(b.CreateICmpSGE(x, number(condition.allowed.lowest)));
    }
    if (bounds.highest > condition.allowed.highest) {
      require(b.CreateICmpSLE(x, number(condition.allowed.highest)));
    }
  }
  return all;
}

// Operations that take each element from one of several operands.
Value* ValueEmitter::chosen(const ir::Instruction& instruction, const Index& index,
                            llvm::IRBuilder<>& b) {
  const auto operand_value = [&](int i) {
    return value(graph_.operand(instruction, i),
                 operand_index(space_, graph_, instruction, i, index));
  };
  const auto is_left_out = [&](int i) {
    return graph_.operand(instruction, i).shape->element_count() == 0 ||
           is_never_chosen(space_, graph_, instruction, i, index);
  };
  const auto choose = [&](int i, Value* otherwise) {
    const auto conditions = operand_conditions(space_, graph_, instruction, i, index);
    if (conditions.empty()) return operand_value(i);
    return select(b, test(conditions, b), operand_value(i), otherwise);
  };
  switch (instruction.opcode()) {
    case Opcode::concatenate: {
      Value* result = nullptr;
      for (int i = 0; i < instruction.operand_count(); ++i) {
        if (is_left_out(i)) continue;
        result = result == nullptr ? operand_value(i) : choose(i, result);
      }
      return result;
    }
    case Opcode::pad:
      return is_left_out(0) ? operand_value(1) : choose(0, operand_value(1));
    default:  // dynamic-update-slice
      return is_left_out(1) ? operand_value(0) : choose(1, operand_value(0));
  }
}

Value* ValueEmitter::iota(const ir::Instruction& instruction, const Index& index,
                          llvm::IRBuilder<>& b) {
  const Affine& x = index[static_cast<std::size_t>(instruction.attributes().dimensions[0])];
  const LaneIndex lanes = evaluate(x);
  Value* number = lanes.is_uniform() ? lanes.base : lanes_of(lanes, space_.range(x), b);
  const bool narrow = number->getType()->getScalarSizeInBits() == 32;
  return emit_convert(b, number, narrow ? DType::s32 : DType::s64, instruction.shape().dtype());
}

// Between element sizes, the lowest bits first.
Value* ValueEmitter::resize(const ir::Instruction& instruction, const Index& index,
                            llvm::IRBuilder<>& b) {
  const KernelNode operand = graph_.operand(instruction, 0);
  const DType from = operand.dtype();
  const DType to = instruction.shape().dtype();
  const int from_bits = 8 * ir::dtype_bytes(from);
  const int to_bits = 8 * ir::dtype_bytes(to);
  const Index place = operand_index(space_, graph_, instruction, 0, index);
  const auto integer = [&](Value* x, int bits) {
    llvm::Type* element = b.getIntNTy(static_cast<unsigned>(bits));
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
    return vector == nullptr ? element
                             : llvm::FixedVectorType::get(element, vector->getNumElements());
  };
  const auto bits_of = [&](Value* x) {
    x = to_memory(b, x, from);
    return b.CreateBitCast(x, integer(x, from_bits));
  };
  Value* result = nullptr;
  if (from_bits > to_bits) {
    const LaneIndex part = evaluate(index.back());
    Value* shift = part.is_uniform() ? part.base : lanes_of(part, space_.range(index.back()), b);
    Value* bits = bits_of(value(operand, place));
    if (shift->getType()->isVectorTy() && !bits->getType()->isVectorTy()) {
      bits = b.CreateVectorSplat(static_cast<unsigned>(width_), bits);
    }
    if (!shift->getType()->isVectorTy() && bits->getType()->isVectorTy()) {
      shift = b.CreateVectorSplat(static_cast<unsigned>(width_), shift);
    }
    shift = b.CreateIntCast(shift, bits->getType(), false);
    shift = b.CreateMul(
        shift, llvm::ConstantInt::get(shift->getType(), static_cast<std::uint64_t>(to_bits)));
    // Idle lanes may count past the parts.
    shift = b.CreateAnd(
        shift, llvm::ConstantInt::get(shift->getType(), static_cast<std::uint64_t>(from_bits - 1)));
    result = b.CreateTrunc(b.CreateLShr(bits, shift), integer(bits, to_bits));
  } else {
    for (int part = 0; part < to_bits / from_bits; ++part) {
      Index at_part = place;
      at_part.back().constant = part;
      Value* bits = bits_of(value(operand, at_part));
      bits = b.CreateZExt(bits, integer(bits, to_bits));
      bits = b.CreateShl(bits, llvm::ConstantInt::get(
                                   bits->getType(), static_cast<std::uint64_t>(part * from_bits)));
      result = result == nullptr ? bits : b.CreateOr(result, bits);
    }
  }
  llvm::Type* stored = memory_type(b.getContext(), to, 1);
  if (const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(result->getType())) {
    stored = llvm::FixedVectorType::get(stored, vector->getNumElements());
  }
  return to_register(b, b.CreateBitCast(result, stored), to);
}

void ValueEmitter::assume(const KernelNode& node, const Index& index, Value* value) {
  levels_[static_cast<std::size_t>(lane_level_)].values.insert_or_assign(key_of(node, index),
                                                                         value);
}

Value* ValueEmitter::value(const KernelNode& node, const Index& index) {
  if (!status_.ok()) return fail(status_, node.dtype());
  if (++emitted_ > kMaxEmittedValues) {
    return fail(unimplemented(fmt::format("compile '{}': its code computes more than {} values; "
                                          "make it several fusions",
                                          graph_.instruction().name(), kMaxEmittedValues)),
                node.dtype());
  }
  const Key key = key_of(node, index);
  const int level = graph_.follows_reduce(node) ? lane_level_ : space_.level(index);
  auto& known = levels_[static_cast<std::size_t>(level)].values;
  if (const auto it = known.find(key); it != known.end()) return it->second;
  Value* result = nullptr;
  if (node.is_input()) {
    const Affine position = space_.linearize(index, node.dims());
    if (const auto it = staged_.find({node.input, position}); it != staged_.end()) {
      llvm::Type* type = memory_type(builder_.getContext(), node.dtype(), width_);
      result = to_register(builder_, builder_.CreateLoad(type, it->second), node.dtype());
    } else {
      result = load(function_.input(node.input), position, node.dtype());
    }
  } else {
    result = compute(node, index, at(level));
  }
  if (result == nullptr) {
    result = fail(unimplemented("compile '" + node.instruction->name() +
                                "': " + std::string(ir::to_string(node.instruction->opcode())) +
                                " of " + std::string(ir::to_string(node.dtype()))),
                  node.dtype());
  }
  known.emplace(key, result);
  return result;
}

Value* ValueEmitter::compute(const KernelNode& node, const Index& index, llvm::IRBuilder<>& b) {
  const ir::Instruction& instruction = *node.instruction;
  switch (ir::op_info(instruction.opcode()).loop_role) {
    case LoopRole::reduced: {
      const auto it = reduces_.find({&instruction, node.component});
      if (it == reduces_.end() || it->second.first != index) {
        return fail(refuse(instruction,
                           "has a result that its fusion reads at another index; make what reads "
                           "it a fusion of its own"),
                    node.dtype());
      }
      return it->second.second;
    }
    case LoopRole::created:
      return instruction.opcode() == Opcode::iota
                 ? iota(instruction, index, b)
                 : literal_element(b.getContext(), *instruction.attributes().literal, 0);
    case LoopRole::parts:
      return chosen(instruction, index, b);
    case LoopRole::element:
      if (instruction.opcode() == Opcode::bitcast_convert &&
          graph_.operand(instruction, 0).dims().size() != node.dims().size()) {
        return resize(instruction, index, b);
      }
      break;
    case LoopRole::viewed:
    case LoopRole::repeated:
    case LoopRole::moved:
    case LoopRole::fetched:
      return value(graph_.operand(instruction, 0),
                   operand_index(space_, graph_, instruction, 0, index));
    default:
      break;
  }
  std::vector<Value*> operands;
  std::vector<DType> dtypes;
  bool vector = false;
  for (int i = 0; i < instruction.operand_count(); ++i) {
    const KernelNode operand = graph_.operand(instruction, i);
    operands.push_back(value(operand, operand_index(space_, graph_, instruction, i, index)));
    dtypes.push_back(operand.dtype());
    vector = vector || operands.back()->getType()->isVectorTy();
  }
  if (!status_.ok()) return fail(status_, node.dtype());
  if (vector) {
    for (Value*& operand : operands) {
      if (!operand->getType()->isVectorTy()) {
        operand = b.CreateVectorSplat(static_cast<unsigned>(width_), operand);
      }
    }
  }
  return emit_elementwise(b, instruction, std::move(operands), std::move(dtypes));
}

std::vector<Value*> ValueEmitter::apply(const ir::Computation& computation,
                                        const std::vector<Value*>& arguments) {
  auto results = apply_scalars(builder_, computation, arguments);
  if (results.ok()) return *std::move(results);
  fail(results.status(),
       computation.root()->shape().is_array() ? computation.root()->shape().dtype() : DType::f32);
  return arguments;
}

}  // namespace plimsoll::jit
