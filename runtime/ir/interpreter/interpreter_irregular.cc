// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "runtime/base/index.h"
#include "runtime/ir/interpreter/interpreter_scalar_program.h"

namespace plimsoll::ir::interpreter {
namespace {

using Index = std::vector<std::int64_t>;

bool contains(const Index& values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Reads the index vectors of gather and scatter.
class StartIndices {
 public:
  StartIndices(const Literal& indices, std::int64_t vector_dim, const Index& vector_to_operand,
               const Index& batching, const Index& indices_batching, int operand_rank)
      : indices_(indices),
        strides_(row_major_strides(indices.shape().dims())),
        vector_dim_(at(vector_dim)),
        vector_to_operand_(vector_to_operand),
        batching_(batching),
        indices_batching_(indices_batching),
        operand_rank_(at(operand_rank)) {}

  // The full start index in the operand for a position among the batch dims of the indices.
  Index read(const Index& batch) const {
    Index position;
    std::size_t next = 0;
    for (std::size_t i = 0; i < at(indices_.shape().rank()); ++i) {
      position.push_back(i == vector_dim_ ? 0 : batch[next++]);
    }
    Index start(operand_rank_, 0);
    for (std::size_t i = 0; i < vector_to_operand_.size(); ++i) {
      if (vector_dim_ < position.size()) position[vector_dim_] = static_cast<std::int64_t>(i);
      start[at(vector_to_operand_[i])] = integer_at(indices_, offset_of(strides_, position));
    }
    for (std::size_t i = 0; i < batching_.size(); ++i) {
      start[at(batching_[i])] = position[at(indices_batching_[i])];
    }
    return start;
  }

 private:
  const Literal& indices_;
  Dims strides_;
  std::size_t vector_dim_;
  const Index& vector_to_operand_;
  const Index& batching_;
  const Index& indices_batching_;
  std::size_t operand_rank_;
};

// Start indices are moved so that the whole slice lies inside the operand.
Literal gather(const Instruction& instruction, Operands operands) {
  const GatherDimensions& d = *instruction.attributes().gather;
  const Index& sizes = instruction.attributes().slice_sizes;
  const Literal& operand = *operands[0];
  const Dims& dims = operand.shape().dims();
  const StartIndices starts(*operands[1], d.index_vector_dim, d.start_index_map,
                            d.operand_batching_dims, d.start_indices_batching_dims, dims.size());
  Literal result(instruction.shape());
  if (instruction.shape().element_count() == 0) return result;
  const Dims strides = row_major_strides(dims);
  const auto size = static_cast<std::size_t>(dtype_bytes(operand.shape().dtype()));
  const std::byte* source = operand.bytes().data();
  std::byte* target = result.mutable_bytes().data();
  Index output(at(instruction.shape().rank()), 0);
  do {
    Index batch, window;
    for (std::size_t i = 0; i < output.size(); ++i) {
      (contains(d.offset_dims, static_cast<std::int64_t>(i)) ? window : batch).push_back(output[i]);
    }
    Index place = starts.read(batch);
    std::size_t next = 0;
    for (std::size_t i = 0; i < place.size(); ++i) {
      const auto dim = static_cast<std::int64_t>(i);
      place[i] = std::clamp<std::int64_t>(place[i], 0, dims[static_cast<int>(i)] - sizes[i]);
      if (!contains(d.collapsed_slice_dims, dim) && !contains(d.operand_batching_dims, dim)) {
        place[i] += window[next++];
      }
    }
    std::memcpy(target, source + offset_of(strides, place) * static_cast<std::int64_t>(size), size);
    target += size;
  } while (next_index(output, instruction.shape().dims()));
  return result;
}

// Updates are applied in row-major order of the updates; an update whose window does not lie wholly
// inside the operand is left out.
Result<Literal> scatter(Context& context, const Instruction& instruction, Operands operands) {
  const ScatterDimensions& d = *instruction.attributes().scatter;
  const std::size_t count = operands.size() / 2;
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarFunction combine,
                            ScalarFunction::make(context, *instruction.to_apply(), Widening::none));
  const Dims& dims = operands[0]->shape().dims();
  const Dims& update_dims = operands[count + 1]->shape().dims();
  const StartIndices starts(*operands[count], d.index_vector_dim, d.scatter_dims_to_operand_dims,
                            d.input_batching_dims, d.scatter_indices_batching_dims, dims.size());
  std::vector<Literal> results;
  std::vector<std::byte*> targets;
  std::vector<const std::byte*> updates;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < count; ++i) {
    const Shape& shape = operands[i]->shape();
    results.push_back(
        Literal::from_bytes(Shape(shape.dtype(), shape.dims()), operands[i]->bytes()));
    targets.push_back(results[i].mutable_bytes().data());
    updates.push_back(operands[count + 1 + i]->bytes().data());
    sizes.push_back(dtype_bytes(shape.dtype()));
  }
  // Extents of the window in each dimension of the operand.
  Index extents;
  std::size_t next = 0;
  for (int i = 0; i < dims.size(); ++i) {
    const bool dropped = contains(d.inserted_window_dims, i) || contains(d.input_batching_dims, i);
    extents.push_back(dropped ? 1 : update_dims[static_cast<int>(d.update_window_dims[next++])]);
  }
  const Dims strides = row_major_strides(dims);
  std::vector<const std::byte*> arguments(2 * count);
  std::vector<std::byte*> places(count);
  const std::int64_t update_count = operands[count + 1]->shape().element_count();
  Index position(at(update_dims.size()), 0);
  for (std::int64_t at = 0; at < update_count; ++at, next_index(position, update_dims)) {
    Index batch, window;
    for (std::size_t i = 0; i < position.size(); ++i) {
      const bool in_window = contains(d.update_window_dims, static_cast<std::int64_t>(i));
      (in_window ? window : batch).push_back(position[i]);
    }
    Index place = starts.read(batch);
    bool inside = true;
    std::size_t next_window = 0;
    for (std::size_t i = 0; i < place.size(); ++i) {
      const auto dim = static_cast<std::int64_t>(i);
      inside = inside && place[i] >= 0 && place[i] <= dims[static_cast<int>(i)] - extents[i];
      if (!contains(d.inserted_window_dims, dim) && !contains(d.input_batching_dims, dim)) {
        place[i] += window[next_window++];
      }
    }
    if (!inside) continue;
    const std::int64_t offset = offset_of(strides, place);
    for (std::size_t i = 0; i < count; ++i) {
      places[i] = targets[i] + offset * sizes[i];
      arguments[i] = places[i];
      arguments[count + i] = updates[i] + at * sizes[i];
    }
    PLIMSOLL_RETURN_IF_ERROR(combine.call(arguments, places));
  }
  if (!instruction.shape().is_tuple()) return std::move(results[0]);
  return Literal::tuple(std::move(results));
}

// A bottom-up merge sort: stable, and safe with comparators that are no order at all. `before`
// says whether the first position must come before the second.
template <typename F>
Status merge_sort(Index& order, F before) {
  Index merged(order.size());
  for (std::size_t width = 1; width < order.size(); width *= 2) {
    for (std::size_t low = 0; low < order.size(); low += 2 * width) {
      const std::size_t middle = std::min(low + width, order.size());
      const std::size_t high = std::min(low + 2 * width, order.size());
      std::size_t a = low, b = middle;
      for (std::size_t out = low; out < high; ++out) {
        bool take_second = a == middle;
        if (a < middle && b < high) {
          PLIMSOLL_RETURN_IF_ERROR(before(order[b], order[a], take_second));
        }
        merged[out] = take_second ? order[b++] : order[a++];
      }
    }
    order.swap(merged);
  }
  return ok_status();
}

// Always stable.
Result<Literal> sort(Context& context, const Instruction& instruction, Operands operands) {
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarFunction compare,
                            ScalarFunction::make(context, *instruction.to_apply(), Widening::none));
  const Dims& dims = operands[0]->shape().dims();
  const auto along = static_cast<int>(instruction.attributes().dimensions[0]);
  const std::int64_t length = dims[along];
  const std::int64_t stride = row_major_strides(dims)[along];
  const std::int64_t count = operands[0]->shape().element_count();
  std::vector<Literal> results;
  std::vector<const std::byte*> sources;
  std::vector<std::int64_t> sizes;
  for (const Literal* operand : operands) {
    results.emplace_back(Shape(operand->shape().dtype(), dims));
    sources.push_back(operand->bytes().data());
    sizes.push_back(dtype_bytes(operand->shape().dtype()));
  }
  std::vector<const std::byte*> arguments(2 * operands.size());
  for (std::int64_t line = 0; line < (length == 0 ? 0 : count / length); ++line) {
    const std::int64_t base = line / stride * stride * length + line % stride;
    Index order(at(length));
    std::iota(order.begin(), order.end(), 0);
    PLIMSOLL_RETURN_IF_ERROR(
        merge_sort(order, [&](std::int64_t first, std::int64_t second, bool& is_before) {
          for (std::size_t i = 0; i < sources.size(); ++i) {
            arguments[2 * i] = sources[i] + (base + first * stride) * sizes[i];
            arguments[2 * i + 1] = sources[i] + (base + second * stride) * sizes[i];
          }
          std::byte* const result = reinterpret_cast<std::byte*>(&is_before);
          return compare.call(arguments, {&result, 1});
        }));
    for (std::size_t i = 0; i < results.size(); ++i) {
      std::byte* target = results[i].mutable_bytes().data();
      for (std::int64_t k = 0; k < length; ++k) {
        std::memcpy(target + (base + k * stride) * sizes[i],
                    sources[i] + (base + order[at(k)] * stride) * sizes[i],
                    static_cast<std::size_t>(sizes[i]));
      }
    }
  }
  if (!instruction.shape().is_tuple()) return std::move(results[0]);
  return Literal::tuple(std::move(results));
}

