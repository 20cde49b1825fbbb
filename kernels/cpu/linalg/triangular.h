// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace plimsoll::kernels {

// t x = b for a panel of columns, where t is a triangle of order `order`, by rows of `order`
// elements, of which the other triangle is not read; with `unit`, neither is the diagonal. Every
// element of the triangle counts, a zero too: what is no number stays none, which BLAS's trsm loses
// where it skips zeros.
template <typename T>
struct Triangle {
  const T* elements = nullptr;
  std::int64_t order = 0;
  bool lower = true, unit = false;

  // Columns of a panel.
  static std::int64_t panel_columns();
  // A panel, order x panel_columns() by rows, of complex numbers with the real parts of each row
  // before the imaginary ones: b on the way in, x on the way out. The same bits on every machine.
  void solve(T* panel) const;
};

}  // namespace plimsoll::kernels
