// SPDX-License-Identifier: Apache-2.0
#include "jit/reductions/sweep_writer.h"

#include <numeric>

#include "jit/emit/elementwise.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

std::int64_t bytes_moved(const ReductionPlan& plan) {
  std::int64_t bytes = 0;
  for (const ir::Shape* input : plan.graph.inputs()) bytes += input->byte_size();
  for (const KernelNode& root : plan.graph.roots()) bytes += root.shape->byte_size();
  return bytes;
}

}  // namespace

SweepWriter::SweepWriter(const ReductionPlan& plan, const KernelTarget& target,
                         llvm::Module& module, const std::string& name)
    : plan_(plan),
      shape_(plan.shape),
      b_(module.getContext()),
      function_(PhaseFunction::create(module, name, b_)),
      emitter_(plan.graph, space_, b_, function_, 3),
      finisher_(plan, b_, function_),
      streamed_(bytes_moved(plan) >= target.streaming_bytes) {}

Status SweepWriter::write() {
  Loop units = Loop::open(b_, function_.begin, function_.end, 1);
  write_unit(units.variable);
  units.close(b_);
  function_.finish(b_, streamed_ && !plan_.swept.empty());
  PLIMSOLL_RETURN_IF_ERROR(emitter_.status());
  return finisher_.emitter().status();
}

llvm::Value* SweepWriter::split(llvm::Value** unit, std::int64_t count) {
  if (count == 1) return number(0);
  llvm::Value* low = b_.CreateURem(*unit, number(count));
  *unit = b_.CreateUDiv(*unit, number(count));
  return low;
}

void SweepWriter::open_level(int level) {
  auto* next = llvm::BasicBlock::Create(b_.getContext(), "level", function_.function);
  emitter_.anchor(level, b_.CreateBr(next));
  b_.SetInsertPoint(next);
}

llvm::Type* SweepWriter::slot_type(std::size_t component) const {
  return memory_type(b_.getContext(), plan_.accumulators[component], width_);
}

void SweepWriter::make_slots(std::int64_t count, bool apart) {
  slots_ = count;
  apart_ = apart;
  llvm::IRBuilder<> entry(function_.entry_anchor);
  for (std::size_t c = 0; c < plan_.accumulators.size(); ++c) {
    std::vector<llvm::Value*>& slots = slots_of_.emplace_back();
    for (std::int64_t i = 0; i < (apart ? count : 1); ++i) {
      slots.push_back(entry.CreateAlloca(slot_type(c), number(apart ? 1 : count)));
    }
  }
}

llvm::Value* SweepWriter::slot(std::size_t component, llvm::Value* i) {
  const auto& slots = slots_of_[component];
  if (apart_) return slots[llvm::cast<llvm::ConstantInt>(i)->getZExtValue()];
  return b_.CreateInBoundsGEP(slot_type(component), slots[0], i);
}

llvm::Value* SweepWriter::load_slot(std::size_t component, llvm::Value* i) {
  llvm::Value* value = b_.CreateLoad(slot_type(component), slot(component, i));
  return to_register(b_, value, plan_.accumulators[component]);
}

void SweepWriter::store_slot(std::size_t component, llvm::Value* i, llvm::Value* value) {
  b_.CreateStore(to_memory(b_, value, plan_.accumulators[component]), slot(component, i));
}

SweepWriter::Values SweepWriter::load_slots(llvm::Value* i) {
  Values values;
  for (std::size_t c = 0; c < plan_.accumulators.size(); ++c) values.push_back(load_slot(c, i));
  return values;
}

void SweepWriter::store_slots(llvm::Value* i, const Values& values) {
  for (std::size_t c = 0; c < values.size(); ++c) store_slot(c, i, values[c]);
}

llvm::Value* SweepWriter::splat(llvm::Value* value) {
  if (width_ == 1 || value->getType()->isVectorTy()) return value;
  return b_.CreateVectorSplat(static_cast<unsigned>(width_), value);
}

void SweepWriter::fill_slots() {
  Values initial;
  if (plan_.reducers.front().in_order) initial = finisher_.initial();
  const auto fill = [&](llvm::Value* i) {
    for (const Reducer& reducer : plan_.reducers) {
      for (int c = 0; c < reducer.components(); ++c) {
        const auto component = at(reducer.first + c);
        llvm::Value* value = llvm::Constant::getNullValue(
            register_type(b_.getContext(), plan_.accumulators[component], 1));
        if (reducer.in_order) value = initial[component];
        if (!reducer.identity.empty()) value = reducer.identity[at(c)];
        store_slot(component, i, splat(value));
      }
    }
  };
  if (apart_) {
    for (std::int64_t i = 0; i < slots_; ++i) fill(number(i));
    return;
  }
  Loop loop = Loop::open(b_, number(0), number(slots_), 1);
  fill(loop.variable);
  loop.close(b_);
}

SweepWriter::Values SweepWriter::sweep(const Index& index) {
  Values values;
  for (const Reducer& reducer : plan_.reducers) {
    for (int c = 0; c < reducer.components(); ++c) {
      const KernelNode node = plan_.graph.operand(*reducer.reduce, c);
      values.push_back(splat(emit_convert(b_, emitter_.value(node, index), node.dtype(),
                                          reducer.accumulators[at(c)])));
    }
  }
  Values stored;
  for (const int root : plan_.swept) {
    stored.push_back(emitter_.value(plan_.graph.roots()[at(root)], index));
  }
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const KernelNode& node = plan_.graph.roots()[at(plan_.swept[i])];
    llvm::Value* cached = nullptr;
    if (streamed_) {
      std::vector<int> inputs(plan_.graph.inputs().size());
      std::iota(inputs.begin(), inputs.end(), 0);
      cached = function_.is_in_place(plan_.swept[i], inputs);
    }
    emitter_.store(function_.output(plan_.swept[i]), space_.linearize(index, node.dims()),
                   stored[i], node.dtype(), cached);
  }
  return values;
}

// Three cases of an accumulator and one element: it holds something (combine), it is empty (take
// the element: only where there is no identity), or the lane does not exist (keep it as it is). All
// are selects, so that the code has no branch inside the innermost loop.
SweepWriter::Values SweepWriter::accumulated(const Values& old, const Values& values,
                                             llvm::Value* is_first) {
  Values results;
  for (const Reducer& reducer : plan_.reducers) {
    const auto part = [&](const Values& all) {
      return Values(all.begin() + reducer.first,
                    all.begin() + reducer.first + reducer.components());
    };
    const Values before = part(old), added = part(values);
    const Values sum = combine(emitter_, b_, reducer, before, added);
    for (std::size_t c = 0; c < sum.size(); ++c) {
      llvm::Value* value = splat(sum[c]);
      if (!reducer.starts_full()) value = b_.CreateSelect(is_first, added[c], value);
      if (emitter_.active() < width_) {
        value = b_.CreateSelect(emitter_.active_mask(), value, before[c]);
      }
      results.push_back(value);
    }
  }
  return results;
}

llvm::Value* SweepWriter::partials(std::size_t component) {
  return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), function_.workspace,
                                       static_cast<std::uint64_t>(plan_.partial_offset[component]));
}

}  // namespace plimsoll::jit
