// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cuda/product_shape.h"
#include "runtime/base/status.h"
#include "runtime/device/cuda/libraries/cublaslt.h"

namespace plimsoll::kernels::cuda {

// One call of a product as the library describes it, column by column: its matrix d, n x m, is the
// dense result, m x n row by row, transposed; so its a is rhs and its b is lhs.
class ProductDescription {
 public:
  static Result<std::unique_ptr<const ProductDescription>> create(
      const device::cuda::Cublaslt& library, const ProductShape& shape, bool allows_tf32);
  ~ProductDescription();
  ProductDescription(const ProductDescription&) = delete;
  ProductDescription& operator=(const ProductDescription&) = delete;

  device::cuda::BlasOperation operation() const { return operation_; }
  device::cuda::BlasLayout a() const { return a_; }
  device::cuda::BlasLayout b() const { return b_; }
  device::cuda::BlasLayout d() const { return d_; }
  // Factors 1 and 0 in the type that products are scaled in; on the host.
  const void* one() const { return one_; }
  const void* zero() const { return zero_; }

  // The algorithm that the library takes for the fastest, of those that need at most so much
  // workspace, whose order of adding is fixed, and that take no operand for less than it is.
  // UNIMPLEMENTED where it has none.
  Result<device::cuda::BlasChoice> choose(device::cuda::BlasHandle handle,
                                          std::int64_t most_workspace_bytes) const;

 private:
  ProductDescription(const device::cuda::Cublaslt& library, const ProductShape& shape,
                     bool allows_tf32)
      : library_(library), shape_(shape), allows_tf32_(allows_tf32) {}
  Status open();
  Status set_preference(device::cuda::BlasPreference preference, std::int64_t most_bytes) const;

  const device::cuda::Cublaslt& library_;
  const ProductShape shape_;
  const bool allows_tf32_;
  device::cuda::BlasOperation operation_ = nullptr;
  device::cuda::BlasLayout a_ = nullptr, b_ = nullptr, d_ = nullptr;
  const void* one_ = nullptr;
  const void* zero_ = nullptr;
};

}  // namespace plimsoll::kernels::cuda
