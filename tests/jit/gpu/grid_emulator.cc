// SPDX-License-Identifier: Apache-2.0
#include "tests/jit/gpu/grid_emulator.h"

#include <fmt/core.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <random>

#include "jit/gpu/gpu_code.h"
#include "jit/gpu/gpu_codec.h"
#include "runtime/base/index.h"
#include "tests/jit/gpu/async_copies.h"
#include "tests/jit/gpu/fibers.h"
#include "tests/jit/gpu/matrix_instructions.h"

namespace plimsoll::jit::testing {
namespace {

constexpr unsigned kSharedSpace = 3;
constexpr std::byte kRubbish{0xcd};

// What the code that is running can ask for.
struct Running {
  std::uint32_t block = 0, thread = 0;
  BlockOfFibers* fibers = nullptr;  // null: every thread runs from beginning to end
  AsyncCopies* copies = nullptr;
};
thread_local Running running;

std::uint32_t emulated_thread() { return running.thread; }
std::uint32_t emulated_block() { return running.block; }

std::uint32_t exchanged(Exchange what) {
  const std::uint32_t thread = running.thread;
  const std::uint32_t result = running.fibers->exchange(what);
  running.thread = thread;
  return result;
}
void emulated_barrier() {
  const std::uint32_t thread = running.thread;
  running.fibers->wait_for_block();
  running.thread = thread;
}
void emulated_warp_barrier(std::uint32_t) { exchanged({Exchange::Kind::barrier, 0, 0, 31, 0}); }
std::uint32_t emulated_above(std::uint32_t, std::uint32_t value, std::uint32_t offset,
                             std::uint32_t limits) {
  return exchanged({Exchange::Kind::above, value, offset, limits, 0});
}
std::uint32_t emulated_lane(std::uint32_t, std::uint32_t value, std::uint32_t lane,
                            std::uint32_t limits) {
  return exchanged({Exchange::Kind::lane, value, lane, limits, 0});
}

void together(void (*work)(void* const*), void* own) {
  exchanged({Exchange::Kind::together, 0, 0, 31, 0, work, own});
}
void emulated_multiply_bf16(void* own) { together(&multiply_bf16, own); }
void emulated_multiply_f16(void* own) { together(&multiply_f16, own); }
void emulated_load_matrices(void* own) { together(&load_matrices, own); }
void emulated_load_transposed_matrices(void* own) { together(&load_transposed_matrices, own); }

// Copies into shared memory that are under way are done when they are waited for, not before.
void emulated_copy_of(void* to, const void* from, std::uint32_t bytes) {
  running.copies->add(running.thread, to, from, bytes);
}
void emulated_copy(void* to, const void* from) { emulated_copy_of(to, from, AsyncCopies::kBytes); }
void emulated_commit() { running.copies->commit(running.thread); }
void emulated_wait(std::uint32_t left) { running.copies->wait(running.thread, left); }

struct Replacement {
  const char* intrinsic;
  const char* symbol;
  void* address;
  bool waits;
};
const Replacement kReplacements[] = {
    {"llvm.nvvm.read.ptx.sreg.tid.x", "emulated_thread", reinterpret_cast<void*>(&emulated_thread),
     false},
    {"llvm.nvvm.read.ptx.sreg.ctaid.x", "emulated_block", reinterpret_cast<void*>(&emulated_block),
     false},
    {"llvm.nvvm.barrier0", "emulated_barrier", reinterpret_cast<void*>(&emulated_barrier), true},
    {"llvm.nvvm.bar.warp.sync", "emulated_warp_barrier",
     reinterpret_cast<void*>(&emulated_warp_barrier), true},
    {"llvm.nvvm.shfl.sync.down.i32", "emulated_above", reinterpret_cast<void*>(&emulated_above),
     true},
    {"llvm.nvvm.shfl.sync.idx.i32", "emulated_lane", reinterpret_cast<void*>(&emulated_lane), true},
    {"llvm.nvvm.cp.async.cg.shared.global.16", "emulated_copy",
     reinterpret_cast<void*>(&emulated_copy), false},
    {"llvm.nvvm.cp.async.cg.shared.global.16.s", "emulated_copy_of",
     reinterpret_cast<void*>(&emulated_copy_of), false},
    {"llvm.nvvm.cp.async.commit.group", "emulated_commit",
     reinterpret_cast<void*>(&emulated_commit), false},
    {"llvm.nvvm.cp.async.wait.group", "emulated_wait", reinterpret_cast<void*>(&emulated_wait),
     false},
};
// What replace_matrix_instructions() calls.
const std::pair<const char*, void (*)(void*)> kMatrixInstructions[] = {
    {"emulated_multiply_bf16", &emulated_multiply_bf16},
    {"emulated_multiply_f16", &emulated_multiply_f16},
    {"emulated_load_matrices", &emulated_load_matrices},
    {"emulated_load_transposed_matrices", &emulated_load_transposed_matrices},
};

Status failed(llvm::Error error, std::string_view what) {
  return internal_error(std::string(what) + ": " + llvm::toString(std::move(error)));
}

// Arithmetic whose NaNs a GPU makes itself. f64 keeps an operand's.
bool makes_nan(const llvm::Instruction& instruction) {
  if (!instruction.getType()->getScalarType()->isFloatTy()) return false;
  switch (instruction.getOpcode()) {
    case llvm::Instruction::FAdd:
    case llvm::Instruction::FSub:
    case llvm::Instruction::FMul:
    case llvm::Instruction::FDiv:
    case llvm::Instruction::FPTrunc:
      return true;
    default:
      break;
  }
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
  if (call == nullptr) return false;
  switch (call->getIntrinsicID()) {
    case llvm::Intrinsic::fma:
    case llvm::Intrinsic::sqrt:
    case llvm::Intrinsic::maximum:
    case llvm::Intrinsic::minimum:
    case llvm::Intrinsic::roundeven:
    case llvm::Intrinsic::round:
    case llvm::Intrinsic::floor:
    case llvm::Intrinsic::ceil:
    case llvm::Intrinsic::convert_from_fp16:
      return true;
    default:
      return false;
  }
}

void make_nans(llvm::Module& module) {
  std::vector<llvm::Instruction*> arithmetic;
  for (llvm::Function& function : module) {
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
      if (makes_nan(instruction)) arithmetic.push_back(&instruction);
    }
  }
  for (llvm::Instruction* instruction : arithmetic) {
    llvm::IRBuilder<> b(instruction->getNextNode());
    llvm::Type* type = instruction->getType();
    const llvm::APFloat nan(llvm::APFloat::IEEEsingle(), llvm::APInt(32, 0x7fffffff));
    llvm::Value* is_nan = b.CreateFCmpUNO(instruction, instruction);
    llvm::Value* result = b.CreateSelect(is_nan, llvm::ConstantFP::get(type, nan), instruction);
    instruction->replaceUsesWithIf(
        result, [&](llvm::Use& use) { return use.getUser() != is_nan && use.getUser() != result; });
  }
}

// An f32 as the bits of a bf16, in the lower half of 32.
llvm::Value* bf16_of(llvm::IRBuilder<>& b, llvm::Value* x) {
  llvm::Value* bits = b.CreateBitCast(x, b.getInt32Ty());
  llvm::Value* odd = b.CreateAnd(b.CreateLShr(bits, 16), b.getInt32(1));
  llvm::Value* near = b.CreateLShr(b.CreateAdd(b.CreateAdd(bits, b.getInt32(0x7fff)), odd), 16);
  return b.CreateSelect(b.CreateFCmpUNO(x, x), b.getInt32(0x7fff), near);
}

// Conversions that the host may not have, or whose NaNs are others.
void replace_conversions(llvm::Module& module) {
  std::vector<llvm::IntrinsicInst*> calls;
  for (llvm::Function& function : module) {
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
      if (auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction)) calls.push_back(call);
    }
  }
  for (llvm::IntrinsicInst* call : calls) {
    llvm::IRBuilder<> b(call->getNextNode());
    const llvm::Intrinsic::ID id = call->getIntrinsicID();
    if (id == llvm::Intrinsic::convert_to_fp16) {
      llvm::Value* x = call->getArgOperand(0);
      llvm::Value* result = b.CreateSelect(b.CreateFCmpUNO(x, x), b.getInt16(0x7fff), call);
      call->replaceUsesWithIf(result, [&](llvm::Use& use) { return use.getUser() != result; });
    } else if (id == llvm::Intrinsic::nvvm_f2bf16_rn) {
      llvm::Value* bits = b.CreateTrunc(bf16_of(b, call->getArgOperand(0)), b.getInt16Ty());
      call->replaceAllUsesWith(b.CreateBitCast(bits, call->getType()));
      call->eraseFromParent();
    } else if (id == llvm::Intrinsic::nvvm_ff2bf16x2_rn) {
      llvm::Value* high = b.CreateShl(bf16_of(b, call->getArgOperand(0)), 16);
      llvm::Value* both = b.CreateOr(high, bf16_of(b, call->getArgOperand(1)));
      call->replaceAllUsesWith(b.CreateBitCast(both, call->getType()));
      call->eraseFromParent();
    }
  }
}

