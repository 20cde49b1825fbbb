// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "runtime/base/index.h"
#include "runtime/ir/interpreter/interpreter_elementwise.h"
#include "runtime/ir/interpreter/interpreter_parts.h"

namespace plimsoll::ir::interpreter {
namespace {

using Index = std::vector<std::int64_t>;

// Products are summed in f64, or modulo 2^64, and brought to the result's dtype once.
DType sum_dtype(DType a, DType b) {
  return is_floating(a) || is_floating(b) ? DType::f64 : DType::s64;
}

template <typename T>
std::vector<T> values_of(const Literal& literal) {
  std::vector<T> values(at(literal.shape().element_count()));
  convert_elements({literal.shape().dtype(), literal.bytes().data()}, DTypeOf<T>::value,
                   reinterpret_cast<std::byte*>(values.data()), literal.shape().element_count());
  return values;
}

template <typename T>
T plus_product(T sum, T a, T b) {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    return static_cast<T>(static_cast<std::uint64_t>(sum) +
                          static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return sum + a * b;
  }
}

template <typename T>
Literal literal_of(const Shape& shape, const std::vector<T>& values) {
  Literal result(shape);
  convert_elements({DTypeOf<T>::value, reinterpret_cast<const std::byte*>(values.data())},
                   shape.dtype(), result.mutable_bytes().data(), shape.element_count());
  return result;
}

// Offsets of every index over the dimensions `which` of an array, in row-major order.
Index offsets_over(const Dims& dims, const Index& which) {
  const Dims strides = row_major_strides(dims);
  Index sizes, offsets;
  for (std::int64_t d : which) sizes.push_back(dims[static_cast<int>(d)]);
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return {};
  Index index(which.size(), 0);
  do {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < which.size(); ++i) {
      offset += index[i] * strides[static_cast<int>(which[i])];
    }
    offsets.push_back(offset);
  } while (next_index(index, sizes));
  return offsets;
}

Index free_dimensions(const Dims& dims, const Index& batch, const Index& contracting) {
  Index result;
  for (std::int64_t d = 0; d < dims.size(); ++d) {
    if (std::find(batch.begin(), batch.end(), d) == batch.end() &&
        std::find(contracting.begin(), contracting.end(), d) == contracting.end()) {
      result.push_back(d);
    }
  }
  return result;
}

// One batch of an operand as [free][inner], so that the innermost loop of the dot is contiguous.
template <typename T>
std::vector<T> packed(const std::vector<T>& values, std::int64_t start, const Index& free,
                      const Index& inner) {
  std::vector<T> result;
  result.reserve(free.size() * inner.size());
  for (std::int64_t row : free) {
    for (std::int64_t k : inner) {
      result.push_back(values[at(start + row + k)]);
    }
  }
  return result;
}

template <typename T>
Literal dot(const Instruction& instruction, const Literal& lhs, const Literal& rhs) {
  const DotDimensions& d = *instruction.attributes().dot;
  const Dims& lhs_dims = lhs.shape().dims();
  const Dims& rhs_dims = rhs.shape().dims();
  const std::vector<T> a = values_of<T>(lhs);
  const std::vector<T> b = values_of<T>(rhs);
  const Index lhs_batch = offsets_over(lhs_dims, d.lhs_batch);
  const Index rhs_batch = offsets_over(rhs_dims, d.rhs_batch);
  const Index rows =
      offsets_over(lhs_dims, free_dimensions(lhs_dims, d.lhs_batch, d.lhs_contracting));
  const Index columns =
      offsets_over(rhs_dims, free_dimensions(rhs_dims, d.rhs_batch, d.rhs_contracting));
  const Index lhs_inner = offsets_over(lhs_dims, d.lhs_contracting);
  const Index rhs_inner = offsets_over(rhs_dims, d.rhs_contracting);
  const std::size_t inner = lhs_inner.size();
  std::vector<T> result;
  result.reserve(at(instruction.shape().element_count()));
  for (std::size_t batch = 0; batch < lhs_batch.size(); ++batch) {
    const std::vector<T> left = packed(a, lhs_batch[batch], rows, lhs_inner);
    const std::vector<T> right = packed(b, rhs_batch[batch], columns, rhs_inner);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (std::size_t column = 0; column < columns.size(); ++column) {
        T sum = 0;
        for (std::size_t k = 0; k < inner; ++k) {
          sum = plus_product(sum, left[row * inner + k], right[column * inner + k]);
        }
        result.push_back(sum);
      }
    }
  }
  return literal_of(instruction.shape(), result);
}

