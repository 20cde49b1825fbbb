// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/indexing/start_indices.h"

#include <limits>
#include <type_traits>

namespace plimsoll::kernels {

StartIndices::StartIndices(const ir::Shape& indices, std::int64_t vector_dim,
                           std::span<const std::int64_t> vector_to_operand,
                           std::span<const std::int64_t> operand_batching,
                           std::span<const std::int64_t> indices_batching)
    : dtype_(indices.dtype()) {
  const ir::Dims strides = ir::row_major_strides(indices.dims());
  for (int d = 0; d < indices.rank(); ++d) {
    if (d == vector_dim) {
      vector_stride_ = strides[d];
      continue;
    }
    batch_dims_.push_back(indices.dim(d));
    batch_strides_.push_back(strides[d]);
    batch_count_ *= indices.dim(d);
  }
  for (const std::int64_t d : vector_to_operand) components_.push_back(static_cast<int>(d));
  for (std::size_t i = 0; i < operand_batching.size(); ++i) {
    const std::int64_t from = indices_batching[i];
    batching_.push_back({static_cast<int>(operand_batching[i]),
                         static_cast<std::size_t>(from > vector_dim ? from - 1 : from)});
  }
}

void StartIndices::read(const void* indices, std::int64_t batch, ir::Dims& start) const {
  std::int64_t offset = 0, rest = batch;
  std::int64_t position[ir::kMaxRank];
  for (std::size_t d = batch_dims_.size(); d-- > 0;) {
    position[d] = rest % batch_dims_[d];
    rest /= batch_dims_[d];
    offset += position[d] * batch_strides_[d];
  }
  ir::visit_dtype(dtype_, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      const T* values = static_cast<const T*>(indices) + offset;
      for (std::size_t i = 0; i < components_.size(); ++i) {
        const T value = values[static_cast<std::int64_t>(i) * vector_stride_];
        constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
        const bool beyond = std::is_same_v<T, std::uint64_t> &&
                            static_cast<std::uint64_t>(value) > static_cast<std::uint64_t>(kMost);
        start[components_[i]] = beyond ? kMost : static_cast<std::int64_t>(value);
      }
    }
  });
  for (const Batching& b : batching_) start[b.operand_dim] = position[b.batch_dim];
}

std::vector<WindowAxis> merge_axes(std::vector<WindowAxis> axes) {
  std::vector<WindowAxis> merged;
  for (const WindowAxis& axis : axes) {
    if (axis.size == 1) continue;
    if (!merged.empty()) {
      WindowAxis& last = merged.back();
      if (last.operand_stride == axis.operand_stride * axis.size &&
          last.other_stride == axis.other_stride * axis.size) {
        last = {last.size * axis.size, axis.operand_stride, axis.other_stride};
        continue;
      }
    }
    merged.push_back(axis);
  }
  return merged;
}

}  // namespace plimsoll::kernels