struct SharedMemory {
  std::string symbol;
  std::int64_t bytes = 0;
  std::byte* address = nullptr;
};

// The calls of intrinsics become calls of the run-time; says whether threads wait for each other.
Result<bool> replace_intrinsics(llvm::Module& module) {
  bool waits = false;
  std::vector<llvm::Function*> done;
  for (llvm::Function& function : module) {
    if (!function.getName().starts_with("llvm.nvvm.") || function.use_empty()) continue;
    const auto* found =
        std::find_if(std::begin(kReplacements), std::end(kReplacements),
                     [&](const Replacement& r) { return function.getName() == r.intrinsic; });
    if (found == std::end(kReplacements)) {
      return unimplemented("emulate " + function.getName().str());
    }
    waits = waits || found->waits;
    llvm::FunctionCallee stand_in =
        module.getOrInsertFunction(found->symbol, function.getFunctionType());
    function.replaceAllUsesWith(stand_in.getCallee());
    done.push_back(&function);
  }
  for (llvm::Function* function : done) function->eraseFromParent();
  return waits;
}

// void call_ENTRY(ptr arguments): the entry on the pointers in an array.
void add_caller(llvm::Module& module, const std::string& entry) {
  llvm::Function* function = module.getFunction(entry);
  llvm::IRBuilder<> b(module.getContext());
  auto* caller =
      llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false),
                             llvm::Function::ExternalLinkage, "call_" + entry, module);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", caller));
  std::vector<llvm::Value*> arguments;
  for (unsigned i = 0; i < function->arg_size(); ++i) {
    arguments.push_back(
        b.CreateLoad(b.getPtrTy(), b.CreateConstGEP1_64(b.getPtrTy(), caller->getArg(0), i)));
  }
  b.CreateCall(function, arguments);
  b.CreateRetVoid();
}

