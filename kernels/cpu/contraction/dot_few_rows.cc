// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/dot_few_rows.h"

#include "kernels/cpu/contraction/dot_kernel.h"
#include "kernels/cpu/products/few_rows_product.h"

namespace plimsoll::kernels {
namespace {

// Of the matrix. The library is as fast with f32 that the last cache holds, but not with bf16, rows
// of which it puts in turns in memory.
constexpr std::int64_t kLeastColumns = 128, kLeastDepth = 64;
template <typename T>
constexpr std::int64_t kLeastBytes = sizeof(T) == 2 ? 1 << 20 : 16 << 20;

template <typename T>
bool is_few_rows(const DotShape& shape) {
  return shape.batch == 1 && shape.m > 0 && shape.m <= product_loops<T>().rows &&
         shape.n >= kLeastColumns && shape.k >= kLeastDepth && shape.rhs.column_stride == 1 &&
         static_cast<std::int64_t>(sizeof(T)) * shape.n * shape.k >= kLeastBytes<T>;
}

template <typename T>
class FewRowsDot final : public DotKernel {
 public:
  explicit FewRowsDot(const ir::Instruction& instruction)
      : DotKernel(instruction, "dot.few_rows", device::KernelOrigin::own),
        product_(shape_.m, shape_.n, shape_.k),
        packed_(reserve_workspace(product_.workspace_bytes())) {}

 private:
  Status multiply(const void* lhs, const void* rhs, void* out, void* workspace) const override {
    const MatrixRows<T> rows(static_cast<const T*>(lhs),
                             {shape_.lhs.row_stride, shape_.lhs.column_stride});
    ProductResult<T> to{nullptr, shape_.n};
    if (sizeof(T) < sizeof(ProductSum<T>) && result_dtype_ == lhs_dtype_) {
      to.narrowed = static_cast<T*>(out);
    } else {
      to.sums = static_cast<ProductSum<T>*>(out);
    }
    product_.run(rows, static_cast<const T*>(rhs), shape_.rhs.row_stride, to,
                 byte_offset(workspace, packed_));
    return ok_status();
  }

  FewRowsProduct<T> product_;
  std::int64_t packed_;  // where the product's workspace begins
};

}  // namespace

std::shared_ptr<const device::Kernel> make_few_rows_dot(const ir::Instruction& instruction,
                                                        const DotShape& shape) {
  const ir::DType dtype = instruction.operand(0)->shape().dtype();
  const ir::DType result = instruction.shape().dtype();
  if (instruction.operand(1)->shape().dtype() != dtype) return nullptr;
  if (dtype == ir::DType::f32 && result == dtype && is_few_rows<float>(shape)) {
    return std::make_shared<FewRowsDot<float>>(instruction);
  }
  if (dtype == ir::DType::bf16 && (result == dtype || result == ir::DType::f32) &&
      product_loops<Bfloat16>(ProductInstructions::avx512) != nullptr &&
      is_few_rows<Bfloat16>(shape)) {
    return std::make_shared<FewRowsDot<Bfloat16>>(instruction);
  }
  return nullptr;
}

}  // namespace plimsoll::kernels
