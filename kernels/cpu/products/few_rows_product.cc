// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/few_rows_product.h"

#include <algorithm>

#include "kernels/cpu/products/product_cuts.h"
#include "kernels/cpu/vector_loops.h"
#include "runtime/base/alignment.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

// Rows of a panel at most, and bytes of the sums of a row: with them and what is read side by side
// the first cache is full.
constexpr std::int64_t kMostRows = 12, kSumBytes = 2048;
// Bytes of the matrix that are worth a thread.
constexpr std::int64_t kWorthAThread = 1 << 18;
// Columns of a panel at most, panels of a task at least, and tasks, if these are no smaller then.
constexpr std::int64_t kMostPanel = 32, kPanelsOfTask = 4, kLeastTasks = 8;
// Where columns lie together: columns of a task, and numbers of each, and of every row, that are
// multiplied before those of other columns are.
constexpr std::int64_t kTaskColumns = 64, kRunDepth = 1024;
constexpr std::int64_t kMostDotDepth = 32;

}  // namespace

template <typename T>
FewRowsProduct<T>::FewRowsProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                                  const ProductLoops<T>& loops)
    : loops_(loops),
      m_(m),
      n_(n),
      k_(k),
      ordered_depth_(parts_of(k, std::max(kStepsAtOnce, loops.dot_depth)) *
                     std::max(kStepsAtOnce, loops.dot_depth)) {}

template <typename T>
std::int64_t FewRowsProduct<T>::workspace_bytes() const {
  return aligned_bytes(in_fours(m_) * ordered_depth_ * kNumberBytes<T>);
}

template <typename T>
void FewRowsProduct<T>::run(const T* lhs, MatrixStrides lhs_strides, const T* rhs,
                            MatrixStrides rhs_strides, const ProductResult<T>& out,
                            void* workspace) const {
  T* const rows = static_cast<T*>(workspace);
  const bool by_rows = rhs_strides.column == 1;
  if (by_rows) {
    MatrixRows<T>(lhs, lhs_strides, loops_).pack(0, m_, 0, k_, rows);
    std::fill(rows + in_fours(m_) * packed_depth<T>(k_), rows + in_fours(m_) * ordered_depth_, T{});
  } else {
    order_rows(lhs, lhs_strides, rows);
  }
  // Long runs of rows, but some tasks; no sum depends on that.
  const std::int64_t panel = loops_.columns;
  const std::int64_t most = kSumBytes / kNumberBytes<Sum> / panel * panel;
  const std::int64_t some =
      by_rows ? std::clamp(parts_of(n_, kLeastTasks * panel) * panel, kPanelsOfTask * panel, most)
              : kTaskColumns;
  device::parallel_for(
      parts_of(n_, some), std::max<std::int64_t>(1, kWorthAThread / (some * kNumberBytes<T> * k_)),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t j = begin * some; j < std::min(n_, end * some); j += some) {
          const std::int64_t columns = std::min(some, n_ - j);
          if (by_rows) {
            multiply_rows(rows, rhs, rhs_strides.row, j, columns, out);
          } else {
            multiply_columns(rows, rhs, rhs_strides.column, j, columns, out);
          }
        }
      });
}

// One after the other, with zeros behind each, and rows of zeros up to a multiple of four.
template <typename T>
void FewRowsProduct<T>::order_rows(const T* lhs, MatrixStrides strides, T* ordered) const {
  std::fill_n(ordered, in_fours(m_) * ordered_depth_, T{});
  for (std::int64_t i = 0; i < m_; ++i) {
    const T* const from = lhs + i * strides.row;
    T* const to = ordered + i * ordered_depth_;
    for (std::int64_t d = 0; d < k_; ++d) to[d] = from[d * strides.column];
  }
}

