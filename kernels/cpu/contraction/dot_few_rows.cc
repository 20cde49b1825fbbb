// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/dot_few_rows.h"

#include <type_traits>
#include <utility>

#include "kernels/cpu/contraction/dot_kernel.h"
#include "kernels/cpu/contraction/visit_product.h"
#include "kernels/cpu/products/few_rows_product.h"

namespace plimsoll::kernels {
namespace {

// Whether it takes less time so than in the library, or packed.
template <typename T>
bool is_few_rows(const DotShape& shape) {
  constexpr bool kIsF32 = std::is_same_v<T, float>, kIsBf16 = std::is_same_v<T, Bfloat16>;
  constexpr std::int64_t kLeastColumns = 128, kLeastDepth = 64;
  if (shape.batch != 1 || shape.m < 1 || shape.m > few_rows_loops<T>().rows ||
      shape.n < kLeastColumns || shape.k < kLeastDepth) {
    return false;
  }
  const std::int64_t bytes = static_cast<std::int64_t>(sizeof(T)) * shape.n * shape.k;
  if (shape.rhs.column_stride == 1) {
    // The library is as fast with f32 that the last cache holds, but not with bf16, whose rows it
    // puts in turns in memory. Small f64 gain most, as packing takes as long as multiplying.
    return bytes >= (kIsF32 ? 16 << 20 : std::is_same_v<T, double> ? 1 << 16 : 1 << 20);
  }
  constexpr std::int64_t kLeastRows = kIsF32 ? 3 : kIsBf16 ? 2 : 1;
  return shape.m >= kLeastRows && bytes >= (kIsF32 || kIsBf16 ? 1 << 20 : 1 << 16);
}

// A matrix times a vector as the vector, a row, times the matrix turned: the result lies the same.
bool is_by_vector(const DotShape& shape) { return shape.n == 1 && shape.m > 1; }

DotShape turned(DotShape shape) {
  std::swap(shape.m, shape.n);
  std::swap(shape.lhs, shape.rhs);
  for (MatrixView* view : {&shape.lhs, &shape.rhs}) {
    std::swap(view->row_stride, view->column_stride);
  }
  return shape;
}

template <typename T>
class FewRowsDot final : public DotKernel {
 public:
  explicit FewRowsDot(const ir::Instruction& instruction)
      : DotKernel(instruction, "dot.few_rows", device::KernelOrigin::own),
        of_(is_by_vector(shape_) ? turned(shape_) : shape_),
        product_(of_.m, of_.n, of_.k),
        packed_(reserve_workspace(product_.workspace_bytes())) {}

 private:
  Status multiply(const void* lhs, const void* rhs, void* out, void* workspace) const override {
    if (is_by_vector(shape_)) std::swap(lhs, rhs);
    ProductResult<T> to{nullptr, of_.n};
    if (sizeof(T) < sizeof(ProductSum<T>) && result_dtype_ == lhs_dtype_) {
      to.narrowed = static_cast<T*>(out);
    } else {
      to.sums = static_cast<ProductSum<T>*>(out);
    }
    product_.run(static_cast<const T*>(lhs), {of_.lhs.row_stride, of_.lhs.column_stride},
                 static_cast<const T*>(rhs), {of_.rhs.row_stride, of_.rhs.column_stride}, to,
                 byte_offset(workspace, packed_));
    return ok_status();
  }

  DotShape of_;  // what is multiplied
  FewRowsProduct<T> product_;
  std::int64_t packed_;  // where the product's workspace begins
};

}  // namespace

std::shared_ptr<const device::Kernel> make_few_rows_dot(const ir::Instruction& instruction,
                                                        const DotShape& shape) {
  return visit_product(instruction, [&](auto zero) -> std::shared_ptr<const device::Kernel> {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, std::uint8_t>) {
      return nullptr;  // packed in less time than it takes to read one
    } else {
      if (!is_few_rows<T>(is_by_vector(shape) ? turned(shape) : shape)) return nullptr;
      return std::make_shared<FewRowsDot<T>>(instruction);
    }
  });
}

}  // namespace plimsoll::kernels
