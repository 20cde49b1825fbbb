// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/convolution_description.h"

#include <algorithm>
#include <array>
#include <vector>

namespace plimsoll::kernels::cuda {
namespace {

using device::cuda::Cudnn;
using device::cuda::DnnChoice;
using device::cuda::DnnFormat;
using device::cuda::DnnHandle;
using device::cuda::DnnMath;
using device::cuda::DnnMode;
using device::cuda::DnnResult;
using device::cuda::DnnTensor;
using device::cuda::DnnType;
using ir::DType;

// Of a dtype that read_convolution lets through.
DnnType type_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return DnnType::f16;
    case DType::bf16:
      return DnnType::bf16;
    default:
      return DnnType::f32;
  }
}

std::vector<int> ints(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

// It refuses some shapes as parameters that are wrong.
bool has_none(DnnResult result) {
  const int kind = static_cast<int>(result) / 1000;
  return kind == 2 || kind == 3;
}

bool adds_products(ConvolutionMode mode, int algorithm) {
  switch (mode) {
    case ConvolutionMode::forward:
      return algorithm == device::cuda::kDnnForwardImplicitGemm ||
             algorithm == device::cuda::kDnnForwardPrecomputedGemm ||
             algorithm == device::cuda::kDnnForwardGemm;
    case ConvolutionMode::input_gradient:
      return algorithm == device::cuda::kDnnBackwardData1;
    case ConvolutionMode::filter_gradient:
      break;
  }
  return algorithm == device::cuda::kDnnBackwardFilter1;
}

}  // namespace

Result<std::unique_ptr<const ConvolutionDescription>> ConvolutionDescription::create(
    const Cudnn& library, const ConvolutionShape& shape, bool allows_tf32) {
  std::unique_ptr<ConvolutionDescription> made(
      new ConvolutionDescription(library, shape, allows_tf32));
  PLIMSOLL_RETURN_IF_ERROR(made->open());
  return std::unique_ptr<const ConvolutionDescription>(std::move(made));
}

ConvolutionDescription::~ConvolutionDescription() {
  for (const DnnTensor tensor : {x_, y_}) {
    if (tensor != nullptr) (void)library_.tensor_destroy(tensor);
  }
  if (w_ != nullptr) (void)library_.filter_destroy(w_);
  if (convolution_ != nullptr) (void)library_.convolution_destroy(convolution_);
}

DnnMath ConvolutionDescription::math() const {
  if (shape_.dtype != DType::f32) return DnnMath::tensor_cores;
  return allows_tf32_ ? DnnMath::as_it_likes : DnnMath::no_tensor_cores;
}

Status ConvolutionDescription::open() {
  using device::cuda::call;
  const DnnType type = type_of(shape_.dtype);
  const auto tensor = [&](DnnTensor& made, std::int64_t channels,
                          const std::vector<std::int64_t>& places) -> Status {
    PLIMSOLL_RETURN_IF_ERROR(call(library_, &Cudnn::tensor_create, &made));
    std::vector<int> dims{static_cast<int>(shape_.batch), static_cast<int>(channels)};
    for (const std::int64_t size : places) dims.push_back(static_cast<int>(size));
    std::vector<int> strides(dims.size());
    int stride = shape_.is_channels_last ? dims[1] : 1;
    for (std::size_t i = dims.size(); i-- > 2;) {
      strides[i] = stride;
      stride *= dims[i];
    }
    strides[1] = shape_.is_channels_last ? 1 : stride;
    strides[0] = shape_.is_channels_last ? stride : stride * dims[1];
    return call(library_, &Cudnn::tensor_set, made, type, static_cast<int>(dims.size()),
                static_cast<const int*>(dims.data()), static_cast<const int*>(strides.data()));
  };
  PLIMSOLL_RETURN_IF_ERROR(tensor(x_, shape_.inputs, shape_.x));
  PLIMSOLL_RETURN_IF_ERROR(tensor(y_, shape_.outputs, shape_.y));
  PLIMSOLL_RETURN_IF_ERROR(call(library_, &Cudnn::filter_create, &w_));
  // In the order of dims that is the same for both formats.
  std::vector<int> filter{static_cast<int>(shape_.outputs),
                          static_cast<int>(shape_.inputs / shape_.groups)};
  for (const std::int64_t size : shape_.window) filter.push_back(static_cast<int>(size));
  PLIMSOLL_RETURN_IF_ERROR(
      call(library_, &Cudnn::filter_set, w_, type,
           shape_.is_channels_last ? DnnFormat::channels_last : DnnFormat::channels_first,
           static_cast<int>(filter.size()), static_cast<const int*>(filter.data())));
  PLIMSOLL_RETURN_IF_ERROR(call(library_, &Cudnn::convolution_create, &convolution_));
  const std::vector<int> padding = ints(shape_.padding), strides = ints(shape_.stride),
                         dilations = ints(shape_.dilation);
  PLIMSOLL_RETURN_IF_ERROR(
      call(library_, &Cudnn::convolution_set, convolution_, static_cast<int>(padding.size()),
           static_cast<const int*>(padding.data()), static_cast<const int*>(strides.data()),
           static_cast<const int*>(dilations.data()),
           shape_.is_flipped ? DnnMode::convolution : DnnMode::cross_correlation, DnnType::f32));
  PLIMSOLL_RETURN_IF_ERROR(call(library_, &Cudnn::convolution_set_math, convolution_, math()));
  return call(library_, &Cudnn::convolution_set_groups, convolution_,
              static_cast<int>(shape_.groups));
}

