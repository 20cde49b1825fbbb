// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/base/index.h"
#include "runtime/ir/interpreter/interpreter_scalar_program.h"

namespace plimsoll::ir::interpreter {
namespace {

using Index = std::vector<std::int64_t>;

// Elements of a literal in another dtype.
std::vector<std::byte> elements_as(const Literal& literal, DType dtype) {
  const std::int64_t count = literal.shape().element_count();
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * dtype_bytes(dtype)));
  convert_elements({literal.shape().dtype(), literal.bytes().data()}, dtype, bytes.data(), count);
  return bytes;
}

// The running values of a reduction of `count` arrays at once, and its inputs in working dtypes.
class Accumulator {
 public:
  Accumulator(ScalarFunction function, Operands operands)
      : function_(std::move(function)), count_(operands.size() / 2) {
    const auto& dtypes = function_.parameters();
    values_.resize(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      // The accumulated parameter and the returned value share a dtype up to precision.
      inputs_.push_back(elements_as(*operands[i], dtypes[count_ + i]));
      initial_.push_back(elements_as(*operands[count_ + i], dtypes[i]));
      arguments_.push_back(reinterpret_cast<const std::byte*>(&values_[i]));
      results_.push_back(reinterpret_cast<std::byte*>(&values_[i]));
    }
    arguments_.resize(2 * count_);
  }

  void restart() {
    for (std::size_t i = 0; i < count_; ++i) {
      std::memcpy(&values_[i], initial_[i].data(), initial_[i].size());
    }
  }

  Status take(std::int64_t element) {
    const auto& dtypes = function_.parameters();
    for (std::size_t i = 0; i < count_; ++i) {
      arguments_[count_ + i] = inputs_[i].data() + element * dtype_bytes(dtypes[count_ + i]);
    }
    PLIMSOLL_RETURN_IF_ERROR(function_.call(arguments_, results_));
    for (std::size_t i = 0; i < count_; ++i) {
      if (function_.results()[i] != dtypes[i]) {
        const std::uint64_t returned = values_[i];
        convert_elements({function_.results()[i], reinterpret_cast<const std::byte*>(&returned)},
                         dtypes[i], results_[i], 1);
      }
    }
    return ok_status();
  }

  void store(std::vector<Literal>& results, std::int64_t element) const {
    for (std::size_t i = 0; i < count_; ++i) {
      const DType dtype = results[i].shape().dtype();
      convert_elements({function_.parameters()[i], results_[i]}, dtype,
                       results[i].mutable_bytes().data() + element * dtype_bytes(dtype), 1);
    }
  }

 private:
  ScalarFunction function_;
  std::size_t count_;
  std::vector<std::vector<std::byte>> inputs_, initial_;
  std::vector<std::uint64_t> values_;
  std::vector<const std::byte*> arguments_;
  std::vector<std::byte*> results_;
};

std::vector<Literal> zero_results(const Shape& shape) {
  std::vector<Literal> results;
  for (const Shape* leaf : leaves(shape)) results.emplace_back(*leaf);
  return results;
}

Literal collected(const Shape& shape, std::vector<Literal> results) {
  return shape.is_tuple() ? Literal::tuple(std::move(results)) : std::move(results[0]);
}

// Elements are taken in row-major order of the reduced dimensions.
Result<Literal> reduce(const Instruction& instruction, Operands operands, Accumulator accumulator) {
  const Dims& dims = operands[0]->shape().dims();
  const Dims strides = row_major_strides(dims);
  Index kept_sizes, kept_strides, reduced_sizes, reduced_strides;
  const auto& dimensions = instruction.attributes().dimensions;
  for (int i = 0; i < dims.size(); ++i) {
    const bool reduced = std::find(dimensions.begin(), dimensions.end(), i) != dimensions.end();
    (reduced ? reduced_sizes : kept_sizes).push_back(dims[i]);
    (reduced ? reduced_strides : kept_strides).push_back(strides[i]);
  }
  const auto offset = [](const Index& index, const Index& strides_of) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < index.size(); ++i) sum += index[i] * strides_of[i];
    return sum;
  };
  std::vector<Literal> results = zero_results(instruction.shape());
  const std::int64_t count = results[0].shape().element_count();
  const bool empty =
      std::find(reduced_sizes.begin(), reduced_sizes.end(), 0) != reduced_sizes.end();
  Index kept(kept_sizes.size(), 0);
  for (std::int64_t at = 0; at < count; ++at) {
    accumulator.restart();
    const std::int64_t base = offset(kept, kept_strides);
    Index reduced(reduced_sizes.size(), 0);
    if (!empty) {
      do {
        PLIMSOLL_RETURN_IF_ERROR(accumulator.take(base + offset(reduced, reduced_strides)));
      } while (next_index(reduced, reduced_sizes));
    }
    accumulator.store(results, at);
    next_index(kept, kept_sizes);
  }
  return collected(instruction.shape(), std::move(results));
}

