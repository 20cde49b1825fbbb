// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/contraction/convolution_shape.h"
#include "kernels/cpu/kernel_base.h"
#include "kernels/cpu/products/packed_product.h"
#include "kernels/cpu/products/prepared_product.h"
#include "runtime/device/input_preparation.h"

namespace plimsoll::kernels {

// A forward convolution of f32 as the product of what the windows see (one row a position of the
// result) and the filters as they lie, which are read once, by all threads, where the library would
// first bring them into its own layout. For filters that are large beside the images; they may come
// prepared.
class PackedConvolution final : public KernelBase, public device::InputPreparation {
 public:
  // Whether it can be computed so: both kinds of channels lie together, and what the filters hold
  // for each output channel is a row or a column of one matrix.
  static bool takes(const LibraryConvolution& convolution);

  explicit PackedConvolution(LibraryConvolution convolution);

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override;

  const device::InputPreparation* input_preparation() const override { return this; }
  int prepared_input() const override { return 1; }
  std::int64_t prepared_bytes() const override;
  Status prepare(const void* plain, void* prepared) const override;
  std::shared_ptr<const device::Kernel> taking_prepared() const override;

 private:
  LibraryConvolution c_;
  MatrixStrides filters_;
  PackedProduct<float> product_;
  PreparedProduct<float> by_prepared_;
  bool takes_prepared_ = false;
  std::int64_t packed_;  // where the product's workspace begins
};

}  // namespace plimsoll::kernels
