// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/linalg/triangular.h"

#include <complex>
#include <cstring>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/linalg/lapack.h"

// The loops are written once over vectors of a cache line, which are passed between inlined
// functions only, and compiled for several instruction sets; products and sums round one by one, in
// the same order in all of them.
#define PLIMSOLL_INLINE inline __attribute__((always_inline))

namespace plimsoll::kernels {
namespace {

using lapack::kIsComplex;
using lapack::Real;

constexpr std::size_t kVectorBytes = 64;
// Rows that are solved together, so that each row of x before them is read once for all.
constexpr int kRows = 4;

template <typename R>
struct Vectors {
  typedef R Type __attribute__((vector_size(kVectorBytes)));
};

// A row of a panel.
template <typename T>
struct Row {
  static constexpr int kParts = kIsComplex<T> ? 2 : 1;
  typename Vectors<Real<T>>::Type parts[kParts] = {};

  static PLIMSOLL_INLINE Row at(const T* panel, std::int64_t i) {
    Row row;
    std::memcpy(row.parts, reinterpret_cast<const char*>(panel) + i * sizeof row.parts,
                sizeof row.parts);
    return row;
  }
  PLIMSOLL_INLINE void store(T* panel, std::int64_t i) const {
    std::memcpy(reinterpret_cast<char*>(panel) + i * sizeof parts, parts, sizeof parts);
  }
  PLIMSOLL_INLINE void add(T factor, const Row& x) {
    if constexpr (kIsComplex<T>) {
      parts[0] += factor.real() * x.parts[0] - factor.imag() * x.parts[1];
      parts[1] += factor.real() * x.parts[1] + factor.imag() * x.parts[0];
    } else {
      parts[0] += factor * x.parts[0];
    }
  }
  PLIMSOLL_INLINE void take_from(const Row& b) {
    for (int p = 0; p < kParts; ++p) parts[p] = b.parts[p] - parts[p];
  }
  PLIMSOLL_INLINE void divide(T by) {
    if constexpr (kIsComplex<T>) {
      for (std::size_t i = 0; i < kVectorBytes / sizeof(Real<T>); ++i) {
        const T quotient = T(parts[0][i], parts[1][i]) / by;
        parts[0][i] = quotient.real();
        parts[1][i] = quotient.imag();
      }
    } else {
      parts[0] = parts[0] / by;
    }
  }
};

// kCount rows from the `first` to be solved on, all before which are.
template <int kCount, typename T>
PLIMSOLL_INLINE void solve_rows(const Triangle<T>& t, T* panel, std::int64_t first) {
  const std::int64_t last = t.order - 1;
  // Row and column of the k-th to be solved.
  const auto place = [&](std::int64_t k) { return t.lower ? k : last - k; };
  const T* rows[kCount];
  for (int r = 0; r < kCount; ++r) rows[r] = t.elements + place(first + r) * t.order;
  Row<T> sums[kCount];
  for (std::int64_t k = 0; k < first; ++k) {
    const std::int64_t column = place(k);
    const Row<T> x = Row<T>::at(panel, column);
    for (int r = 0; r < kCount; ++r) sums[r].add(rows[r][column], x);
  }
  for (int r = 0; r < kCount; ++r) {
    const std::int64_t row = place(first + r);
    for (int before = 0; before < r; ++before) {
      sums[r].add(rows[r][place(first + before)], sums[before]);
    }
    sums[r].take_from(Row<T>::at(panel, row));
    if (!t.unit) sums[r].divide(rows[r][row]);
    sums[r].store(panel, row);
  }
}

template <typename T>
PLIMSOLL_INLINE void solve_panel(const Triangle<T>& t, T* panel) {
  std::int64_t done = 0;
  for (; done + kRows <= t.order; done += kRows) solve_rows<kRows>(t, panel, done);
  for (; done < t.order; ++done) solve_rows<1>(t, panel, done);
}

#define PLIMSOLL_PANEL(p, T, R) \
  PLIMSOLL_CLONES void solve_clone(const Triangle<T>& t, T* panel) { solve_panel(t, panel); }
PLIMSOLL_LAPACK_TYPES(PLIMSOLL_PANEL)
#undef PLIMSOLL_PANEL

}  // namespace

template <typename T>
std::int64_t Triangle<T>::panel_columns() {
  return kVectorBytes / sizeof(Real<T>);
}

template <typename T>
void Triangle<T>::solve(T* panel) const {
  solve_clone(*this, panel);
}

#define PLIMSOLL_INSTANTIATE(p, T, R) template struct Triangle<T>;
PLIMSOLL_LAPACK_TYPES(PLIMSOLL_INSTANTIATE)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll::kernels
