// SPDX-License-Identifier: Apache-2.0
// Our declarations of cuBLASLt's interface against the library's header, where this machine has it.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "runtime/device/cuda/libraries/cublaslt.h"

#ifdef PLIMSOLL_CUBLASLT_HEADER
#include <cublasLt.h>
#endif

namespace plimsoll::device::cuda {
namespace {

#ifdef PLIMSOLL_CUBLASLT_HEADER

// Same number of parameters, each passed the same way, and so is the result.
template <typename R, typename... Ours, typename S, typename... Theirs>
constexpr bool is_same_library_call(R (*)(Ours...), S (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
    return sizeof(R) == sizeof(S) && std::is_pointer_v<R> == std::is_pointer_v<S> &&
           ((sizeof(Ours) == sizeof(Theirs) &&
             std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>) &&
            ...);
  } else {
    return false;
  }
}

#define PLIMSOLL_CUBLASLT_CALL(result, member, symbol, parameters)               \
  static_assert(is_same_library_call(decltype(Cublaslt::member){},               \
                                     static_cast<decltype(&::symbol)>(nullptr)), \
                #symbol);
#include "runtime/device/cuda/libraries/cublaslt.def"
#undef PLIMSOLL_CUBLASLT_CALL

template <auto kOurs, auto kTheirs>
constexpr bool is_same_number = static_cast<long long>(kOurs) == static_cast<long long>(kTheirs);

static_assert(is_same_number<BlasResult::success, CUBLAS_STATUS_SUCCESS>);
static_assert(is_same_number<BlasResult::not_initialized, CUBLAS_STATUS_NOT_INITIALIZED>);
static_assert(is_same_number<BlasResult::alloc_failed, CUBLAS_STATUS_ALLOC_FAILED>);
static_assert(is_same_number<BlasResult::invalid_value, CUBLAS_STATUS_INVALID_VALUE>);
static_assert(is_same_number<BlasResult::arch_mismatch, CUBLAS_STATUS_ARCH_MISMATCH>);
static_assert(is_same_number<BlasResult::mapping_error, CUBLAS_STATUS_MAPPING_ERROR>);
static_assert(is_same_number<BlasResult::execution_failed, CUBLAS_STATUS_EXECUTION_FAILED>);
static_assert(is_same_number<BlasResult::internal_error, CUBLAS_STATUS_INTERNAL_ERROR>);
static_assert(is_same_number<BlasResult::not_supported, CUBLAS_STATUS_NOT_SUPPORTED>);
static_assert(is_same_number<BlasResult::license_error, CUBLAS_STATUS_LICENSE_ERROR>);

static_assert(is_same_number<BlasProperty::major_version, MAJOR_VERSION>);
static_assert(is_same_number<BlasProperty::minor_version, MINOR_VERSION>);
static_assert(is_same_number<BlasProperty::patch_level, PATCH_LEVEL>);

static_assert(is_same_number<BlasType::f32, CUDA_R_32F>);
static_assert(is_same_number<BlasType::f64, CUDA_R_64F>);
static_assert(is_same_number<BlasType::f16, CUDA_R_16F>);
static_assert(is_same_number<BlasType::s8, CUDA_R_8I>);
static_assert(is_same_number<BlasType::s32, CUDA_R_32I>);
static_assert(is_same_number<BlasType::bf16, CUDA_R_16BF>);

static_assert(is_same_number<BlasCompute::f32, CUBLAS_COMPUTE_32F>);
static_assert(is_same_number<BlasCompute::f64, CUBLAS_COMPUTE_64F>);
static_assert(is_same_number<BlasCompute::s32, CUBLAS_COMPUTE_32I>);
static_assert(is_same_number<BlasCompute::f32_by_tf32, CUBLAS_COMPUTE_32F_FAST_TF32>);

static_assert(is_same_number<BlasTranspose::none, CUBLAS_OP_N>);
static_assert(is_same_number<BlasTranspose::transposed, CUBLAS_OP_T>);
static_assert(is_same_number<BlasLayoutAttribute::batch_count, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT>);
static_assert(
    is_same_number<BlasLayoutAttribute::batch_stride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET>);
static_assert(is_same_number<BlasOperationAttribute::transpose_a, CUBLASLT_MATMUL_DESC_TRANSA>);
static_assert(is_same_number<BlasOperationAttribute::transpose_b, CUBLASLT_MATMUL_DESC_TRANSB>);

using Preference = BlasPreferenceAttribute;
static_assert(
    is_same_number<Preference::most_workspace_bytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES>);
static_assert(
    is_same_number<Preference::reduction_schemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK>);
static_assert(is_same_number<Preference::alignment_a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES>);
static_assert(is_same_number<Preference::alignment_b, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES>);
static_assert(is_same_number<Preference::alignment_c, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES>);
static_assert(is_same_number<Preference::alignment_d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES>);
static_assert(is_same_number<Preference::implementations, CUBLASLT_MATMUL_PREF_IMPL_MASK>);

static_assert(is_same_number<kBlasReductionInPlace, CUBLASLT_REDUCTION_SCHEME_INPLACE>);
static_assert(is_same_number<kBlasReductionInComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE>);
static_assert(is_same_number<kBlasReductionInResultType, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE>);
static_assert(is_same_number<kBlasImplementationAccumulatesF16,
                             CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F>);
static_assert(is_same_number<kBlasImplementationReadsF16, CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F>);
static_assert(
    is_same_number<kBlasImplementationReadsBf16, CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF>);
static_assert(
    is_same_number<kBlasImplementationReadsTf32, CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32>);

static_assert(sizeof(BlasAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(BlasChoice) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(BlasChoice, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(BlasChoice, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(BlasChoice, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

TEST(CublasltAbi, IsThatOfTheLibrarysHeader) {
  EXPECT_GE(CUBLAS_VER_MAJOR, 11) << "the functions of cublaslt.def are those of 11.4";
}

#else

TEST(CublasltAbi, IsThatOfTheLibrarysHeader) {
  GTEST_SKIP() << "this machine has no cublasLt.h to compare with";
}

#endif

}  // namespace
}  // namespace plimsoll::device::cuda
