// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Types of cuDNN's C interface, declared anew, so that nothing of the library is needed to build.
// Layouts and numbers are those of cuDNN 9; tests/device/cuda/cudnn_abi_test.cc compares them with
// the library's header where there is one.
namespace plimsoll::device::cuda {

// cudnnStatus_t: a kind in thousands, and what of it. Every other number may come, too.
enum class DnnResult : int {
  success = 0,
  not_initialized = 1001,
  bad_parameter = 2000,
  not_supported = 3000,
  internal_error = 4000,
  host_allocation_failed = 4003,
  device_allocation_failed = 4004,
  execution_failed = 5000,
};

using DnnHandle = struct DnnObject*;                  // cudnnHandle_t
using DnnTensor = struct DnnTensorObject*;            // cudnnTensorDescriptor_t
using DnnFilter = struct DnnFilterObject*;            // cudnnFilterDescriptor_t
using DnnConvolution = struct DnnConvolutionObject*;  // cudnnConvolutionDescriptor_t

// cudnnDataType_t.
enum class DnnType : int { f32 = 0, f16 = 2, bf16 = 9 };

// cudnnTensorFormat_t, of filters: features, channels, then places; or channels innermost.
enum class DnnFormat : int { channels_first = 0, channels_last = 1 };

// cudnnConvolutionMode_t: whether the window is reversed.
enum class DnnMode : int { convolution = 0, cross_correlation = 1 };

// cudnnMathType_t.
enum class DnnMath : int {
  as_it_likes = 0,  // f32 may be taken for TF32
  tensor_cores = 1,
  tensor_cores_narrower = 2,  // f32 may be taken for less
  no_tensor_cores = 3,
};

// Of cudnnConvolutionFwdAlgo_t, cudnnConvolutionBwdDataAlgo_t and cudnnConvolutionBwdFilterAlgo_t,
// those that add the products of the operands, and no transforms of them.
inline constexpr int kDnnForwardImplicitGemm = 0;
inline constexpr int kDnnForwardPrecomputedGemm = 1;
inline constexpr int kDnnForwardGemm = 2;
inline constexpr int kDnnBackwardData1 = 1;
inline constexpr int kDnnBackwardFilter1 = 1;

// cudnnDeterminism_t.
inline constexpr int kDnnDeterministic = 1;

// cudnnConvolutionFwdAlgoPerf_t, and the same of the other two directions.
struct DnnChoice {
  int algorithm = 0;
  DnnResult state = DnnResult::not_supported;
  float seconds = 0;
  std::size_t workspace_bytes = 0;
  int determinism = 0;
  DnnMath math = DnnMath::as_it_likes;
  int reserved[3] = {};
};

}  // namespace plimsoll::device::cuda
