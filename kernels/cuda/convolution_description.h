// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cuda/convolution_shape.h"
#include "runtime/base/status.h"
#include "runtime/device/cuda/libraries/cudnn.h"

namespace plimsoll::kernels::cuda {

// One of the numbers that the library knows its algorithms by, of the direction of a convolution.
struct ConvolutionAlgorithm {
  int number = 0;
  std::size_t workspace_bytes = 0;
};

// A convolution as cuDNN describes it.
class ConvolutionDescription {
 public:
  static Result<std::unique_ptr<const ConvolutionDescription>> create(
      const device::cuda::Cudnn& library, const ConvolutionShape& shape, bool allows_tf32);
  ~ConvolutionDescription();
  ConvolutionDescription(const ConvolutionDescription&) = delete;
  ConvolutionDescription& operator=(const ConvolutionDescription&) = delete;

  // The algorithm that the library takes for the fastest, of those that need at most so much
  // workspace, give the same bits in every run, add the products of the operands (no Winograd, no
  // Fourier transforms), and take no operand for less than it is. UNIMPLEMENTED where it has none.
  Result<ConvolutionAlgorithm> choose(device::cuda::DnnHandle handle,
                                      std::int64_t most_workspace_bytes) const;
  // Work of the stream that the handle has. Of x, w and y the one that the mode says is written.
  Status run(device::cuda::DnnHandle handle, const ConvolutionAlgorithm& algorithm, const void* x,
             const void* w, const void* y, void* result, void* workspace) const;

 private:
  ConvolutionDescription(const device::cuda::Cudnn& library, const ConvolutionShape& shape,
                         bool allows_tf32)
      : library_(library), shape_(shape), allows_tf32_(allows_tf32) {}
  Status open();
  device::cuda::DnnMath math() const;
  device::cuda::DnnResult candidates(device::cuda::DnnHandle handle,
                                     std::span<device::cuda::DnnChoice> choices, int* count) const;
  device::cuda::DnnResult workspace(device::cuda::DnnHandle handle, int algorithm,
                                    std::size_t* bytes) const;

  const device::cuda::Cudnn& library_;
  const ConvolutionShape shape_;
  const bool allows_tf32_;
  device::cuda::DnnTensor x_ = nullptr, y_ = nullptr;
  device::cuda::DnnFilter w_ = nullptr;
  device::cuda::DnnConvolution convolution_ = nullptr;
};

}  // namespace plimsoll::kernels::cuda
