// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu/gpu_entry.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>

#include "jit/emit/elementwise.h"
#include "jit/graph/reduction_shape.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using llvm::Value;

constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;

// A constant of many elements as memory of the module.
Value* table_of(llvm::Module& module, const ir::Instruction& constant) {
  const std::string name = "constant_" + std::to_string(module.global_size());
  const auto bytes = constant.attributes().literal->bytes();
  auto* data = llvm::ConstantDataArray::getRaw(
      llvm::StringRef(reinterpret_cast<const char*>(bytes.data()), bytes.size()), bytes.size(),
      llvm::Type::getInt8Ty(module.getContext()));
  auto* global = new llvm::GlobalVariable(module, data->getType(), true,
                                          llvm::GlobalValue::InternalLinkage, data, name, nullptr,
                                          llvm::GlobalValue::NotThreadLocal, kGlobalSpace);
  global->setAlignment(llvm::Align(kGpuAlignment));
  return llvm::ConstantExpr::getAddrSpaceCast(global,
                                              llvm::PointerType::get(module.getContext(), 0));
}

}  // namespace

bool GpuWriter::narrow() const {
  // What runs past an array does so by less than this.
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - (1 << 20);
  const auto fits = [](const ir::Shape& shape) {
    const auto leaves = ir::leaves(shape);
    return std::all_of(leaves.begin(), leaves.end(),
                       [](const ir::Shape* leaf) { return leaf->element_count() < kMost; });
  };
  const auto has_narrow_result = [&](const ir::Instruction* i) { return fits(i->shape()); };
  return has_narrow_result(&instruction) &&
         std::all_of(instruction.operands().begin(), instruction.operands().end(),
                     has_narrow_result) &&
         (graph == nullptr || std::all_of(graph->instructions().begin(),
                                          graph->instructions().end(), has_narrow_result));
}

GpuEntry::GpuEntry(GpuWriter& writer, std::uint32_t block)
    : writer_(writer),
      b_(writer.code.module->getContext()),
      block_(block),
      index_type_(writer.narrow() ? b_.getInt32Ty() : b_.getInt64Ty()) {
  const std::string name = "kernel_" + std::to_string(writer.code.launches.size());
  function_ = PhaseFunction::create_entry(*writer.code.module, name, b_,
                                          static_cast<int>(writer.inputs.size()),
                                          static_cast<int>(writer.outputs.size()));
  llvm::IRBuilder<> entry(function_.entry_anchor);
  const auto in_workspace = [&](std::int64_t offset) {
    return entry.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), function_.workspace,
                                            static_cast<std::uint64_t>(offset));
  };
  for (std::size_t i = 0; i < writer.outputs.size(); ++i) {
    if (writer.outputs[i] >= 0) continue;
    function_.bind_output(static_cast<int>(i), in_workspace(writer.aside[i]));
  }
  if (writer.workspace_begin > 0) function_.workspace = in_workspace(writer.workspace_begin);
  if (writer.graph == nullptr) return;
  for (std::size_t i = 0; i < writer.graph->tables().size(); ++i) {
    function_.bind_input(static_cast<int>(writer.inputs.size() + i),
                         table_of(*writer.code.module, *writer.graph->tables()[i]));
  }
}

llvm::ConstantInt* GpuEntry::number(std::int64_t n) const {
  return llvm::ConstantInt::getSigned(index_type_, n);
}

// Its range lets addresses be a sum and an offset, which an access holds.
Value* GpuEntry::thread_in_block() {
  llvm::CallInst* number = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
  number->setMetadata(
      llvm::LLVMContext::MD_range,
      llvm::MDBuilder(b_.getContext()).createRange(llvm::APInt(32, 0), llvm::APInt(32, block_)));
  return number;
}

Value* GpuEntry::block_in_grid() {
  Value* block = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {});
  return b_.CreateIntCast(block, index_type_, false);
}

Value* GpuEntry::thread() {
  return b_.CreateAdd(b_.CreateMul(block_in_grid(), number(block_)),
                      b_.CreateIntCast(thread_in_block(), index_type_, false));
}

Value* GpuEntry::split(Value** x, std::int64_t count) {
  if (count == 1) return number(0);
  Value* low = b_.CreateURem(*x, number(count));
  *x = b_.CreateUDiv(*x, number(count));
  return low;
}

llvm::Instruction* GpuEntry::open_place() {
  auto* next = llvm::BasicBlock::Create(b_.getContext(), "place", function_.function);
  llvm::Instruction* anchor = b_.CreateBr(next);
  b_.SetInsertPoint(next);
  return anchor;
}

