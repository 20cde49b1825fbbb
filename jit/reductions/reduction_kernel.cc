// SPDX-License-Identifier: Apache-2.0
#include "jit/reductions/reduction_kernel.h"

#include <algorithm>
#include <bit>

#include "jit/emit/elementwise.h"
#include "jit/emit/kernel_code.h"
#include "jit/emit/kernel_traits.h"
#include "jit/reductions/reduction_plan.h"
#include "jit/reductions/reduction_sweep.h"

namespace plimsoll::jit {
namespace {

using Values = std::vector<llvm::Value*>;

constexpr int kWidth = 16;
constexpr std::int64_t kFinalColumns = 64;  // of one unit

// The phase that combines the blocks' results in order.
//
// A long reduction is cut into blocks that depend on shapes alone, each of which leaves its result
// in the workspace: [component][block][result]. This phase goes over the results, a vector of them
// at a time, and adds block 0, 1, 2, ... to the initial value. The order does not depend on which
// thread ran which block.
Status write_final_phase(const ReductionPlan& plan, llvm::Module& module, const std::string& name) {
  llvm::IRBuilder<> b(module.getContext());
  PhaseFunction function = PhaseFunction::create(module, name, b);
  ReductionFinisher finisher(plan, b, function);
  ValueEmitter& emitter = finisher.emitter();
  const std::int64_t kept = plan.shape.kept;
  const int width = static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(kept, 1, kWidth))));
  const auto number = [&](std::int64_t n) { return b.getInt64(static_cast<std::uint64_t>(n)); };
  const Affine position = finisher.space().add_loop(kept, 1);
  std::vector<llvm::Value*> running;
  for (const ir::DType dtype : plan.accumulators) {
    llvm::IRBuilder<> entry(function.entry_anchor);
    running.push_back(entry.CreateAlloca(memory_type(b.getContext(), dtype, width)));
  }
  const auto load = [&](std::size_t c) {
    llvm::Type* type = memory_type(b.getContext(), plan.accumulators[c], width);
    return to_register(b, b.CreateLoad(type, running[c]), plan.accumulators[c]);
  };
  const auto save = [&](const Values& values) {
    for (std::size_t c = 0; c < values.size(); ++c) {
      b.CreateStore(to_memory(b, emitter.widen(values[c]), plan.accumulators[c]), running[c]);
    }
  };
  const auto write = [&](llvm::Value* first, int active) {
    emitter.open_lanes(width, active);
    emitter.bind_lane(position, first);
    save(finisher.initial());
    Loop blocks = Loop::open(b, number(0), number(plan.shape.blocks()), 1);
    Values sum, next;
    llvm::Value* row = b.CreateMul(blocks.variable, number(kept));
    for (std::size_t c = 0; c < running.size(); ++c) {
      llvm::Value* base = b.CreateConstInBoundsGEP1_64(
          b.getInt8Ty(), function.workspace, static_cast<std::uint64_t>(plan.partial_offset[c]));
      llvm::Type* element = memory_type(b.getContext(), plan.accumulators[c], 1);
      base = b.CreateInBoundsGEP(element, base, row);
      sum.push_back(load(c));
      next.push_back(emitter.widen(emitter.load(base, position, plan.accumulators[c], 1)));
    }
    save(finisher.combine_all(sum, next));
    blocks.close(b);
    Values totals;
    for (std::size_t c = 0; c < running.size(); ++c) totals.push_back(load(c));
    finisher.finish(position, totals);
  };
  Loop units = Loop::open(b, function.begin, function.end, 1);
  llvm::Value* begin = b.CreateMul(units.variable, number(kFinalColumns));
  llvm::Value* end = b.CreateAdd(begin, number(kFinalColumns));
  const std::int64_t whole = kept / width * width;
  Loop lanes = Loop::open(
      b, begin, b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, number(whole)), width);
  write(lanes.variable, width);
  lanes.close(b);
  if (whole < kept) {
    auto* tail = llvm::BasicBlock::Create(b.getContext(), "tail", function.function);
    auto* done = llvm::BasicBlock::Create(b.getContext(), "done", function.function);
    b.CreateCondBr(b.CreateICmpSGE(end, number(kept)), tail, done);
    b.SetInsertPoint(tail);
    write(number(whole), static_cast<int>(kept - whole));
    b.CreateBr(done);
    b.SetInsertPoint(done);
  }
  units.close(b);
  b.CreateRetVoid();
  return emitter.status();
}

}  // namespace

Result<Phase> write_combination(const ReductionPlan& plan, llvm::Module& module,
                                const std::string& name) {
  PLIMSOLL_RETURN_IF_ERROR(write_final_phase(plan, module, name));
  Phase phase;
  phase.function = name;
  phase.units = divide_up(plan.shape.kept, kFinalColumns);
  phase.unit_seconds = static_cast<double>(kFinalColumns * (plan.shape.blocks() + 4)) * 0.3e-9;
  return phase;
}

Status write_reduction_kernel(const KernelGraph& graph, const KernelTarget& target,
                              KernelCode& code) {
  const ReductionPlan plan = make_reduction_plan(graph, *code.context);
  code.workspace_bytes = plan.workspace_bytes;
  const double seconds = seconds_per_element(graph);
  if (plan.shape.kept > 0 && plan.shape.reduced > 0) {
    PLIMSOLL_ASSIGN_OR_RETURN(Phase phase,
                              write_sweep(plan, target, *code.module, "sweep", seconds));
    code.phases.push_back(std::move(phase));
  }
  if (plan.shape.kept > 0 && plan.is_cut()) {
    PLIMSOLL_ASSIGN_OR_RETURN(Phase phase, write_combination(plan, *code.module, "combine"));
    code.phases.push_back(std::move(phase));
  }
  return ok_status();
}

}  // namespace plimsoll::jit