// An integer that orders as the element does, of floats in total order.
std::int64_t total_order_of(const Literal& literal, std::int64_t index) {
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  if (literal.shape().dtype() == DType::u64) {
    std::int64_t bits = 0;
    std::memcpy(&bits, literal.bytes().data() + at(index) * sizeof bits, sizeof bits);
    return bits ^ kLowest;
  }
  if (!is_floating(literal.shape().dtype())) return integer_at(literal, index);
  const auto bits = std::bit_cast<std::int64_t>(literal.at(index));
  return bits >= 0 ? bits : bits ^ ~kLowest;
}

Literal top_k(const Instruction& instruction, Operands operands) {
  const Literal& from = *operands[0];
  const Shape& kept = instruction.shape().elements()[0];
  const int last = from.shape().rank() - 1;
  const std::int64_t length = from.shape().dim(last), count = kept.dim(last);
  const bool is_largest = instruction.attributes().find_extra("largest") != "false";
  const auto size = static_cast<std::size_t>(dtype_bytes(kept.dtype()));
  std::vector<Literal> results{Literal(kept), Literal(instruction.shape().elements()[1])};
  for (std::int64_t base = 0, to = 0; base < from.shape().element_count(); base += length) {
    Index order(at(length));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      const std::int64_t x = total_order_of(from, base + a), y = total_order_of(from, base + b);
      return is_largest ? x > y : x < y;
    });
    for (std::int64_t i = 0; i < count; ++i, ++to) {
      std::memcpy(results[0].mutable_bytes().data() + at(to) * size,
                  from.bytes().data() + at(base + order[at(i)]) * size, size);
      results[1].set(to, static_cast<double>(order[at(i)]));
    }
  }
  return Literal::tuple(std::move(results));
}