Result<std::unique_ptr<llvm::orc::LLJIT>> make_jit() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  auto target = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!target) return failed(target.takeError(), "detect the host CPU");
  target->setCodeGenOptLevel(llvm::CodeGenOptLevel::Less);
  target->getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  auto jit = llvm::orc::LLJITBuilder()
                 .setJITTargetMachineBuilder(*target)
                 .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
                 .create();
  if (!jit) return failed(jit.takeError(), "create the emulator's compiler");
  llvm::orc::SymbolMap symbols;
  const auto define = [&](const char* name, void* address) {
    symbols[(*jit)->mangleAndIntern(name)] = {
        llvm::orc::ExecutorAddr::fromPtr(address),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  };
  for (const Replacement& replacement : kReplacements) {
    define(replacement.symbol, replacement.address);
  }
  for (const auto& [name, function] : kMatrixInstructions) {
    define(name, reinterpret_cast<void*>(function));
  }
  if (auto error = (*jit)->getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols))) {
    return failed(std::move(error), "define the emulator's symbols");
  }
  return std::move(*jit);
}

class HostKernel final : public EmulatedKernel {
 public:
  static Result<std::unique_ptr<EmulatedKernel>> create(GpuCode code) {
    auto kernel = std::make_unique<HostKernel>();
    PLIMSOLL_RETURN_IF_ERROR(kernel->compile(std::move(code)));
    return std::unique_ptr<EmulatedKernel>(std::move(kernel));
  }

