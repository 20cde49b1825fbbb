// SPDX-License-Identifier: Apache-2.0
#include "jit/sequences/sequence_code.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>

#include "jit/emit/phase_function.h"
#include "jit/keys/canonical.h"
#include "jit/write_kernel.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/launch_sequence.h"

namespace plimsoll::jit {
namespace {

using device::SequenceStep;
using device::SequenceText;
using llvm::Value;
using Kind = SequenceStep::Kind;

// A launch costs some nanoseconds without. Kernels that take longer on average gain little; nor is
// it worth compiling for what a run soon has done; and compiling takes time by the number of
// kernels.
constexpr double kMostKernelSeconds = 300e-9;
// What large copies take, which several threads share outside of a function.
constexpr double kCopiedBytesPerSecond = 10e9;
constexpr double kFewestLaunches = 1000, kUnknownRounds = 256;
constexpr int kMostKernels = 64;

// Rounds between two questions.
constexpr std::uint64_t kRoundsPerQuestion = 1024;

// As the kernels that are there estimate it, whose phases may be others.
double kernel_seconds(const SequenceText& text, const SequenceStep& step) {
  double seconds = 0;
  for (const device::KernelPhase& phase : device::phases_of(text, step)) {
    seconds += static_cast<double>(phase.units) * phase.unit_seconds;
  }
  return seconds;
}

bool is_compiled(const SequenceStep& step) {
  return step.kernel->origin() == device::KernelOrigin::jit && step.instruction != nullptr &&
         step.kernel->may_join(at(step.input_count), at(step.output_count));
}

// Launches of a run, as far as they can be told.
double launches_of(const SequenceText& text, std::int32_t begin, std::int32_t end) {
  double launches = 0;
  for (std::int32_t i = begin; i < end; ++i) {
    const SequenceStep& step = text.steps[at(i)];
    if (step.kind == Kind::launch) ++launches;
    if (step.kind != Kind::loop) continue;
    const double rounds = step.rounds < 0 ? kUnknownRounds : static_cast<double>(step.rounds);
    launches += rounds * launches_of(text, i + 1, step.end);
    i = step.end - 1;
  }
  return launches;
}

class SequenceCodeWriter {
 public:
  SequenceCodeWriter(const SequenceGraph& graph, const KernelTarget& target, KernelCode& code)
      : graph_(graph), text_(*graph.text), target_(target), code_(code), b_(*code.context) {}

  Status write(const std::string& name) {
    PLIMSOLL_RETURN_IF_ERROR(write_kernels());
    PhaseFunction function = PhaseFunction::create(*code_.module, name, b_);
    function_ = function.function;
    entry_ = function.entry_anchor;
    control_ = function.workspace;
    done_ = function.begin;
    for (std::int32_t i = 0; i < text_.addresses; ++i) addresses_.push_back(function.input(i));
    next_table_ = text_.addresses;
    for (std::size_t i = 0; i < text_.steps.size(); ++i) {
      tables_.emplace_back();
      if (!graph_.kernels[i].has_value()) continue;
      for (std::size_t t = 0; t < graph_.kernels[i]->tables().size(); ++t) {
        tables_[i].push_back(function.input(next_table_++));
      }
    }
    rounds_ = on_stack(b_.getInt64Ty());
    b_.CreateStore(b_.getInt64(0), rounds_);
    stopped_ = llvm::BasicBlock::Create(b_.getContext(), "stopped", function_);
    write_steps(0, static_cast<std::int32_t>(text_.steps.size()));
    b_.CreateRetVoid();
    b_.SetInsertPoint(stopped_);
    b_.CreateRetVoid();
    return ok_status();
  }

 private:
  // The functions of step i's kernel are phases [firsts_[i], firsts_[i + 1]) of the code.
  Status write_kernels() {
    for (std::size_t i = 0; i < text_.steps.size(); ++i) {
      firsts_.push_back(code_.phases.size());
      if (!graph_.kernels[i].has_value()) continue;
      PLIMSOLL_RETURN_IF_ERROR(add_kernel(*graph_.kernels[i], KernelForm::plain,
                                          "step" + std::to_string(i), target_, code_));
    }
    firsts_.push_back(code_.phases.size());
    phases_ = std::move(code_.phases);
    code_.phases.clear();
    for (const Phase& phase : phases_) {
      llvm::Function* const function = code_.module->getFunction(phase.function);
      function->setLinkage(llvm::GlobalValue::InternalLinkage);
      function->addFnAttr(llvm::Attribute::AlwaysInline);
    }
    return ok_status();
  }

  Value* on_stack(llvm::Type* type) {
    llvm::IRBuilder<> entry(entry_);
    return entry.CreateAlloca(type);
  }

  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(b_.getContext(), name, function_);
  }

  Value* address(std::int32_t place) {
    const std::int32_t number = text_.places[at(place)];
    if (number < 0) return llvm::ConstantPointerNull::get(b_.getPtrTy());
    return addresses_[at(number)];
  }

