// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

#include <array>
#include <cstdint>

// What a warp does to small matrices that lie across the registers of its threads, as the PTX
// manual lays them out (mma.m16n8k16, ldmatrix.m8n8.x4).
namespace plimsoll::jit::testing {

// Of one thread: its parts of 16 by 16 and 16 by 8 numbers of 16 bits, of four sums, and of
// results.
struct MatrixProduct {
  std::array<std::uint32_t, 4> rows{};
  std::array<std::uint32_t, 2> columns{};
  std::array<float, 4> sums{};
  std::array<float, 4> results{};
};
// The place of one line of 16 bytes, and this thread's part of four matrices of 8 by 8.
struct MatrixLoad {
  const void* line = nullptr;
  std::array<std::uint32_t, 4> results{};
};

// Of the 32 threads of a warp. Sums are rounded once (a GPU's are close to that).
void multiply_bf16(void* const* products);
void multiply_f16(void* const* products);
void load_matrices(void* const* loads);
void load_transposed_matrices(void* const* loads);

// The intrinsics become calls `void emulated_...(ptr own)` of functions by the names of the four
// above (`emulated_multiply_bf16`); says whether there were any.
bool replace_matrix_instructions(llvm::Module& module);

}  // namespace plimsoll::jit::testing
