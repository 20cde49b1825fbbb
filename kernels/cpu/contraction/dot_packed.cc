// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/dot_packed.h"

#include <algorithm>
#include <optional>

#include "kernels/cpu/contraction/dot_kernel.h"
#include "kernels/cpu/contraction/visit_product.h"
#include "kernels/cpu/products/packed_product.h"
#include "kernels/cpu/products/prepared_product.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/input_preparation.h"

namespace plimsoll::kernels {
namespace {

// Below these, packing is a large part of the work, and the library's own cut is as good or better.
bool is_worth_packing(ir::DType dtype, const DotShape& shape) {
  if (shape.batch == 0 || shape.m == 0 || shape.n == 0 || shape.k == 0) return false;
  struct Least {
    std::int64_t rows, columns, elements, products;
  };
  constexpr Least kF32 = {241, 384, 3 << 15, 1 << 27}, kBf16 = {241, 192, 3 << 15, 1 << 26};
  // Tiles pack and multiply faster than the library does, from a few of them on.
  constexpr Least kBf16Tiles = {2, 16, 256, 1 << 14};
  // What the library doesn't multiply.
  constexpr Least kOthers = {2, 1, 2, 1 << 9}, kBytes = {1, 1, 1, 1 << 9};
  const bool has_tiles = product_loops<Bfloat16>(ProductInstructions::amx) != nullptr;
  const Least& least = dtype == ir::DType::f32             ? kF32
                       : is_signed_or_unsigned_byte(dtype) ? kBytes
                       : dtype != ir::DType::bf16          ? kOthers
                       : has_tiles                         ? kBf16Tiles
                                                           : kBf16;
  const std::int64_t elements = shape.m * shape.n;
  return shape.m >= least.rows && shape.n >= least.columns && elements >= least.elements &&
         elements >= least.products / shape.k;
}

bool is_constant(const ir::Instruction& instruction) {
  return instruction.opcode() == ir::Opcode::constant;
}

// The right operand is a constant, which is packed once, and large enough to gain by it.
bool is_by_constant(const ir::Instruction& instruction, const DotShape& shape) {
  constexpr std::int64_t kLeastColumns = 64, kLeastDepth = 32, kLeastProducts = 1 << 18;
  return is_constant(*instruction.operand(1)) && shape.batch == 1 && !shape.rhs.needs_copy &&
         shape.m > 1 && shape.n >= kLeastColumns && shape.k >= kLeastDepth &&
         shape.m * shape.n >= kLeastProducts / shape.k;
}

// Of a batch: products at once, and what their workspaces may take of operands and results.
constexpr std::int64_t kMostBatchSlots = 16, kShareOfBatches = 4;

template <typename T>
class PackedDot final : public DotKernel, public device::InputPreparation {
 public:
  explicit PackedDot(const ir::Instruction& instruction)
      : DotKernel(instruction, "dot.packed", device::KernelOrigin::own),
        loops_(*dot_loops<T>(lhs_dtype_, rhs_dtype_)),
        product_(shape_.m, shape_.n, shape_.k, loops_),
        narrows_(sizeof(T) < sizeof(ProductSum<T>) &&
                 dtype_bytes(result_dtype_) == static_cast<int>(sizeof(T))) {
    std::int64_t bytes = product_.workspace_bytes();
    // The kernel that takes it prepared may have no more workspace than this.
    if (is_constant(*instruction.operand(1)) && shape_.batch == 1 && !shape_.rhs.needs_copy &&
        shape_.n >= PreparedProduct<T>::kLeastColumns) {
      by_prepared_.emplace(shape_.m, shape_.n, shape_.k, loops_);
      bytes = std::max(bytes, by_prepared_->workspace_bytes());
    }
    // Products that are one task each are dealt to tasks themselves.
    if (product_.slots() == 1) {
      const std::int64_t operands =
          shape_.batch * dtype_bytes(lhs_dtype_) *
          (shape_.m * shape_.k + shape_.k * shape_.n + shape_.m * shape_.n);
      slots_ =
          std::clamp<std::int64_t>(operands / kShareOfBatches / std::max<std::int64_t>(64, bytes),
                                   1, std::min(kMostBatchSlots, shape_.batch));
    }
    slot_bytes_ = bytes;
    packed_ = reserve_workspace(slots_ * bytes);
  }

  const device::InputPreparation* input_preparation() const override {
    return by_prepared_ ? this : nullptr;
  }
  int prepared_input() const override { return 1; }
  std::int64_t prepared_bytes() const override {
    return by_prepared_.has_value() && !takes_prepared_ ? by_prepared_->prepared_bytes() : 0;
  }
  Status prepare(const void* plain, void* prepared) const override {
    by_prepared_->prepare(static_cast<const T*>(plain), strides_of(shape_.rhs),
                          static_cast<T*>(prepared));
    return ok_status();
  }
  std::shared_ptr<const device::Kernel> taking_prepared() const override {
    auto kernel = std::make_shared<PackedDot>(*this);
    kernel->takes_prepared_ = true;
    return kernel;
  }

 private:
  static MatrixStrides strides_of(const MatrixView& view) {
    return {view.row_stride, view.column_stride};
  }

  Status multiply(const void* lhs, const void* rhs, void* out, void* workspace) const override {
    device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin; slot < end; ++slot) {
        void* const packed = byte_offset(workspace, packed_ + slot * slot_bytes_);
        for (std::int64_t b = shape_.batch * slot / slots_; b < shape_.batch * (slot + 1) / slots_;
             ++b) {
          multiply(b, static_cast<const T*>(lhs), static_cast<const T*>(rhs), out, packed);
        }
      }
    });
    return ok_status();
  }

  void multiply(std::int64_t b, const T* lhs, const T* rhs, void* out, void* packed) const {
    const MatrixRows<T> rows(lhs + shape_.batch_offset(shape_.lhs, b), strides_of(shape_.lhs),
                             loops_);
    const std::int64_t at = b * shape_.m * shape_.n;
    ProductResult<T> to{nullptr, shape_.n};
    if (narrows_) {
      to.narrowed = static_cast<T*>(out) + at;
    } else {
      to.sums = static_cast<ProductSum<T>*>(out) + at;
    }
    if (takes_prepared_) {
      by_prepared_->run(rows, rhs, to, packed);
    } else {
      product_.run(rows, rhs + shape_.batch_offset(shape_.rhs, b), strides_of(shape_.rhs), to,
                   packed);
    }
  }

  const ProductLoops<T>& loops_;
  PackedProduct<T> product_;
  std::optional<PreparedProduct<T>> by_prepared_;  // where the right operand may come so
  bool narrows_;                                   // sums are rounded to the operands' dtype
  bool takes_prepared_ = false;
  // Where the products' workspaces begin, how many there are, and of what size.
  std::int64_t packed_, slots_ = 1, slot_bytes_;
};

}  // namespace

std::shared_ptr<const device::Kernel> make_packed_dot(const ir::Instruction& instruction,
                                                      const DotShape& shape) {
  const ir::DType dtype = instruction.operand(0)->shape().dtype();
  if (!is_worth_packing(dtype, shape) &&
      !(dtype == ir::DType::f32 && is_by_constant(instruction, shape))) {
    return nullptr;
  }
  return visit_product(instruction, [&](auto zero) -> std::shared_ptr<const device::Kernel> {
    return std::make_shared<PackedDot<decltype(zero)>>(instruction);
  });
}

}  // namespace plimsoll::kernels