// Calls `visit(offset of the element)` for each element under the window at `output`, in row-major
// order of the window; padding and the holes of a dilated base are passed over.
template <typename F>
Status for_each_in_window(const std::vector<WindowDimension>& window, const Dims& dims,
                          const Index& output, F visit) {
  const Dims strides = row_major_strides(dims);
  Index sizes;
  for (const WindowDimension& w : window) sizes.push_back(w.size);
  Index tap(window.size(), 0);
  do {
    bool inside = true;
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < window.size(); ++i) {
      const WindowDimension& w = window[i];
      const std::int64_t step = w.reversal ? w.size - 1 - tap[i] : tap[i];
      const std::int64_t position = output[i] * w.stride - w.padding_low + step * w.window_dilation;
      inside = inside && position >= 0 && position % w.base_dilation == 0 &&
               position / w.base_dilation < dims[static_cast<int>(i)];
      offset += position / w.base_dilation * strides[static_cast<int>(i)];
    }
    if (inside) PLIMSOLL_RETURN_IF_ERROR(visit(offset));
  } while (next_index(tap, sizes));
  return ok_status();
}

Result<Literal> reduce_window(const Instruction& instruction, Operands operands,
                              Accumulator accumulator) {
  std::vector<Literal> results = zero_results(instruction.shape());
  const Dims& dims = results[0].shape().dims();
  const std::int64_t count = results[0].shape().element_count();
  Index output(at(dims.size()), 0);
  for (std::int64_t at = 0; at < count; ++at) {
    accumulator.restart();
    PLIMSOLL_RETURN_IF_ERROR(
        for_each_in_window(instruction.attributes().window, operands[0]->shape().dims(), output,
                           [&](std::int64_t offset) { return accumulator.take(offset); }));
    accumulator.store(results, at);
    next_index(output, dims);
  }
  return collected(instruction.shape(), std::move(results));
}

// Each source element goes to the place in its window that `select` prefers over all before it.
Result<Literal> select_and_scatter(Context& context, const Instruction& instruction,
                                   Operands operands) {
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarFunction select,
                            ScalarFunction::make(context, *instruction.select(), Widening::none));
  PLIMSOLL_ASSIGN_OR_RETURN(
      ScalarFunction scatter,
      ScalarFunction::make(context, *instruction.scatter(), widening_for(*instruction.scatter())));
  const Literal& operand = *operands[0];
  const std::int64_t operand_size = dtype_bytes(operand.shape().dtype());
  const std::byte* candidates = operand.bytes().data();
  const DType dtype = scatter.parameters()[0];
  const std::int64_t size = dtype_bytes(dtype);
  const std::vector<std::byte> sources = elements_as(*operands[1], dtype);
  const std::vector<std::byte> initial = elements_as(*operands[2], dtype);
  const std::int64_t count = operand.shape().element_count();
  std::vector<std::byte> sums(at(count * size));
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(sums.data() + i * size, initial.data(), static_cast<std::size_t>(size));
  }
  const Dims& source_dims = operands[1]->shape().dims();
  Index output(at(source_dims.size()), 0);
  for (std::int64_t at = 0; at < operands[1]->shape().element_count(); ++at) {
    std::int64_t chosen = -1;
    PLIMSOLL_RETURN_IF_ERROR(for_each_in_window(
        instruction.attributes().window, operand.shape().dims(), output, [&](std::int64_t offset) {
          bool keeps = false;
          if (chosen >= 0) {
            const std::byte* arguments[] = {candidates + chosen * operand_size,
                                            candidates + offset * operand_size};
            std::byte* const result = reinterpret_cast<std::byte*>(&keeps);
            PLIMSOLL_RETURN_IF_ERROR(select.call(arguments, {&result, 1}));
          }
          if (!keeps) chosen = offset;
          return ok_status();
        }));
    if (chosen >= 0) {
      std::byte* const sum = sums.data() + chosen * size;
      const std::byte* arguments[] = {sum, sources.data() + at * size};
      PLIMSOLL_RETURN_IF_ERROR(scatter.call(arguments, {&sum, 1}));
    }
    next_index(output, source_dims);
  }
  Literal result(instruction.shape());
  convert_elements({dtype, sums.data()}, instruction.shape().dtype(), result.mutable_bytes().data(),
                   count);
  return result;
}

}  // namespace

Result<Literal> reduction(Context& context, const Instruction& instruction, Operands operands) {
  if (instruction.opcode() == Opcode::select_and_scatter) {
    return select_and_scatter(context, instruction, operands);
  }
  const Computation& reducer = *instruction.to_apply();
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarFunction function,
                            ScalarFunction::make(context, reducer, widening_for(reducer)));
  Accumulator accumulator(std::move(function), operands);
  return instruction.opcode() == Opcode::reduce
             ? reduce(instruction, operands, std::move(accumulator))
             : reduce_window(instruction, operands, std::move(accumulator));
}

}  // namespace plimsoll::ir::interpreter
