// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/device/cuda/libraries/cublaslt_types.h"

// The recording library's products, as the host computes them.
namespace plimsoll::device::cuda {

// Column by column.
struct RecordedMatrix {
  BlasType type = BlasType::f32;
  std::int64_t rows = 0, columns = 0, leading = 0;
  std::int64_t batch = 1, batch_stride = 0;
  // From the first to the last one that it has.
  std::int64_t elements() const {
    return (batch - 1) * batch_stride + (columns - 1) * leading + rows;
  }
};

// d = a b, each of them transposed where it says so.
struct RecordedProduct {
  RecordedMatrix a, b, d;
  bool is_a_transposed = false, is_b_transposed = false;

  std::int64_t rows_of_a() const { return is_a_transposed ? a.columns : a.rows; }
  std::int64_t depth() const { return is_a_transposed ? a.rows : a.columns; }
  std::int64_t columns_of_b() const { return is_b_transposed ? b.rows : b.columns; }
  // Of so many parts of every sum.
  std::int64_t parts_bytes(int parts) const {
    return parts * d.batch * d.rows * d.columns * (a.type == BlasType::f64 ? 8 : 4);
  }
};

// Sums in parts, each in order, in f32 (f64, s32); parts lie in the workspace until they are added.
void compute_product(const RecordedProduct& product, int parts, const void* a, const void* b,
                     void* d, void* workspace);

// Whether a factor in the type that products are scaled in is this number.
bool is_number(const void* factor, BlasType type, int number);

}  // namespace plimsoll::device::cuda