  // An array of the addresses at `count` places, and of `others` behind them.
  Value* pointers(std::int32_t place, std::int32_t count, const std::vector<Value*>& others) {
    const auto size = at(count) + others.size();
    Value* const array = on_stack(llvm::ArrayType::get(b_.getPtrTy(), size));
    for (std::size_t i = 0; i < size; ++i) {
      Value* const pointer =
          i < at(count) ? address(place + static_cast<std::int32_t>(i)) : others[i - at(count)];
      b_.CreateStore(pointer, b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), array, i));
    }
    return array;
  }

  void write_steps(std::int32_t begin, std::int32_t end) {
    for (std::int32_t i = begin; i < end; ++i) {
      const SequenceStep& step = text_.steps[at(i)];
      switch (step.kind) {
        case Kind::launch:
          write_launch(i);
          break;
        case Kind::joint:  // its parts follow
          break;
        case Kind::copy:
          b_.CreateMemMove(address(step.places + 1), llvm::Align(1), address(step.places),
                           llvm::Align(1), static_cast<std::uint64_t>(step.bytes));
          break;
        case Kind::loop:
          write_loop(i);
          i = step.end - 1;
          break;
        case Kind::branch:
          write_branch(i);
          i = step.end - 1;
          break;
        case Kind::block:  // of a branch
          break;
      }
    }
  }

  void write_launch(std::int32_t i) {
    const SequenceStep& step = text_.steps[at(i)];
    Value* const inputs = pointers(step.places, step.input_count, tables_[at(i)]);
    Value* const outputs = pointers(step.places + step.input_count, step.output_count, {});
    Value* const workspace = address(step.places + step.input_count + step.output_count);
    for (std::size_t p = firsts_[at(i)]; p < firsts_[at(i) + 1]; ++p) {
      const Phase& phase = phases_[p];
      if (phase.unless_input >= 0 &&
          device::is_in_place(text_, step, phase.unless_input, phase.unless_output)) {
        continue;
      }
      b_.CreateCall(code_.module->getFunction(phase.function),
                    {inputs, outputs, workspace, b_.getInt64(0),
                     b_.getInt64(static_cast<std::uint64_t>(phase.units))});
    }
  }

  void write_question() {
    Value* const rounds = b_.CreateAdd(b_.CreateLoad(b_.getInt64Ty(), rounds_), b_.getInt64(1));
    b_.CreateStore(rounds, rounds_);
    llvm::BasicBlock* const asks = block("asks");
    llvm::BasicBlock* const goes_on = block("goes_on");
    Value* const due =
        b_.CreateICmpEQ(b_.CreateAnd(rounds, b_.getInt64(kRoundsPerQuestion - 1)), b_.getInt64(0));
    b_.CreateCondBr(due, asks, goes_on);
    b_.SetInsertPoint(asks);
    auto* const type = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy()}, false);
    Value* const answer = b_.CreateCall(type, b_.CreateLoad(b_.getPtrTy(), control_), {control_});
    b_.CreateCondBr(b_.CreateICmpEQ(answer, b_.getInt32(0)), goes_on, stopped_);
    b_.SetInsertPoint(goes_on);
  }

  void write_loop(std::int32_t i) {
    const SequenceStep& loop = text_.steps[at(i)];
    llvm::BasicBlock* const before = b_.GetInsertBlock();
    llvm::BasicBlock* const round = block("round");
    llvm::BasicBlock* const body = block("body");
    llvm::BasicBlock* const after = block("after");
    b_.CreateBr(round);
    b_.SetInsertPoint(round);
    llvm::PHINode* const number = b_.CreatePHI(b_.getInt64Ty(), 2);
    number->addIncoming(i == 0 ? done_ : b_.getInt64(0), before);
    write_question();
    if (loop.rounds >= 0) {
      b_.CreateCondBr(
          b_.CreateICmpSLT(number, b_.getInt64(static_cast<std::uint64_t>(loop.rounds))), body,
          after);
    } else {
      write_steps(i + 1, loop.body);
      Value* const says = b_.CreateLoad(b_.getInt8Ty(), address(loop.places));
      b_.CreateCondBr(b_.CreateICmpNE(says, b_.getInt8(0)), body, after);
    }
    b_.SetInsertPoint(body);
    write_steps(loop.body, loop.end);
    number->addIncoming(b_.CreateAdd(number, b_.getInt64(1)), b_.GetInsertBlock());
    b_.CreateBr(round);
    b_.SetInsertPoint(after);
  }

  void write_branch(std::int32_t i) {
    const SequenceStep& branch = text_.steps[at(i)];
    Value* number = nullptr;
    if (branch.is_pred) {
      Value* const says = b_.CreateLoad(b_.getInt8Ty(), address(branch.places));
      number = b_.CreateZExt(b_.CreateICmpEQ(says, b_.getInt8(0)), b_.getInt32Ty());
    } else {
      number = b_.CreateAlignedLoad(b_.getInt32Ty(), address(branch.places), llvm::Align(1));
    }
    llvm::BasicBlock* const after = block("after");
    std::vector<llvm::BasicBlock*> blocks;
    llvm::BasicBlock* const before = b_.GetInsertBlock();
    for (std::int32_t at_block = i + 1; at_block < branch.end;) {
      const std::int32_t end = text_.steps[at(at_block)].end;
      blocks.push_back(block("branch"));
      b_.SetInsertPoint(blocks.back());
      write_steps(at_block + 1, end);
      b_.CreateBr(after);
      at_block = end;
    }
    b_.SetInsertPoint(before);
    llvm::SwitchInst* const choice = b_.CreateSwitch(number, blocks.back());
    for (std::size_t k = 0; k + 1 < blocks.size(); ++k) {
      choice->addCase(b_.getInt32(static_cast<std::uint32_t>(k)), blocks[k]);
    }
    b_.SetInsertPoint(after);
  }

  const SequenceGraph& graph_;
  const SequenceText& text_;
  const KernelTarget& target_;
  KernelCode& code_;
  llvm::IRBuilder<> b_;
  std::vector<Phase> phases_;  // of the kernels
  std::vector<std::size_t> firsts_;
  llvm::Function* function_ = nullptr;
  llvm::Instruction* entry_ = nullptr;
  llvm::BasicBlock* stopped_ = nullptr;
  Value *control_ = nullptr, *done_ = nullptr, *rounds_ = nullptr;
  std::vector<Value*> addresses_;
  std::vector<std::vector<Value*>> tables_;  // per step
  int next_table_ = 0;
};

}  // namespace