// Registers move 32 bits at a time.
Value* GpuEntry::shuffle(Value* value, Value* operand, int group, bool above) {
  llvm::Type* type = value->getType();
  const unsigned bits = type->getScalarSizeInBits();
  Value* whole = b_.CreateBitCast(value, b_.getIntNTy(bits));
  const auto id =
      above ? llvm::Intrinsic::nvvm_shfl_sync_down_i32 : llvm::Intrinsic::nvvm_shfl_sync_idx_i32;
  // The upper bits say which bits of the lane's number stay, the lower ones the last lane.
  const auto limits = static_cast<std::uint32_t>(((kWarp - group) << 8) | (kWarp - 1));
  const auto move = [&](Value* word) {
    return b_.CreateIntrinsic(id, {},
                              {b_.getInt32(0xffffffff), word, operand, b_.getInt32(limits)});
  };
  Value* moved = nullptr;
  if (bits <= 32) {
    moved = b_.CreateTrunc(move(b_.CreateZExt(whole, b_.getInt32Ty())), whole->getType());
  } else {
    Value* low = move(b_.CreateTrunc(whole, b_.getInt32Ty()));
    Value* high = move(b_.CreateTrunc(b_.CreateLShr(whole, 32), b_.getInt32Ty()));
    moved = b_.CreateOr(b_.CreateZExt(low, whole->getType()),
                        b_.CreateShl(b_.CreateZExt(high, whole->getType()), 32));
  }
  return b_.CreateBitCast(moved, type);
}

Value* GpuEntry::from_lane_above(Value* value, int offset, int group) {
  return shuffle(value, b_.getInt32(static_cast<std::uint32_t>(offset)), group, true);
}

Value* GpuEntry::from_lane(Value* value, Value* lane, int group) {
  return shuffle(value, lane, group, false);
}

void GpuEntry::barrier() { b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {}); }

void GpuEntry::warp_barrier() {
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_bar_warp_sync, {}, {b_.getInt32(0xffffffff)});
}

Value* GpuEntry::share(llvm::Type* element, std::int64_t count) {
  llvm::Module& module = *writer_.code.module;
  auto* type = llvm::ArrayType::get(element, static_cast<std::uint64_t>(count));
  auto* memory = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage,
                                          llvm::UndefValue::get(type),
                                          "shared_" + std::to_string(module.global_size()), nullptr,
                                          llvm::GlobalValue::NotThreadLocal, kSharedSpace);
  memory->setAlignment(llvm::Align(kGpuAlignment));
  return memory;
}

Value* GpuEntry::load_element(Value* base, ir::DType dtype, Value* place) {
  llvm::Type* type = memory_type(b_.getContext(), dtype, 1);
  return to_register(b_, b_.CreateLoad(type, b_.CreateInBoundsGEP(type, base, place)), dtype);
}

void GpuEntry::store_element(Value* base, ir::DType dtype, Value* place, Value* value) {
  llvm::Type* type = memory_type(b_.getContext(), dtype, 1);
  b_.CreateStore(to_memory(b_, value, dtype), b_.CreateInBoundsGEP(type, base, place));
}

GpuLaunch& GpuEntry::launch(std::int64_t threads) {
  b_.CreateRetVoid();
  llvm::LLVMContext& context = b_.getContext();
  const auto mark = [&](const char* what, std::uint32_t value) {
    writer_.code.module->getOrInsertNamedMetadata("nvvm.annotations")
        ->addOperand(llvm::MDNode::get(
            context,
            {llvm::ConstantAsMetadata::get(function_.function), llvm::MDString::get(context, what),
             llvm::ConstantAsMetadata::get(b_.getInt32(value))}));
  };
  mark("kernel", 1);
  mark("maxntidx", block_);
  if (resident_ > 0) mark("minctasm", resident_);
  GpuLaunch launch;
  launch.entry = function_.function->getName().str();
  launch.block = block_;
  launch.grid = static_cast<std::uint32_t>(divide_up(std::max<std::int64_t>(threads, 1), block_));
  launch.arguments = writer_.inputs;
  const int inputs = static_cast<int>(writer_.code.inputs);
  const int workspace = inputs + static_cast<int>(writer_.code.outputs);
  for (const int output : writer_.outputs) {
    launch.arguments.push_back(output >= 0 ? inputs + output : workspace);
  }
  launch.arguments.push_back(workspace);
  writer_.code.launches.push_back(std::move(launch));
  return writer_.code.launches.back();
}

}  // namespace plimsoll::jit
