// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/dot_small.h"

#include <algorithm>

#include "kernels/cpu/products/small_products.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

using ir::DType;

constexpr std::int64_t kProductsOfBlock = 64;
constexpr std::int64_t kWorthAThreadOfSmall = 1 << 14;  // multiplications

}  // namespace

SmallDot::SmallDot(const ir::Instruction& instruction)
    : DotKernel(instruction, "dot.small", device::KernelOrigin::own) {}

bool SmallDot::takes(DType lhs, DType rhs, DType result, const DotShape& shape) {
  const bool has_loops = lhs == DType::f32 || lhs == DType::f64 || lhs == DType::s32 ||
                         lhs == DType::u32 || lhs == DType::s64 || lhs == DType::u64;
  return has_loops && lhs == rhs && rhs == result &&
         std::max({shape.m, shape.n, shape.k}) <= kMostOfSmall;
}

Status SmallDot::multiply(const void* lhs, const void* rhs, void* out, void*) const {
  const SmallProducts products{shape_.m,
                               shape_.n,
                               shape_.k,
                               shape_.lhs.row_stride,
                               shape_.lhs.column_stride,
                               shape_.rhs.row_stride,
                               shape_.rhs.column_stride};
  const std::int64_t of_one = shape_.m * shape_.n * shape_.k;
  const auto run = [&]<typename T>(T) {
    const T* const a = static_cast<const T*>(lhs);
    const T* const b = static_cast<const T*>(rhs);
    device::parallel_for(
        shape_.batch, std::max<std::int64_t>(1, kWorthAThreadOfSmall / of_one),
        [&](std::int64_t begin, std::int64_t end) {
          std::int64_t a_at[kProductsOfBlock], b_at[kProductsOfBlock];
          for (std::int64_t first = begin; first < end; first += kProductsOfBlock) {
            const std::int64_t count = std::min(end - first, kProductsOfBlock);
            for (std::int64_t p = 0; p < count; ++p) {
              a_at[p] = shape_.batch_offset(shape_.lhs, first + p);
              b_at[p] = shape_.batch_offset(shape_.rhs, first + p);
            }
            multiply_small(products, a, a_at, b, b_at,
                           static_cast<T*>(out) + first * shape_.m * shape_.n, count);
          }
        });
  };
  if (lhs_dtype_ == DType::f32) {
    run(float{});
  } else if (lhs_dtype_ == DType::f64) {
    run(double{});
  } else if (ir::dtype_bytes(lhs_dtype_) == 4) {
    run(std::uint32_t{});
  } else {
    run(std::uint64_t{});
  }
  return ok_status();
}

}  // namespace plimsoll::kernels
