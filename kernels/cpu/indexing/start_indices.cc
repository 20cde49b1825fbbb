// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/indexing/start_indices.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/clones.h"

namespace plimsoll::kernels {
namespace {

// Stands for a window that is not wholly inside. Beyond the end of every operand as unsigned.
constexpr std::int64_t kOutside = -1;

std::uint64_t largest(ir::DType dtype) {
  const int bits = ir::dtype_bits(dtype);
  const bool is_signed = ir::dtype_class(dtype) == ir::DTypeClass::signed_int;
  return ~std::uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0));
}

// first, first + step, ... A plain loop that vectorizes, as the next is.
PLIMSOLL_CLONES void count_up(std::int64_t* to, std::int64_t count, std::int64_t first,
                              std::int64_t step) {
  for (std::int64_t i = 0; i < count; ++i, first += step) to[i] = first;
}

// Adds `stride` times the indices to `to`; whether all windows are inside.
template <typename T>
PLIMSOLL_CLONES bool add_indices(std::int64_t* to, const T* indices, std::int64_t count,
                                 std::uint64_t last_start, std::uint64_t stride) {
  using U = std::make_unsigned_t<T>;
  const U last = static_cast<U>(last_start);
  std::uint64_t any = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t outside = -static_cast<std::uint64_t>(static_cast<U>(indices[i]) > last);
    const std::uint64_t moved =
        static_cast<std::uint64_t>(to[i]) + static_cast<std::uint64_t>(indices[i]) * stride;
    to[i] = static_cast<std::int64_t>(moved | outside);
    any |= outside;
  }
  return any == 0;
}

}  // namespace

StartIndices::StartIndices(const ir::Shape& operand, const ir::Shape& indices,
                           const ir::ScatterDimensions& dimensions,
                           std::span<const std::int64_t> last_start,
                           std::span<const std::int64_t> update_strides)
    : dtype_(indices.dtype()), operand_count_(operand.element_count()) {
  const ir::Dims operand_strides = ir::row_major_strides(operand.dims());
  const ir::Dims strides = ir::row_major_strides(indices.dims());
  std::vector<BatchAxis> axes;
  for (int d = 0; d < indices.rank(); ++d) {
    if (d == dimensions.index_vector_dim) {
      vector_stride_ = strides[d];
      continue;
    }
    batch_count_ *= indices.dim(d);
    BatchAxis axis{indices.dim(d), strides[d], 0, update_strides[axes.size()]};
    for (std::size_t i = 0; i < dimensions.scatter_indices_batching_dims.size(); ++i) {
      if (dimensions.scatter_indices_batching_dims[i] == d)
        axis.operand_stride += operand_strides[static_cast<int>(dimensions.input_batching_dims[i])];
    }
    axes.push_back(axis);
  }
  const auto& batching = dimensions.input_batching_dims;
  for (const std::int64_t d : dimensions.scatter_dims_to_operand_dims) {
    if (std::find(batching.begin(), batching.end(), d) != batching.end()) {
      components_.push_back({~std::uint64_t{0}, 0});  // the batch position says where
      continue;
    }
    components_.push_back({std::min(static_cast<std::uint64_t>(last_start[at(d)]), largest(dtype_)),
                           static_cast<std::uint64_t>(operand_strides[static_cast<int>(d)])});
  }
  // Nothing is read where no window fits.
  if (std::any_of(last_start.begin(), last_start.end(), [](auto last) { return last < 0; }))
    batch_count_ = 0;

  for (const BatchAxis& axis : axes) {
    if (axis.size == 1) continue;
    const std::int64_t size = row_.size;
    if (size > 1 && row_.index_stride == axis.index_stride * axis.size &&
        row_.operand_stride == axis.operand_stride * axis.size &&
        row_.update_stride == axis.update_stride * axis.size) {
      row_ = axis;
      row_.size *= size;
      continue;
    }
    if (size > 1) outer_.push_back(row_);
    row_ = axis;
  }
}

