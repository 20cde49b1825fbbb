// SPDX-License-Identifier: Apache-2.0
#include "tests/jit/gpu/matrix_instructions.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/base/float16.h"
#include "runtime/base/index.h"

namespace plimsoll::jit::testing {
namespace {

constexpr std::size_t kLanes = 32;

template <typename Number>
void multiply(void* const* products) {
  const auto part = [&](std::size_t lane) -> MatrixProduct& {
    return *static_cast<MatrixProduct*>(products[lane]);
  };
  const auto half = [&](std::uint32_t word, std::size_t which) {
    Number number;
    number.bits = static_cast<std::uint16_t>(word >> (16 * which));
    return static_cast<double>(static_cast<float>(number));
  };
  // Four neighbouring threads have a row of the first and a column of the second matrix; words are
  // pairs of neighbouring positions.
  const auto left = [&](std::size_t row, std::size_t k) {
    return half(part(row % 8 * 4 + k % 8 / 2).rows[row / 8 + k / 8 * 2], k % 2);
  };
  const auto right = [&](std::size_t column, std::size_t k) {
    return half(part(column * 4 + k % 8 / 2).columns[k / 8], k % 2);
  };
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      MatrixProduct& own = part(row % 8 * 4 + column / 2);
      const std::size_t which = row / 8 * 2 + column % 2;
      double sum = own.sums[which];
      for (std::size_t k = 0; k < 16; ++k) sum += left(row, k) * right(column, k);
      own.results[which] =
          std::isnan(sum) ? std::bit_cast<float>(0x7fffffffU) : static_cast<float>(sum);
    }
  }
}

template <typename F>
void load(void* const* loads, F bytes_of) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    auto& own = *static_cast<MatrixLoad*>(loads[lane]);
    for (std::size_t matrix = 0; matrix < 4; ++matrix) {
      std::uint32_t word = 0;
      for (std::size_t which = 0; which < 2; ++which) {
        const auto [line, place] = bytes_of(lane, which);
        const auto* from = static_cast<const char*>(
            static_cast<const MatrixLoad*>(loads[matrix * 8 + line])->line);
        std::uint16_t number = 0;
        std::memcpy(&number, from + 2 * place, sizeof(number));
        word |= std::uint32_t{number} << (16 * which);
      }
      own.results[matrix] = word;
    }
  }
}

struct Form {
  const char* function;
  bool is_load;
};

const Form* form_of(const llvm::IntrinsicInst& call) {
  static constexpr Form kForms[] = {{"emulated_multiply_bf16", false},
                                    {"emulated_multiply_f16", false},
                                    {"emulated_load_matrices", true},
                                    {"emulated_load_transposed_matrices", true}};
  switch (call.getIntrinsicID()) {
    case llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16:
      return &kForms[0];
    case llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32:
      return &kForms[1];
    case llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16:
      return &kForms[2];
    case llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16:
      return &kForms[3];
    default:
      return nullptr;
  }
}

}  // namespace

void multiply_bf16(void* const* products) { multiply<Bfloat16>(products); }
void multiply_f16(void* const* products) { multiply<Float16>(products); }
void load_matrices(void* const* loads) {
  load(loads, [](std::size_t lane, std::size_t which) {
    return std::pair{lane / 4, lane % 4 * 2 + which};
  });
}
void load_transposed_matrices(void* const* loads) {
  load(loads, [](std::size_t lane, std::size_t which) {
    return std::pair{lane % 4 * 2 + which, lane / 4};
  });
}

bool replace_matrix_instructions(llvm::Module& module) {
  std::vector<llvm::IntrinsicInst*> calls;
  for (llvm::Function& function : module) {
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
      auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
      if (call != nullptr && form_of(*call) != nullptr) calls.push_back(call);
    }
  }
  llvm::DenseMap<llvm::Function*, llvm::Value*> memory;
  for (llvm::IntrinsicInst* call : calls) {
    const Form& form = *form_of(*call);
    llvm::Function* function = call->getFunction();
    llvm::Value*& own = memory[function];
    if (own == nullptr) {
      llvm::IRBuilder<> start(&function->getEntryBlock(), function->getEntryBlock().begin());
      auto* room = start.CreateAlloca(
          llvm::ArrayType::get(start.getInt8Ty(), sizeof(MatrixProduct) + sizeof(MatrixLoad)));
      room->setAlignment(llvm::Align(16));
      own = room;
    }
    llvm::IRBuilder<> b(call);
    const auto place = [&](std::size_t offset) {
      return b.CreateConstGEP1_64(b.getInt8Ty(), own, offset);
    };
    std::size_t offset = 0;
    for (llvm::Value* argument : call->args()) {
      if (form.is_load) argument = b.CreateAddrSpaceCast(argument, b.getPtrTy());
      b.CreateStore(argument, place(offset));
      offset += form.is_load ? sizeof(void*) : 4;
    }
    b.CreateCall(module.getOrInsertFunction(
                     form.function, llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false)),
                 {own});
    llvm::Value* result = llvm::PoisonValue::get(call->getType());
    for (unsigned i = 0; i < 4; ++i) {
      llvm::Type* type = llvm::cast<llvm::StructType>(call->getType())->getElementType(i);
      result = b.CreateInsertValue(result, b.CreateLoad(type, place(offset + 4 * i)), i);
    }
    call->replaceAllUsesWith(result);
    call->eraseFromParent();
  }
  return !calls.empty();
}

}  // namespace plimsoll::jit::testing
