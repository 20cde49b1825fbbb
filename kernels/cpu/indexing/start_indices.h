// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/ir/shape.h"

namespace plimsoll::kernels {

// The index vectors of a scatter: one per batch position of the indices, numbered
// row-major over the dims of the indices without the vector dim.
class StartIndices {
 public:
  // `vector_to_operand` is scatter_dims_to_operand_dims.
  StartIndices(const ir::Shape& indices, std::int64_t vector_dim,
               std::span<const std::int64_t> vector_to_operand,
               std::span<const std::int64_t> operand_batching,
               std::span<const std::int64_t> indices_batching);

  // Sizes of the batch dims.
  const std::vector<std::int64_t>& batch_dims() const { return batch_dims_; }
  std::int64_t batch_count() const { return batch_count_; }

  // Writes the start of batch position `batch` in the operand's dims, which must be zero before
  // for those dims that no index names.
  void read(const void* indices, std::int64_t batch, ir::Dims& start) const;

 private:
  ir::DType dtype_;
  std::vector<std::int64_t> batch_dims_, batch_strides_;
  std::int64_t batch_count_ = 1;
  std::int64_t vector_stride_ = 0;
  std::vector<int> components_;
  struct Batching {
    int operand_dim;
    std::size_t batch_dim;
  };
  std::vector<Batching> batching_;
};

// One dimension of a window as it is walked: its size and what a step moves in both arrays.
struct WindowAxis {
  std::int64_t size, operand_stride, other_stride;
};

// Drops axes of size 1 and joins neighbours that are walked as one, major to minor.
std::vector<WindowAxis> merge_axes(std::vector<WindowAxis> axes);

}  // namespace plimsoll::kernels