// Columns that are not a panel's, and the last steps of the depth, are copied beside zeros.
template <typename T>
void FewRowsProduct<T>::multiply_rows(const T* packed, const T* rhs, std::int64_t rhs_stride,
                                      std::int64_t j0, std::int64_t columns,
                                      const ProductResult<T>& out) const {
  // The last panel may be wider than what is left.
  constexpr std::int64_t kStride = kSumBytes / kNumberBytes<Sum> + kMostPanel;
  alignas(64) Sum sums[kMostRows * kStride];
  alignas(64) T some[kStepsAtOnce * kMostPanel];
  const std::int64_t rows = in_fours(m_), panel = loops_.columns;
  std::fill_n(sums, rows * kStride, Sum{});
  for (std::int64_t k0 = 0; k0 < k_; k0 += kStepsAtOnce) {
    const T* const a = packed + k0 * rows;
    const T* const from = rhs + k0 * rhs_stride + j0;
    const std::int64_t steps = std::min(kStepsAtOnce, k_ - k0);
    const std::int64_t whole = steps == kStepsAtOnce ? columns / panel * panel : 0;
    if (whole > 0) loops_.add_steps(a, m_, from, rhs_stride, whole, sums, kStride);
    for (std::int64_t j = whole; j < columns; j += panel) {
      std::fill_n(some, kStepsAtOnce * panel, T{});
      for (std::int64_t d = 0; d < steps; ++d) {
        std::copy_n(from + d * rhs_stride + j, std::min(panel, columns - j), some + d * panel);
      }
      loops_.add_steps(a, m_, some, panel, panel, sums + j, kStride);
    }
  }
  store(sums, kStride, j0, columns, out);
}

template <typename T>
void FewRowsProduct<T>::multiply_columns(const T* ordered, const T* rhs, std::int64_t rhs_stride,
                                         std::int64_t j0, std::int64_t columns,
                                         const ProductResult<T>& out) const {
  Sum sums[kMostRows * kTaskColumns] = {};
  for (std::int64_t k0 = 0; k0 < k_; k0 += kRunDepth) {
    const std::int64_t depth = std::min(kRunDepth, k_ - k0);
    std::int64_t j = 0;
    for (; j + kDotsAtOnce <= columns; j += kDotsAtOnce) {
      add_columns(ordered, rhs + (j0 + j) * rhs_stride, rhs_stride, k0, depth, sums + j);
    }
    if (j == columns) continue;
    // The last ones beside some that are there already.
    const std::int64_t before = kDotsAtOnce - (columns - j);
    Sum some[kMostRows * kTaskColumns] = {};
    add_columns(ordered, rhs + (j0 + j - before) * rhs_stride, rhs_stride, k0, depth, some);
    for (std::int64_t i = 0; i < m_; ++i) {
      for (std::int64_t q = j; q < columns; ++q) {
        sums[i * kTaskColumns + q] += some[i * kTaskColumns + q - j + before];
      }
    }
  }
  store(sums, kTaskColumns, j0, columns, out);
}

// kDotsAtOnce columns over a run of the depth; what is no whole vector of it is copied beside
// zeros.
template <typename T>
void FewRowsProduct<T>::add_columns(const T* ordered, const T* columns, std::int64_t stride,
                                    std::int64_t k0, std::int64_t depth, Sum* sums) const {
  const std::int64_t rows = in_fours(m_), whole = depth / loops_.dot_depth * loops_.dot_depth;
  if (whole > 0) {
    loops_.add_dots(ordered + k0, ordered_depth_, rows, columns + k0, stride, whole, sums,
                    kTaskColumns);
  }
  if (whole == depth) return;
  alignas(64) T rest[kDotsAtOnce * kMostDotDepth] = {};
  for (std::int64_t j = 0; j < kDotsAtOnce; ++j) {
    std::copy_n(columns + j * stride + k0 + whole, depth - whole, rest + j * loops_.dot_depth);
  }
  loops_.add_dots(ordered + k0 + whole, ordered_depth_, rows, rest, loops_.dot_depth,
                  loops_.dot_depth, sums, kTaskColumns);
}

template <typename T>
void FewRowsProduct<T>::store(const Sum* sums, std::int64_t sums_stride, std::int64_t j0,
                              std::int64_t columns, const ProductResult<T>& out) const {
  for (std::int64_t i = 0; i < m_; ++i) {
    const Sum* const of_row = sums + i * sums_stride;
    if constexpr (sizeof(T) < sizeof(Sum)) {
      if (out.narrowed != nullptr) {
        to_bf16(of_row, out.narrowed + i * out.stride + j0, columns);
        continue;
      }
    }
    std::copy_n(of_row, columns, out.sums + i * out.stride + j0);
  }
}

template class FewRowsProduct<float>;
template class FewRowsProduct<double>;
template class FewRowsProduct<std::uint32_t>;
template class FewRowsProduct<std::uint64_t>;
template class FewRowsProduct<Bfloat16>;

}  // namespace plimsoll::kernels