  Status run(std::span<void* const> pointers, std::int64_t inputs, ThreadOrder order) override {
    for (const GpuLaunch& launch : launches_) {
      const auto input = static_cast<std::size_t>(launch.unless_input);
      const auto output = static_cast<std::size_t>(inputs + launch.unless_output);
      if (launch.unless_input >= 0 && pointers[input] == pointers[output]) continue;
      std::vector<void*> arguments;
      for (const int i : launch.arguments) arguments.push_back(pointers[at(i)]);
      PLIMSOLL_RETURN_IF_ERROR(
          this->launch(launch.entry, launch.grid, launch.block, arguments, order));
    }
    return ok_status();
  }

  Status launch(const std::string& entry, std::uint32_t grid, std::uint32_t block,
                std::span<void* const> arguments, ThreadOrder order) override {
    const auto launch = std::find_if(launches_.begin(), launches_.end(),
                                     [&](const GpuLaunch& l) { return l.entry == entry; });
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const bool is_report = launch != launches_.end() && i < launch->arguments.size() &&
                             launch->arguments[i] == report_;
      const std::int64_t alignment = is_report ? 4 : kGpuAlignment;
      if (reinterpret_cast<std::uintptr_t>(arguments[i]) % at(alignment) != 0) {
        return invalid_argument(entry + ": a pointer is no multiple of " +
                                std::to_string(alignment));
      }
    }
    const auto found = entries_.find(entry);
    if (found == entries_.end()) return invalid_argument("no entry '" + entry + "'");
    const auto& call = found->second;
    void* const* given = arguments.data();
    std::vector<std::uint32_t> threads(block);
    std::iota(threads.begin(), threads.end(), 0u);
    if (order.kind == ThreadOrder::Kind::backward) std::reverse(threads.begin(), threads.end());
    std::mt19937_64 random(order.seed);
    std::unique_ptr<BlockOfFibers> fibers;
    if (waits_) fibers = std::make_unique<BlockOfFibers>(block);
    AsyncCopies copies;
    const std::function<void(std::uint32_t)> body = [&](std::uint32_t thread) {
      running.thread = thread;
      call(given);
    };
    for (std::uint32_t b = 0; b < grid; ++b) {
      if (order.kind == ThreadOrder::Kind::shuffled)
        std::shuffle(threads.begin(), threads.end(), random);
      for (const SharedMemory& memory : shared_) {
        std::fill_n(memory.address, memory.bytes, kRubbish);
      }
      running = {order.kind == ThreadOrder::Kind::backward ? grid - 1 - b : b, 0, fibers.get(),
                 &copies};
      if (!waits_) {
        for (const std::uint32_t thread : threads) body(thread);
        continue;
      }
      const std::string problem = fibers->run(threads, body);
      if (!problem.empty()) {
        return internal_error(fmt::format("{}, block {}: {}", entry, running.block, problem));
      }
      const std::string left = copies.end();
      if (!left.empty()) {
        return internal_error(fmt::format("{}, block {}: {}", entry, running.block, left));
      }
    }
    return ok_status();
  }

  const std::vector<GpuLaunch>& launches() const override { return launches_; }
  std::int64_t workspace_bytes() const override { return workspace_bytes_; }

 private:
  using Caller = void (*)(void* const*);

  Status compile(GpuCode code) {
    launches_ = code.launches;
    workspace_bytes_ = code.workspace_bytes;
    report_ = code.report();
    PLIMSOLL_ASSIGN_OR_RETURN(jit_, make_jit());
    llvm::Module& module = *code.module;
    module.setDataLayout(jit_->getDataLayout());
    module.setTargetTriple(jit_->getTargetTriple().str());
    replace_conversions(module);
    const bool has_matrices = replace_matrix_instructions(module);
    PLIMSOLL_ASSIGN_OR_RETURN(waits_, replace_intrinsics(module));
    waits_ = waits_ || has_matrices;
    make_nans(module);
    for (llvm::GlobalVariable& global : module.globals()) {
      if (global.getAddressSpace() != kSharedSpace) continue;
      global.setLinkage(llvm::GlobalValue::ExternalLinkage);
      global.setInitializer(llvm::Constant::getNullValue(global.getValueType()));
      shared_.push_back({global.getName().str(),
                         static_cast<std::int64_t>(
                             module.getDataLayout().getTypeAllocSize(global.getValueType())),
                         nullptr});
    }
    for (const GpuLaunch& launch : launches_) {
      if (module.getFunction("call_" + launch.entry) == nullptr) add_caller(module, launch.entry);
    }
    std::string problem;
    llvm::raw_string_ostream stream(problem);
    if (llvm::verifyModule(module, &stream)) return internal_error("emulate: " + stream.str());
    if (auto error = jit_->addIRModule(
            llvm::orc::ThreadSafeModule(std::move(code.module), std::move(code.context)))) {
      return failed(std::move(error), "emulate");
    }
    for (const GpuLaunch& launch : launches_) {
      auto symbol = jit_->lookup("call_" + launch.entry);
      if (!symbol) return failed(symbol.takeError(), "emulate");
      entries_[launch.entry] = symbol->toPtr<Caller>();
    }
    for (SharedMemory& memory : shared_) {
      auto symbol = jit_->lookup(memory.symbol);
      if (!symbol) return failed(symbol.takeError(), "emulate");
      memory.address = symbol->toPtr<std::byte*>();
    }
    return ok_status();
  }

  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::vector<GpuLaunch> launches_;
  std::map<std::string, Caller> entries_;
  std::vector<SharedMemory> shared_;
  std::int64_t workspace_bytes_ = 0;
  int report_ = -1;  // the number of the word to report by
  bool waits_ = false;
};

}  // namespace

