// SPDX-License-Identifier: Apache-2.0
// Our declarations of cuDNN's interface against the library's header, where this machine has it.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "runtime/device/cuda/libraries/cudnn.h"

#ifdef PLIMSOLL_CUDNN_HEADER
#define NO_CUDNN_DEPRECATED_API_WARNINGS
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cudnn.h>
#endif

namespace plimsoll::device::cuda {
namespace {

#if defined(PLIMSOLL_CUDNN_HEADER) && CUDNN_MAJOR == 9

// Same number of parameters, each passed the same way, and so is the result.
template <typename R, typename... Ours, typename S, typename... Theirs>
constexpr bool is_same_dnn_call(R (*)(Ours...), S (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
    return sizeof(R) == sizeof(S) && std::is_pointer_v<R> == std::is_pointer_v<S> &&
           ((sizeof(Ours) == sizeof(Theirs) &&
             std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>) &&
            ...);
  } else {
    return false;
  }
}

#define PLIMSOLL_CUDNN_CALL(result, member, symbol, parameters)                               \
  static_assert(                                                                              \
      is_same_dnn_call(decltype(Cudnn::member){}, static_cast<decltype(&::symbol)>(nullptr)), \
      #symbol);
#include "runtime/device/cuda/libraries/cudnn.def"
#undef PLIMSOLL_CUDNN_CALL

template <auto kOurs, auto kTheirs>
constexpr bool is_same_value = static_cast<long long>(kOurs) == static_cast<long long>(kTheirs);

static_assert(is_same_value<DnnResult::success, CUDNN_STATUS_SUCCESS>);
static_assert(is_same_value<DnnResult::not_initialized, CUDNN_STATUS_NOT_INITIALIZED>);
static_assert(is_same_value<DnnResult::bad_parameter, CUDNN_STATUS_BAD_PARAM>);
static_assert(is_same_value<DnnResult::not_supported, CUDNN_STATUS_NOT_SUPPORTED>);
static_assert(is_same_value<DnnResult::internal_error, CUDNN_STATUS_INTERNAL_ERROR>);
static_assert(is_same_value<DnnResult::host_allocation_failed,
                            CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED>);
static_assert(is_same_value<DnnResult::device_allocation_failed,
                            CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED>);
static_assert(is_same_value<DnnResult::execution_failed, CUDNN_STATUS_EXECUTION_FAILED>);

static_assert(is_same_value<DnnType::f32, CUDNN_DATA_FLOAT>);
static_assert(is_same_value<DnnType::f16, CUDNN_DATA_HALF>);
static_assert(is_same_value<DnnType::bf16, CUDNN_DATA_BFLOAT16>);
static_assert(is_same_value<DnnFormat::channels_first, CUDNN_TENSOR_NCHW>);
static_assert(is_same_value<DnnFormat::channels_last, CUDNN_TENSOR_NHWC>);
static_assert(is_same_value<DnnMode::convolution, CUDNN_CONVOLUTION>);
static_assert(is_same_value<DnnMode::cross_correlation, CUDNN_CROSS_CORRELATION>);
static_assert(is_same_value<DnnMath::as_it_likes, CUDNN_DEFAULT_MATH>);
static_assert(is_same_value<DnnMath::tensor_cores, CUDNN_TENSOR_OP_MATH>);
static_assert(is_same_value<DnnMath::tensor_cores_narrower, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION>);
static_assert(is_same_value<DnnMath::no_tensor_cores, CUDNN_FMA_MATH>);
static_assert(is_same_value<kDnnForwardImplicitGemm, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM>);
static_assert(
    is_same_value<kDnnForwardPrecomputedGemm, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM>);
static_assert(is_same_value<kDnnForwardGemm, CUDNN_CONVOLUTION_FWD_ALGO_GEMM>);
static_assert(is_same_value<kDnnBackwardData1, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1>);
static_assert(is_same_value<kDnnBackwardFilter1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1>);
static_assert(is_same_value<kDnnDeterministic, CUDNN_DETERMINISTIC>);

template <typename Theirs>
constexpr bool is_choice() {
  return sizeof(DnnChoice) == sizeof(Theirs) &&
         offsetof(DnnChoice, algorithm) == offsetof(Theirs, algo) &&
         offsetof(DnnChoice, state) == offsetof(Theirs, status) &&
         offsetof(DnnChoice, workspace_bytes) == offsetof(Theirs, memory) &&
         offsetof(DnnChoice, determinism) == offsetof(Theirs, determinism) &&
         offsetof(DnnChoice, math) == offsetof(Theirs, mathType);
}
static_assert(is_choice<cudnnConvolutionFwdAlgoPerf_t>());
static_assert(is_choice<cudnnConvolutionBwdDataAlgoPerf_t>());
static_assert(is_choice<cudnnConvolutionBwdFilterAlgoPerf_t>());

TEST(CudnnAbi, IsThatOfTheLibrarysHeader) { EXPECT_EQ(CUDNN_MAJOR, 9); }

#else

TEST(CudnnAbi, IsThatOfTheLibrarysHeader) {
  GTEST_SKIP() << "this machine has no cudnn.h of cuDNN 9 to compare with";
}

#endif

}  // namespace
}  // namespace plimsoll::device::cuda

#ifdef PLIMSOLL_CUDNN_HEADER
#pragma GCC diagnostic pop
#endif