void StartIndices::Reader::seek(std::int64_t batch) {
  batch_ = batch;
  if (at_end()) return;
  column_ = batch % starts_.row_.size;
  std::int64_t rest = batch / starts_.row_.size;
  row_index_ = row_to_ = row_from_ = 0;
  for (std::size_t a = starts_.outer_.size(); a-- > 0;) {
    const BatchAxis& axis = starts_.outer_[a];
    position_[a] = rest % axis.size;
    rest /= axis.size;
    row_index_ += position_[a] * axis.index_stride;
    row_to_ += position_[a] * axis.operand_stride;
    row_from_ += position_[a] * axis.update_stride;
  }
}

void StartIndices::Reader::advance(std::int64_t count) {
  batch_ += count;
  column_ += count;
  if (column_ < starts_.row_.size) return;
  column_ = 0;
  for (std::size_t a = starts_.outer_.size(); a-- > 0;) {
    const BatchAxis& axis = starts_.outer_[a];
    const bool wraps = ++position_[a] == axis.size;
    const std::int64_t steps = wraps ? 1 - axis.size : 1;
    row_index_ += steps * axis.index_stride;
    row_to_ += steps * axis.operand_stride;
    row_from_ += steps * axis.update_stride;
    if (!wraps) return;
    position_[a] = 0;
  }
}

WindowStarts StartIndices::Reader::next(std::int64_t most) {
  const std::int64_t read = ir::visit_dtype(starts_.dtype_, [&](auto zero) -> std::int64_t {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return read_rows<T>(most);
    } else {
      return 0;  // does not pass shape inference
    }
  });
  return {to_.data(), from_.data(), read};
}

template <typename T>
std::int64_t StartIndices::Reader::read_rows(std::int64_t most) {
  std::int64_t count = 0;
  bool all = whole_;
  while (count < most && !at_end()) {
    const std::int64_t more = std::min(most - count, starts_.row_.size - column_);
    switch (starts_.components_.size()) {
      case 1:
        all &= read_row<T, 1>(count, more);
        break;
      case 2:
        all &= read_row<T, 2>(count, more);
        break;
      default:
        all &= read_row<T, 0>(count, more);
    }
    advance(more);
    count += more;
  }
  return all ? count : keep(count);
}

// Whether all windows are inside. kComponents: how many there are, or 0 for any number.
template <typename T, int kComponents>
bool StartIndices::Reader::read_row(std::int64_t first, std::int64_t count) {
  const BatchAxis row = starts_.row_;
  const T* const vectors =
      static_cast<const T*>(indices_) + row_index_ + column_ * row.index_stride;
  std::int64_t* const to = to_.data() + first;
  std::int64_t* const from = from_.data() + first;
  const std::int64_t row_to = row_to_ + column_ * row.operand_stride;
  const std::int64_t row_from = row_from_ + column_ * row.update_stride;
  count_up(to, count, row_to, row.operand_stride);
  count_up(from, count, row_from, row.update_stride);
  const Component* const component = starts_.components_.data();
  if (kComponents == 1 && row.index_stride == 1) {
    return add_indices(to, vectors, count, component->last_start, component->operand_stride);
  }
  const std::size_t components = kComponents > 0 ? kComponents : starts_.components_.size();
  const std::int64_t vector_stride = starts_.vector_stride_;
  std::int64_t any = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    auto start = static_cast<std::uint64_t>(to[i]);
    bool inside = true;
    for (std::size_t c = 0; c < components; ++c) {
      const auto value = static_cast<std::uint64_t>(
          vectors[i * row.index_stride + static_cast<std::int64_t>(c) * vector_stride]);
      inside &= value <= component[c].last_start;
      start += value * component[c].operand_stride;
    }
    to[i] = inside ? static_cast<std::int64_t>(start) : kOutside;
    any |= to[i];
  }
  return any >= 0;
}

// Every window is written in any case, and kept if it counts, which spares a branch that data
// decide.
std::int64_t StartIndices::Reader::keep(std::int64_t count) {
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t to = to_[i];
    to_[kept] = to;
    from_[kept] = from_[i];
    kept += static_cast<std::uint64_t>(to) - low_ < extent_ ? 1 : 0;
  }
  return kept;
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
