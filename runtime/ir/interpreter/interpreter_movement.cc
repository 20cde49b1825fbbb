// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/base/index.h"
#include "runtime/ir/interpreter/interpreter_elementwise.h"
#include "runtime/ir/interpreter/interpreter_numbers.h"
#include "runtime/ir/interpreter/interpreter_parts.h"
#include "runtime/ir/participants.h"

namespace plimsoll::ir::interpreter {
namespace {

using Index = std::vector<std::int64_t>;

// result[index] = operand[from(index)] for every index of the result.
template <typename F>
Literal gathered(const Shape& shape, const Literal& operand, F from) {
  Literal result(shape);
  if (shape.element_count() == 0) return result;
  const Dims strides = row_major_strides(operand.shape().dims());
  const auto size = static_cast<std::size_t>(dtype_bytes(shape.dtype()));
  const std::byte* source = operand.bytes().data();
  std::byte* target = result.mutable_bytes().data();
  Index index(at(shape.rank()), 0);
  Index source_index(at(operand.shape().rank()), 0);
  do {
    from(index, source_index);
    std::memcpy(target, source + offset_of(strides, source_index) * static_cast<std::int64_t>(size),
                size);
    target += size;
  } while (next_index(index, shape.dims()));
  return result;
}

// Writes operand[index] to result[to(index)], where `to` says whether there is such a place.
template <typename F>
void scattered(Literal& result, const Literal& operand, F to) {
  if (operand.shape().element_count() == 0) return;
  const Dims strides = row_major_strides(result.shape().dims());
  const auto size = static_cast<std::size_t>(dtype_bytes(operand.shape().dtype()));
  const std::byte* source = operand.bytes().data();
  std::byte* target = result.mutable_bytes().data();
  const Dims& dims = operand.shape().dims();
  Index index(at(dims.size()), 0);
  Index place(index);
  do {
    if (to(index, place)) {
      std::memcpy(target + offset_of(strides, place) * static_cast<std::int64_t>(size), source,
                  size);
    }
    source += size;
  } while (next_index(index, dims));
}

Literal with_same_bytes(const Shape& shape, const Literal& operand) {
  return Literal::from_bytes(shape, operand.bytes());
}

Literal broadcast(const Instruction& instruction, const Literal& operand) {
  const auto& dimensions = instruction.attributes().dimensions;
  return gathered(instruction.shape(), operand, [&](const Index& index, Index& from) {
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      from[i] = index[at(dimensions[i])];
    }
  });
}

Literal transpose(const Instruction& instruction, const Literal& operand) {
  const auto& permutation = instruction.attributes().dimensions;
  return gathered(instruction.shape(), operand, [&](const Index& index, Index& from) {
    for (std::size_t i = 0; i < permutation.size(); ++i) {
      from[at(permutation[i])] = index[i];
    }
  });
}

Literal slice(const Instruction& instruction, const Literal& operand) {
  const Attributes& a = instruction.attributes();
  return gathered(instruction.shape(), operand, [&](const Index& index, Index& from) {
    for (std::size_t i = 0; i < index.size(); ++i) {
      from[i] = a.slice_starts[i] + index[i] * a.slice_strides[i];
    }
  });
}

Literal reverse(const Instruction& instruction, const Literal& operand) {
  const auto& dimensions = instruction.attributes().dimensions;
  return gathered(instruction.shape(), operand, [&](const Index& index, Index& from) {
    from = index;
    for (std::int64_t d : dimensions) {
      const auto at = static_cast<std::size_t>(d);
      from[at] = instruction.shape().dim(static_cast<int>(d)) - 1 - index[at];
    }
  });
}

// Start indices are moved so that the whole slice lies inside.
Index clamped_starts(Operands starts, const Dims& dims, const Dims& sizes) {
  Index result;
  for (int i = 0; i < dims.size(); ++i) {
    result.push_back(
        std::clamp<std::int64_t>(integer_at(*starts[at(i)], 0), 0, dims[i] - sizes[i]));
  }
  return result;
}

Literal dynamic_slice(const Instruction& instruction, Operands operands) {
  const Literal& operand = *operands[0];
  const Index starts =
      clamped_starts(operands.subspan(1), operand.shape().dims(), instruction.shape().dims());
  return gathered(instruction.shape(), operand, [&](const Index& index, Index& from) {
    for (std::size_t i = 0; i < index.size(); ++i) from[i] = starts[i] + index[i];
  });
}

Literal dynamic_update_slice(const Instruction& instruction, Operands operands) {
  Literal result = with_same_bytes(instruction.shape(), *operands[0]);
  const Literal& update = *operands[1];
  const Index starts =
      clamped_starts(operands.subspan(2), instruction.shape().dims(), update.shape().dims());
  scattered(result, update, [&](const Index& index, Index& place) {
    for (std::size_t i = 0; i < index.size(); ++i) place[i] = starts[i] + index[i];
    return true;
  });
  return result;
}

Literal concatenate(const Instruction& instruction, Operands operands) {
  Literal result(instruction.shape());
  const auto along = at(instruction.attributes().dimensions[0]);
  std::int64_t start = 0;
  for (const Literal* operand : operands) {
    scattered(result, *operand, [&](const Index& index, Index& place) {
      place = index;
      place[along] += start;
      return true;
    });
    start += operand->shape().dim(static_cast<int>(along));
  }
  return result;
}

Literal pad(const Instruction& instruction, Operands operands) {
  Literal result(instruction.shape());
  const auto value = operands[1]->bytes();
  const auto bytes = result.mutable_bytes();
  for (std::size_t at = 0; at < bytes.size(); at += value.size()) {
    std::memcpy(bytes.data() + at, value.data(), value.size());
  }
  const auto& padding = instruction.attributes().padding;
  scattered(result, *operands[0], [&](const Index& index, Index& place) {
    for (std::size_t i = 0; i < index.size(); ++i) {
      place[i] = padding[i].low + index[i] * (padding[i].interior + 1);
      if (place[i] < 0 || place[i] >= instruction.shape().dim(static_cast<int>(i))) return false;
    }
    return true;
  });
  return result;
}

// Strides of the physical order that a layout names.
Dims physical_strides(const Shape& shape) {
  const Layout* layout = shape.layout();
  if (layout == nullptr || layout->minor_to_major.size() != at(shape.rank())) {
    return row_major_strides(shape.dims());
  }
  Dims strides = shape.dims();
  std::int64_t stride = 1;
  for (std::int64_t d : layout->minor_to_major) {
    if (d < 0 || d >= shape.rank()) return row_major_strides(shape.dims());
    strides[static_cast<int>(d)] = stride;
    stride *= shape.dim(static_cast<int>(d));
  }
  return strides;
}

// The elements of a row-major array in the order of its layout, or back.
std::vector<std::byte> reordered(std::span<const std::byte> bytes, const Shape& shape,
                                 bool to_physical) {
  std::vector<std::byte> result(bytes.begin(), bytes.end());
  const Dims strides = physical_strides(shape);
  if (shape.element_count() == 0 || strides == row_major_strides(shape.dims())) return result;
  const auto size = static_cast<std::size_t>(dtype_bytes(shape.dtype()));
  Index index(at(shape.rank()), 0);
  std::size_t logical = 0;
  do {
    const std::size_t physical = static_cast<std::size_t>(offset_of(strides, index)) * size;
    std::memcpy(result.data() + (to_physical ? physical : logical),
                bytes.data() + (to_physical ? logical : physical), size);
    logical += size;
  } while (next_index(index, shape.dims()));
  return result;
}

// The same bytes in memory under another shape and layout.
Literal bitcast(const Instruction& instruction, const Literal& operand) {
  Shape from = operand.shape();
  const Shape& declared = instruction.operand(0)->shape();
  if (declared.layout() != nullptr) from = declared;
  const auto physical = reordered(operand.bytes(), from, true);
  return Literal::from_bytes(instruction.shape(), reordered(physical, instruction.shape(), false));
}

}  // namespace