DnnResult ConvolutionDescription::candidates(DnnHandle handle, std::span<DnnChoice> choices,
                                             int* count) const {
  const int most = static_cast<int>(choices.size());
  switch (shape_.mode) {
    case ConvolutionMode::forward:
      return library_.choose_forward(handle, x_, w_, convolution_, y_, most, count, choices.data());
    case ConvolutionMode::input_gradient:
      return library_.choose_backward_data(handle, w_, y_, convolution_, x_, most, count,
                                           choices.data());
    case ConvolutionMode::filter_gradient:
      break;
  }
  return library_.choose_backward_filter(handle, x_, y_, convolution_, w_, most, count,
                                         choices.data());
}

DnnResult ConvolutionDescription::workspace(DnnHandle handle, int algorithm,
                                            std::size_t* bytes) const {
  switch (shape_.mode) {
    case ConvolutionMode::forward:
      return library_.forward_workspace(handle, x_, w_, convolution_, y_, algorithm, bytes);
    case ConvolutionMode::input_gradient:
      return library_.backward_data_workspace(handle, w_, y_, convolution_, x_, algorithm, bytes);
    case ConvolutionMode::filter_gradient:
      break;
  }
  return library_.backward_filter_workspace(handle, x_, y_, convolution_, w_, algorithm, bytes);
}

// The library proposes for its own idea of math; what it does by the math that was set, and the
// workspace for it, is asked for each.
Result<ConvolutionAlgorithm> ConvolutionDescription::choose(
    DnnHandle handle, std::int64_t most_workspace_bytes) const {
  std::array<DnnChoice, 16> choices;
  int count = 0;
  const DnnResult proposed = candidates(handle, choices, &count);
  if (has_none(proposed)) return unimplemented("cuDNN has no algorithm for it");
  if (proposed != DnnResult::success) {
    return device::cuda::failure(library_, proposed, "cudnnGetConvolution...Algorithm_v7");
  }
  for (const DnnChoice& choice : std::span(choices).first(static_cast<std::size_t>(count))) {
    if (choice.state != DnnResult::success ||
        choice.determinism != device::cuda::kDnnDeterministic ||
        !adds_products(shape_.mode, choice.algorithm)) {
      continue;
    }
    ConvolutionAlgorithm algorithm{choice.algorithm, 0};
    const DnnResult result = workspace(handle, algorithm.number, &algorithm.workspace_bytes);
    if (has_none(result)) continue;
    if (result != DnnResult::success) {
      return device::cuda::failure(library_, result, "cudnnGetConvolution...WorkspaceSize");
    }
    if (algorithm.workspace_bytes <= static_cast<std::size_t>(most_workspace_bytes)) {
      return algorithm;
    }
  }
  return unimplemented("cuDNN has no algorithm for it");
}

Status ConvolutionDescription::run(DnnHandle handle, const ConvolutionAlgorithm& algorithm,
                                   const void* x, const void* w, const void* y, void* result,
                                   void* workspace) const {
  using device::cuda::call;
  static constexpr float kOne = 1, kZero = 0;
  const void* const one = &kOne;
  const void* const zero = &kZero;
  switch (shape_.mode) {
    case ConvolutionMode::forward:
      return call(library_, &Cudnn::forward, handle, one, x_, x, w_, w, convolution_,
                  algorithm.number, workspace, algorithm.workspace_bytes, zero, y_, result);
    case ConvolutionMode::input_gradient:
      return call(library_, &Cudnn::backward_data, handle, one, w_, w, y_, y, convolution_,
                  algorithm.number, workspace, algorithm.workspace_bytes, zero, x_, result);
    case ConvolutionMode::filter_gradient:
      break;
  }
  return call(library_, &Cudnn::backward_filter, handle, one, x_, x, y_, y, convolution_,
              algorithm.number, workspace, algorithm.workspace_bytes, zero, w_, result);
}

}  // namespace plimsoll::kernels::cuda
