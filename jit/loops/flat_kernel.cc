// SPDX-License-Identifier: Apache-2.0
#include "jit/loops/flat_kernel.h"

#include <algorithm>
#include <vector>

#include "jit/emit/kernel_code.h"
#include "jit/emit/kernel_traits.h"
#include "jit/emit/value_emitter.h"
#include "jit/loops/flat_form.h"

namespace plimsoll::jit {
namespace {

class FlatWriter {
 public:
  FlatWriter(const KernelGraph& graph, int width, llvm::Module& module, const std::string& name)
      : graph_(graph),
        width_(width),
        builder_(module.getContext()),
        function_(PhaseFunction::create(module, name, builder_)),
        emitter_(graph, space_, builder_, function_, 1),
        position_(space_.add_loop(kFlatExtent, 1)) {}

  Status write() {
    llvm::IRBuilder<>& b = builder_;
    llvm::Value* count = b.CreateSub(function_.end, function_.begin);
    const auto rest_bits = static_cast<std::uint64_t>(width_ - 1);
    llvm::Value* rest = b.CreateAnd(count, b.getInt64(rest_bits));
    llvm::Value* whole = b.CreateSub(function_.end, rest);
    Loop loop = Loop::open(b, function_.begin, whole, width_);
    emitter_.open_lanes(width_, width_);
    write_values(loop.variable);
    loop.close(b);
    auto* tail = llvm::BasicBlock::Create(b.getContext(), "tail", function_.function);
    auto* done = llvm::BasicBlock::Create(b.getContext(), "done", function_.function);
    b.CreateCondBr(b.CreateICmpSLT(whole, function_.end), tail, done);
    b.SetInsertPoint(tail);
    emitter_.open_masked_lanes(width_, first_lanes(rest));
    write_values(whole);
    b.CreateBr(done);
    b.SetInsertPoint(done);
    b.CreateRetVoid();
    return emitter_.status();
  }

 private:
  llvm::Value* first_lanes(llvm::Value* count) {
    std::vector<llvm::Constant*> lanes;
    for (int i = 0; i < width_; ++i) {
      lanes.push_back(builder_.getInt32(static_cast<std::uint32_t>(i)));
    }
    llvm::Value* limit = builder_.CreateVectorSplat(
        static_cast<unsigned>(width_), builder_.CreateTrunc(count, builder_.getInt32Ty()));
    return builder_.CreateICmpULT(llvm::ConstantVector::get(lanes), limit);
  }

  // All values before any store, so that an output may be the buffer of an input.
  void write_values(llvm::Value* first) {
    emitter_.bind_lane(position_, first);
    std::vector<llvm::Value*> values;
    for (const KernelNode& root : graph_.roots())
      values.push_back(emitter_.value(root, {position_}));
    for (std::size_t i = 0; i < values.size(); ++i) {
      emitter_.store(function_.output(static_cast<int>(i)), position_, values[i],
                     graph_.roots()[i].dtype());
    }
  }

  const KernelGraph& graph_;
  int width_;
  llvm::IRBuilder<> builder_;
  PhaseFunction function_;
  IndexSpace space_;
  ValueEmitter emitter_;
  Affine position_;
};

}  // namespace

Status write_flat_kernel(const KernelGraph& graph, const KernelTarget& target, KernelCode& code) {
  Phase phase;
  phase.function = "elements";
  phase.unit_seconds = seconds_per_element(graph);
  phase.run_elements = 1;
  for (std::size_t i = 0; i < std::min<std::size_t>(64, graph.inputs().size()); ++i) {
    if (graph.inputs()[i]->element_count() == kFlatExtent)
      phase.own_inputs |= std::uint64_t{1} << i;
  }
  FlatWriter writer(graph, vector_lanes(graph, target), *code.module, phase.function);
  PLIMSOLL_RETURN_IF_ERROR(writer.write());
  code.phases.push_back(std::move(phase));
  return ok_status();
}

}  // namespace plimsoll::jit
