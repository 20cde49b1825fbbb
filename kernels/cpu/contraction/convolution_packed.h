// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/contraction/convolution_shape.h"
#include "kernels/cpu/kernel_base.h"
#include "kernels/cpu/products/packed_product.h"

namespace plimsoll::kernels {

// A forward convolution of f32 as the product of what the windows see (one row a position of the
// result) and the filters as they lie, which are read once, by all threads, where the library would
// first bring them into its own layout. For filters that are large beside the images.
class PackedConvolution final : public KernelBase {
 public:
  // Whether it can be computed so: both kinds of channels lie together, and what the filters hold
  // for each output channel is a row or a column of one matrix.
  static bool takes(const LibraryConvolution& convolution);

  explicit PackedConvolution(LibraryConvolution convolution);

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override;

 private:
  LibraryConvolution c_;
  MatrixStrides filters_;
  PackedProduct product_;
  std::int64_t packed_;  // where the product's workspace begins
};

}  // namespace plimsoll::kernels
