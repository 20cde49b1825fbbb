// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/product_description.h"

#include <initializer_list>
#include <numeric>

namespace plimsoll::kernels::cuda {
namespace {

using device::cuda::BlasChoice;
using device::cuda::BlasCompute;
using device::cuda::BlasHandle;
using device::cuda::BlasLayout;
using device::cuda::BlasLayoutAttribute;
using device::cuda::BlasOperationAttribute;
using device::cuda::BlasPreference;
using device::cuda::BlasPreferenceAttribute;
using device::cuda::BlasResult;
using device::cuda::BlasTranspose;
using device::cuda::BlasType;
using device::cuda::Cublaslt;
using ir::DType;

// Where operands and results begin: at multiples of so many bytes (docs/gpu.md).
constexpr std::int64_t kAlignment = 16;

// Of a dtype that read_product lets through.
BlasType type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return BlasType::f64;
    case DType::f16:
      return BlasType::f16;
    case DType::bf16:
      return BlasType::bf16;
    case DType::s8:
      return BlasType::s8;
    case DType::s32:
      return BlasType::s32;
    default:
      return BlasType::f32;
  }
}

template <typename Number>
struct Factors {
  static constexpr Number kOne = 1, kZero = 0;
};

// Of a matrix, of which products of a batch and calls begin at multiples of `strides`.
std::uint32_t alignment_of(DType dtype, std::initializer_list<std::int64_t> strides) {
  std::int64_t known = kAlignment;
  for (const std::int64_t stride : strides)
    known = std::gcd(known, stride * ir::dtype_bytes(dtype));
  return static_cast<std::uint32_t>(known);
}

}  // namespace

Result<std::unique_ptr<const ProductDescription>> ProductDescription::create(
    const Cublaslt& library, const ProductShape& shape, bool allows_tf32) {
  std::unique_ptr<ProductDescription> made(new ProductDescription(library, shape, allows_tf32));
  PLIMSOLL_RETURN_IF_ERROR(made->open());
  return std::unique_ptr<const ProductDescription>(std::move(made));
}

ProductDescription::~ProductDescription() {
  for (const BlasLayout layout : {a_, b_, d_}) {
    if (layout != nullptr) (void)library_.layout_destroy(layout);
  }
  if (operation_ != nullptr) (void)library_.operation_destroy(operation_);
}

Status ProductDescription::open() {
  BlasCompute compute =
      allows_tf32_ && shape_.operands == DType::f32 ? BlasCompute::f32_by_tf32 : BlasCompute::f32;
  BlasType scale = BlasType::f32;
  one_ = &Factors<float>::kOne;
  zero_ = &Factors<float>::kZero;
  if (shape_.operands == DType::f64) {
    compute = BlasCompute::f64;
    scale = BlasType::f64;
    one_ = &Factors<double>::kOne;
    zero_ = &Factors<double>::kZero;
  } else if (shape_.operands == DType::s8) {
    compute = BlasCompute::s32;
    scale = BlasType::s32;
    one_ = &Factors<std::int32_t>::kOne;
    zero_ = &Factors<std::int32_t>::kZero;
  }
  using device::cuda::call;
  PLIMSOLL_RETURN_IF_ERROR(
      call(library_, &Cublaslt::operation_create, &operation_, compute, scale));
  const auto set_transpose = [&](BlasOperationAttribute which, bool is_transposed) {
    const BlasTranspose value = is_transposed ? BlasTranspose::transposed : BlasTranspose::none;
    return call(library_, &Cublaslt::operation_set, operation_, which,
                static_cast<const void*>(&value), sizeof(value));
  };
  PLIMSOLL_RETURN_IF_ERROR(
      set_transpose(BlasOperationAttribute::transpose_a, shape_.rhs.is_transposed));
  PLIMSOLL_RETURN_IF_ERROR(
      set_transpose(BlasOperationAttribute::transpose_b, shape_.lhs.is_transposed));
  // Rows and columns are those of the matrix as it lies, column by column.
  const auto layout = [&](BlasLayout& made, DType dtype, std::int64_t rows, std::int64_t columns,
                          std::int64_t leading, std::int64_t batch_stride) -> Status {
    PLIMSOLL_RETURN_IF_ERROR(call(library_, &Cublaslt::layout_create, &made, type_of(dtype),
                                  static_cast<std::uint64_t>(rows),
                                  static_cast<std::uint64_t>(columns), leading));
    if (shape_.batch == 1) return ok_status();
    const auto batch = static_cast<std::int32_t>(shape_.batch);
    PLIMSOLL_RETURN_IF_ERROR(call(library_, &Cublaslt::layout_set, made,
                                  BlasLayoutAttribute::batch_count,
                                  static_cast<const void*>(&batch), sizeof(batch)));
    return call(library_, &Cublaslt::layout_set, made, BlasLayoutAttribute::batch_stride,
                static_cast<const void*>(&batch_stride), sizeof(batch_stride));
  };
  const auto operand = [&](BlasLayout& made, const ProductOperand& matrix, std::int64_t rows,
                           std::int64_t columns) {
    if (matrix.is_transposed) std::swap(rows, columns);
    return layout(made, shape_.operands, rows, columns, matrix.leading, matrix.batch_stride);
  };
  PLIMSOLL_RETURN_IF_ERROR(operand(a_, shape_.rhs, shape_.n, shape_.k));
  PLIMSOLL_RETURN_IF_ERROR(operand(b_, shape_.lhs, shape_.k, shape_.m));
  return layout(d_, shape_.result, shape_.n, shape_.m, shape_.n, shape_.result_batch_stride);
}