std::int64_t integer_at(const Literal& literal, std::int64_t index) {
  return visit_dtype(literal.shape().dtype(), [&](auto tag) -> std::int64_t {
    using T = decltype(tag);
    const auto value = read<T>(literal.bytes().data(), index);
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      return static_cast<std::int64_t>(std::min<std::uint64_t>(value, INT64_MAX));
    } else {
      return static_cast<std::int64_t>(value);
    }
  });
}

Result<Literal> creation(Context& context, const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::constant: {
      const Literal& literal = *instruction.attributes().literal;
      if (literal.is_elided()) {
        return failed_precondition("constant '" + instruction.name() +
                                   "': its values were left out of the text ({...})");
      }
      return literal;
    }
    case Opcode::iota: {
      const Shape& shape = instruction.shape();
      Literal result(shape);
      const auto along = static_cast<int>(instruction.attributes().dimensions[0]);
      const std::int64_t stride = row_major_strides(shape.dims())[along];
      std::byte* bytes = result.mutable_bytes().data();
      for (std::int64_t i = 0; i < shape.element_count(); ++i) {
        const std::int64_t value = i / stride % shape.dim(along);
        convert_elements({DType::s64, reinterpret_cast<const std::byte*>(&value)}, shape.dtype(),
                         bytes + i * dtype_bytes(shape.dtype()), 1);
      }
      return result;
    }
    default: {  // partition-id, replica-id
      const Topology topology = topology_of(instruction);
      const std::int64_t self = context.participation.participant;
      const bool of_replica = instruction.opcode() == Opcode::replica_id;
      Literal id(instruction.shape());
      id.set(0, static_cast<double>(of_replica ? self / topology.partitions
                                               : self % topology.partitions));
      return id;
    }
  }
}

Result<Literal> movement(const Instruction& instruction, Operands operands) {
  const Literal& operand = *operands[0];
  switch (instruction.opcode()) {
    case Opcode::bitcast:
      return bitcast(instruction, operand);
    case Opcode::reshape:
      return with_same_bytes(instruction.shape(), operand);
    case Opcode::broadcast:
      return broadcast(instruction, operand);
    case Opcode::transpose:
      return transpose(instruction, operand);
    case Opcode::slice:
      return slice(instruction, operand);
    case Opcode::reverse:
      return reverse(instruction, operand);
    case Opcode::dynamic_slice:
      return dynamic_slice(instruction, operands);
    case Opcode::dynamic_update_slice:
      return dynamic_update_slice(instruction, operands);
    case Opcode::concatenate:
      return concatenate(instruction, operands);
    case Opcode::pad:
      return pad(instruction, operands);
    default:
      return unsupported(instruction, "not a movement operation");
  }
}

}  // namespace plimsoll::ir::interpreter