Result<Literal> map(Context& context, const Instruction& instruction, Operands operands) {
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarFunction function,
                            ScalarFunction::make(context, *instruction.to_apply(), Widening::none));
  Literal result(instruction.shape());
  std::byte* target = result.mutable_bytes().data();
  const std::int64_t size = dtype_bytes(instruction.shape().dtype());
  std::vector<const std::byte*> arguments(operands.size());
  for (std::int64_t at = 0; at < instruction.shape().element_count(); ++at) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      arguments[i] = operands[i]->bytes().data() + at * dtype_bytes(operands[i]->shape().dtype());
    }
    std::byte* const place = target + at * size;
    PLIMSOLL_RETURN_IF_ERROR(function.call(arguments, {&place, 1}));
  }
  return result;
}

}  // namespace

Result<Literal> irregular(Context& context, const Instruction& instruction, Operands operands) {
  switch (instruction.opcode()) {
    case Opcode::gather:
      return gather(instruction, operands);
    case Opcode::scatter:
      return scatter(context, instruction, operands);
    case Opcode::sort:
      return sort(context, instruction, operands);
    case Opcode::topk:
      return top_k(instruction, operands);
    case Opcode::map:
      return map(context, instruction, operands);
    default:
      return random(context, instruction, operands);
  }
}

}  // namespace plimsoll::ir::interpreter