std::string SequenceGraph::canonical_text() const {
  std::string written = "sequence of " + std::to_string(text->addresses) + "\n";
  for (std::size_t i = 0; i < text->steps.size(); ++i) {
    const SequenceStep& step = text->steps[i];
    written += std::to_string(static_cast<int>(step.kind));
    for (const std::int64_t number :
         {std::int64_t{step.input_count}, std::int64_t{step.output_count},
          std::int64_t{step.workspace_count}, step.bytes, step.rounds,
          std::int64_t{step.is_pred ? 1 : 0}, std::int64_t{step.body}, std::int64_t{step.end}}) {
      written += ' ' + std::to_string(number);
    }
    const std::int32_t count = step.input_count + step.output_count + step.workspace_count;
    for (std::int32_t k = 0; k < count; ++k) {
      written += (k == 0 ? ": " : ",") + std::to_string(text->places[at(step.places + k)]);
    }
    written += '\n';
    if (kernels[i].has_value()) written += jit::canonical_text(*kernels[i]);
  }
  return written;
}

std::vector<std::shared_ptr<const ir::Literal>> SequenceGraph::tables() const {
  std::vector<std::shared_ptr<const ir::Literal>> tables;
  for (const std::optional<KernelGraph>& kernel : kernels) {
    if (!kernel.has_value()) continue;
    for (const ir::Instruction* table : kernel->tables()) {
      tables.push_back(table->attributes().literal);
    }
  }
  return tables;
}

std::optional<SequenceGraph> sequence_graph(const SequenceText& text, SequenceMode mode) {
  int launches = 0;
  double seconds = 0;
  for (const SequenceStep& step : text.steps) {
    if (step.kind == Kind::copy) seconds += static_cast<double>(step.bytes) / kCopiedBytesPerSecond;
    if (step.kind != Kind::launch) continue;
    if (++launches > kMostKernels || !is_compiled(step)) return std::nullopt;
    seconds += kernel_seconds(text, step);
  }
  const bool gains =
      seconds <= kMostKernelSeconds * launches &&
      launches_of(text, 0, static_cast<std::int32_t>(text.steps.size())) >= kFewestLaunches;
  if (launches == 0 || mode == SequenceMode::never || (mode == SequenceMode::automatic && !gains)) {
    return std::nullopt;
  }
  SequenceGraph graph{&text, std::vector<std::optional<KernelGraph>>(text.steps.size())};
  for (std::size_t i = 0; i < text.steps.size(); ++i) {
    if (text.steps[i].kind != Kind::launch) continue;
    auto kernel = KernelGraph::create(*text.steps[i].instruction);
    if (!kernel.ok()) return std::nullopt;
    graph.kernels[i].emplace(*std::move(kernel));
  }
  return graph;
}

Result<KernelCode> write_sequence(const SequenceGraph& graph, const std::string& id,
                                  const KernelTarget& target) {
  KernelCode code = KernelCode::create(target);
  code.module->setModuleIdentifier(id);
  code.module->setSourceFileName(id);
  code.is_sequence = true;
  const std::string name = id + ".sequence";
  PLIMSOLL_RETURN_IF_ERROR(SequenceCodeWriter(graph, target, code).write(name));
  Phase phase;
  phase.function = name;
  phase.units = 1;
  code.phases.push_back(std::move(phase));
  code.workspace_bytes = 0;
  return code;
}

}  // namespace plimsoll::jit