Status ProductDescription::set_preference(BlasPreference preference,
                                          std::int64_t most_bytes) const {
  const auto set = [&](BlasPreferenceAttribute which, auto value) {
    return device::cuda::call(library_, &Cublaslt::preference_set, preference, which,
                              static_cast<const void*>(&value), sizeof(value));
  };
  using enum BlasPreferenceAttribute;
  PLIMSOLL_RETURN_IF_ERROR(set(most_workspace_bytes, static_cast<std::uint64_t>(most_bytes)));
  PLIMSOLL_RETURN_IF_ERROR(set(reduction_schemes, device::cuda::kBlasReductionInComputeType));
  std::uint64_t refused = device::cuda::kBlasImplementationAccumulatesF16;
  if (shape_.operands == DType::f32) {
    refused |=
        device::cuda::kBlasImplementationReadsF16 | device::cuda::kBlasImplementationReadsBf16;
    if (!allows_tf32_) refused |= device::cuda::kBlasImplementationReadsTf32;
  }
  PLIMSOLL_RETURN_IF_ERROR(set(implementations, ~refused));
  std::int64_t lhs = 0, rhs = 0, result = 0;
  for (const ProductTurn& turn : shape_.turns) {
    lhs = std::gcd(lhs, turn.lhs_stride);
    rhs = std::gcd(rhs, turn.rhs_stride);
    result = std::gcd(result, turn.result_stride);
  }
  const std::uint32_t of_lhs = alignment_of(shape_.operands, {lhs, shape_.lhs.batch_stride});
  const std::uint32_t of_rhs = alignment_of(shape_.operands, {rhs, shape_.rhs.batch_stride});
  const std::uint32_t of_result = alignment_of(shape_.result, {result, shape_.result_batch_stride});
  PLIMSOLL_RETURN_IF_ERROR(set(alignment_a, of_rhs));
  PLIMSOLL_RETURN_IF_ERROR(set(alignment_b, of_lhs));
  PLIMSOLL_RETURN_IF_ERROR(set(alignment_c, of_result));
  return set(alignment_d, of_result);
}

Result<BlasChoice> ProductDescription::choose(BlasHandle handle,
                                              std::int64_t most_workspace_bytes) const {
  BlasPreference preference = nullptr;
  PLIMSOLL_RETURN_IF_ERROR(device::cuda::call(library_, &Cublaslt::preference_create, &preference));
  BlasChoice choice;
  int count = 0;
  Status status = set_preference(preference, most_workspace_bytes);
  if (status.ok()) {
    const BlasResult result =
        library_.choose(handle, operation_, a_, b_, d_, d_, preference, 1, &choice, &count);
    // It refuses some shapes as values that are wrong.
    status = result == BlasResult::success ? ok_status()
             : result == BlasResult::invalid_value
                 ? unimplemented("cuBLASLt has no algorithm for it")
                 : device::cuda::failure(library_, result, "cublasLtMatmulAlgoGetHeuristic");
  }
  (void)library_.preference_destroy(preference);
  PLIMSOLL_RETURN_IF_ERROR(status);
  if (count == 0) return unimplemented("cuBLASLt has no algorithm for it");
  if (choice.state != BlasResult::success) {
    return device::cuda::failure(library_, choice.state, "cublasLtMatmulAlgoGetHeuristic");
  }
  if (choice.workspace_bytes > static_cast<std::size_t>(most_workspace_bytes)) {
    return internal_error("cuBLASLt's algorithm asks for more workspace than it may have");
  }
  return choice;
}

}  // namespace plimsoll::kernels::cuda
