// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Types of cuBLASLt's C interface, declared anew, so that nothing of the library is needed to
// build. Layouts and numbers are the same from CUDA 11.4 on; tests/device/cuda/cublaslt_abi_test.cc
// compares them with the library's header where there is one.
namespace plimsoll::device::cuda {

// cublasStatus_t.
enum class BlasResult : int {
  success = 0,
  not_initialized = 1,
  alloc_failed = 3,
  invalid_value = 7,
  arch_mismatch = 8,
  mapping_error = 11,
  execution_failed = 13,
  internal_error = 14,
  not_supported = 15,
  license_error = 16,
};

using BlasHandle = struct BlasObject*;                // cublasLtHandle_t
using BlasOperation = struct BlasOperationObject*;    // cublasLtMatmulDesc_t
using BlasLayout = struct BlasLayoutObject*;          // cublasLtMatrixLayout_t
using BlasPreference = struct BlasPreferenceObject*;  // cublasLtMatmulPreference_t

// libraryPropertyType.
enum class BlasProperty : int { major_version = 0, minor_version = 1, patch_level = 2 };

// cudaDataType_t.
enum class BlasType : int { f32 = 0, f64 = 1, f16 = 2, s8 = 3, s32 = 10, bf16 = 14 };

// cublasComputeType_t: what products are added up in.
enum class BlasCompute : int { f32 = 68, f64 = 70, s32 = 72, f32_by_tf32 = 77 };

// cublasOperation_t.
enum class BlasTranspose : std::int32_t { none = 0, transposed = 1 };

// cublasLtMatrixLayoutAttribute_t.
enum class BlasLayoutAttribute : int {
  batch_count = 5,   // std::int32_t
  batch_stride = 6,  // std::int64_t, elements
};

// cublasLtMatmulDescAttributes_t.
enum class BlasOperationAttribute : int {
  transpose_a = 3,  // BlasTranspose
  transpose_b = 4,
};

// cublasLtMatmulPreferenceAttributes_t.
enum class BlasPreferenceAttribute : int {
  most_workspace_bytes = 1,  // std::uint64_t
  reduction_schemes = 3,     // std::uint32_t: which kBlasReduction... may be used
  alignment_a = 5,           // std::uint32_t, bytes
  alignment_b = 6,
  alignment_c = 7,
  alignment_d = 8,
  implementations = 12,  // std::uint64_t: which kBlasImplementation... may be used
};

// cublasLtReductionScheme_t: how parts of a sum that are computed side by side are added. Without
// any of them a sum is computed as a whole.
inline constexpr std::uint32_t kBlasReductionInPlace = 1;
inline constexpr std::uint32_t kBlasReductionInComputeType =
    2;  // in the workspace, one after the other
inline constexpr std::uint32_t kBlasReductionInResultType = 4;

// cublasLtNumericalImplFlags_t: what an algorithm adds up in, and what it takes its operands for.
inline constexpr std::uint64_t kBlasImplementationAccumulatesF16 = std::uint64_t{1} << 8;
inline constexpr std::uint64_t kBlasImplementationReadsF16 = std::uint64_t{1} << 16;
inline constexpr std::uint64_t kBlasImplementationReadsBf16 = std::uint64_t{2} << 16;
inline constexpr std::uint64_t kBlasImplementationReadsTf32 = std::uint64_t{4} << 16;

// cublasLtMatmulAlgo_t, which may be copied.
struct BlasAlgorithm {
  std::uint64_t data[8] = {};
};

// cublasLtMatmulHeuristicResult_t.
struct BlasChoice {
  BlasAlgorithm algorithm;
  std::size_t workspace_bytes = 0;
  BlasResult state = BlasResult::not_supported;
  float waves = 0;
  int reserved[4] = {};
};

}  // namespace plimsoll::device::cuda