Result<std::unique_ptr<EmulatedKernel>> EmulatedKernel::create(const ir::Instruction& instruction,
                                                               GpuTarget target) {
  PLIMSOLL_ASSIGN_OR_RETURN(GpuCode code, write_gpu_code(instruction, target));
  return HostKernel::create(std::move(code));
}

Result<std::unique_ptr<EmulatedKernel>> EmulatedKernel::encoder(const ir::Codec& codec,
                                                                const ir::Shape& shape) {
  PLIMSOLL_ASSIGN_OR_RETURN(GpuCode code, write_gpu_encoder(codec, shape));
  return HostKernel::create(std::move(code));
}

Result<std::unique_ptr<EmulatedKernel>> EmulatedKernel::decoder(const ir::Codec& codec,
                                                                const ir::Shape& shape) {
  PLIMSOLL_ASSIGN_OR_RETURN(GpuCode code, write_gpu_decoder(codec, shape));
  return HostKernel::create(std::move(code));
}

Result<std::unique_ptr<EmulatedKernel>> EmulatedKernel::of_text(std::string_view text,
                                                                std::vector<GpuLaunch> launches) {
  GpuCode code;
  code.context = std::make_unique<llvm::LLVMContext>();
  llvm::SMDiagnostic problem;
  code.module =
      llvm::parseAssemblyString(llvm::StringRef(text.data(), text.size()), problem, *code.context);
  if (code.module == nullptr) return invalid_argument("emulate: " + problem.getMessage().str());
  code.launches = std::move(launches);
  return HostKernel::create(std::move(code));
}

}  // namespace plimsoll::jit::testing
