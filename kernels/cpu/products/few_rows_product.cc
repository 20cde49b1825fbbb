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
// Columns of a panel at most.
constexpr std::int64_t kMostPanel = 32;

}  // namespace

template <typename T>
FewRowsProduct<T>::FewRowsProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                                  const ProductLoops<T>& loops)
    : loops_(loops), m_(m), n_(n), k_(k) {}

template <typename T>
std::int64_t FewRowsProduct<T>::workspace_bytes() const {
  return aligned_bytes(in_fours(m_) * parts_of(k_, kStepsAtOnce) * kStepsAtOnce * kNumberBytes<T>);
}

template <typename T>
void FewRowsProduct<T>::run(const ProductRows<T>& lhs, const T* rhs, std::int64_t rhs_stride,
                            const ProductResult<T>& out, void* workspace) const {
  T* const packed = static_cast<T*>(workspace);
  lhs.pack(0, m_, 0, k_, packed);
  std::fill(packed + in_fours(m_) * packed_depth<T>(k_),
            packed + in_fours(m_) * parts_of(k_, kStepsAtOnce) * kStepsAtOnce, T{});
  constexpr std::int64_t kColumns = kSumBytes / kNumberBytes<Sum>;
  device::parallel_for(
      parts_of(n_, kColumns),
      std::max<std::int64_t>(1, kWorthAThread / (kColumns * kNumberBytes<T> * k_)),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t j = begin * kColumns; j < std::min(n_, end * kColumns); j += kColumns) {
          multiply_columns(packed, rhs, rhs_stride, j, std::min(kColumns, n_ - j), out);
        }
      });
}

// Columns that are not a panel's, and the last steps of the depth, are copied beside zeros.
template <typename T>
void FewRowsProduct<T>::multiply_columns(const T* packed, const T* rhs, std::int64_t rhs_stride,
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
  for (std::int64_t i = 0; i < m_; ++i) {
    const Sum* const of_row = sums + i * kStride;
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