template <typename T>
Literal convolution(const Instruction& instruction, const Literal& input, const Literal& kernel) {
  const Attributes& attributes = instruction.attributes();
  const ConvolutionDimensions& d = *attributes.convolution;
  const Shape& shape = instruction.shape();
  const Dims& input_dims = input.shape().dims();
  const Dims& kernel_dims = kernel.shape().dims();
  const Dims input_strides = row_major_strides(input_dims);
  const Dims kernel_strides = row_major_strides(kernel_dims);
  const auto dim = [](const Dims& dims, std::int64_t i) { return dims[static_cast<int>(i)]; };
  const std::size_t spatial = d.input_spatial.size();

  const std::int64_t kernel_features = dim(kernel_dims, d.kernel_input_feature);
  const std::int64_t output_features = dim(kernel_dims, d.kernel_output_feature);
  const std::int64_t outputs_per_group =
      std::max<std::int64_t>(output_features / attributes.feature_group_count, 1);
  const std::int64_t outputs_per_batch_group =
      std::max<std::int64_t>(output_features / attributes.batch_group_count, 1);
  const std::int64_t batches_per_group =
      dim(input_dims, d.input_batch) / attributes.batch_group_count;

  Index taps;
  for (std::int64_t k : d.kernel_spatial) taps.push_back(dim(kernel_dims, k));
  std::vector<T> result(at(shape.element_count()), T{0});
  const bool empty_kernel = std::find(taps.begin(), taps.end(), 0) != taps.end();
  if (result.empty() || empty_kernel) return literal_of(shape, result);
  const std::vector<T> a = values_of<T>(input);
  const std::vector<T> b = values_of<T>(kernel);

  Index output(at(shape.rank()), 0);
  std::size_t next = 0;
  do {
    const std::int64_t feature = output[at(d.output_feature)];
    const std::int64_t batch =
        output[at(d.output_batch)] + feature / outputs_per_batch_group * batches_per_group;
    const std::int64_t first_feature = feature / outputs_per_group * kernel_features;
    T sum = 0;
    Index tap(spatial, 0);
    do {
      std::int64_t input_offset = batch * dim(input_strides, d.input_batch) +
                                  first_feature * dim(input_strides, d.input_feature);
      std::int64_t kernel_offset = feature * dim(kernel_strides, d.kernel_output_feature);
      bool inside = true;
      for (std::size_t i = 0; i < spatial; ++i) {
        const WindowDimension& w = attributes.window[i];
        const std::int64_t position =
            output[at(d.output_spatial[i])] * w.stride - w.padding_low + tap[i] * w.window_dilation;
        // A dilated base has holes (zeros) between its elements.
        inside = inside && position >= 0 && position % w.base_dilation == 0 &&
                 position / w.base_dilation < dim(input_dims, d.input_spatial[i]);
        input_offset += position / w.base_dilation * dim(input_strides, d.input_spatial[i]);
        const std::int64_t k = w.reversal ? taps[i] - 1 - tap[i] : tap[i];
        kernel_offset += k * dim(kernel_strides, d.kernel_spatial[i]);
      }
      if (!inside) continue;
      for (std::int64_t f = 0; f < kernel_features; ++f) {
        sum = plus_product(sum, a[at(input_offset + f * dim(input_strides, d.input_feature))],
                           b[at(kernel_offset + f * dim(kernel_strides, d.kernel_input_feature))]);
      }
    } while (next_index(tap, taps));
    result[next++] = sum;
  } while (next_index(output, shape.dims()));
  return literal_of(shape, result);
}

template <typename T>
Literal contract(const Instruction& instruction, Operands operands) {
  return instruction.opcode() == Opcode::dot
             ? dot<T>(instruction, *operands[0], *operands[1])
             : convolution<T>(instruction, *operands[0], *operands[1]);
}

}  // namespace

Result<Literal> contraction(const Instruction& instruction, Operands operands) {
  const DType dtype = sum_dtype(operands[0]->shape().dtype(), operands[1]->shape().dtype());
  return dtype == DType::f64 ? contract<double>(instruction, operands)
                             : contract<std::int64_t>(instruction, operands);
}

}  // namespace plimsoll::ir::interpreter
