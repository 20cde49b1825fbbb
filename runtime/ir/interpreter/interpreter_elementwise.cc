// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/interpreter/interpreter_elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "runtime/ir/interpreter/interpreter_numbers.h"
#include "runtime/ir/interpreter/interpreter_parts.h"
#include "runtime/ir/truths.h"

namespace plimsoll::ir::interpreter {
namespace {

template <typename To, typename From>
Number<To> converted(From value) {
  if constexpr (kIsPred<To>) {
    return value != From{0};
  } else if constexpr (kIsInteger<To> && std::is_floating_point_v<From>) {
    if (std::isnan(value)) return 0;
    // The limits as floats are exact powers of two (the upper one exclusive).
    const From lowest = static_cast<From>(std::numeric_limits<To>::lowest());
    const From beyond = std::ldexp(From{1}, std::numeric_limits<To>::digits);
    if (value < lowest) return std::numeric_limits<To>::lowest();
    if (value >= beyond) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<Number<To>>(value);
  }
}

// A view of the same elements in another dtype; `storage` owns them when they had to be converted.
View in_dtype(const View& view, DType dtype, std::int64_t count, std::vector<std::byte>& storage) {
  if (view.dtype == dtype) return view;
  const std::int64_t converted_count = view.repeats ? 1 : count;
  storage.resize(static_cast<std::size_t>(converted_count * dtype_bytes(dtype)));
  convert_elements({view.dtype, view.data}, dtype, storage.data(), converted_count);
  return {dtype, storage.data(), view.repeats};
}

void apply_select(const View& predicate, const View& on_true, const View& on_false,
                  std::byte* result, std::int64_t count) {
  visit_dtype(on_true.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = 0; i < count; ++i) {
      const View& from = read<bool>(predicate, i) ? on_true : on_false;
      const std::int64_t at = from.repeats ? 0 : i;
      std::memmove(result + i * static_cast<std::int64_t>(sizeof(T)),
                   from.data + at * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    }
  });
}

// In one dtype.
void apply_uniform(Opcode opcode, const Attributes& attributes, std::span<const View> operands,
                   std::byte* result, std::int64_t count) {
  switch (opcode) {
    case Opcode::select:
      return apply_select(operands[0], operands[1], operands[2], result, count);
    case Opcode::clamp: {
      std::vector<std::byte> raised(
          static_cast<std::size_t>(count * dtype_bytes(operands[1].dtype)));
      apply_binary(Opcode::maximum, operands[0], operands[1], raised.data(), count);
      return apply_binary(Opcode::minimum, {operands[1].dtype, raised.data()}, operands[2], result,
                          count);
    }
    case Opcode::compare:
      return apply_compare(attributes, operands[0], operands[1], result, count);
    default:
      if (operands.size() == 1) return apply_unary(opcode, attributes, operands[0], result, count);
      return apply_binary(opcode, operands[0], operands[1], result, count);
  }
}

// Bits of elements that change size: the last dimension holds the parts, low part first.
void bitcast_elements(const Literal& from, DType to_dtype, std::span<std::byte> to) {
  const auto bytes = from.bytes();
  if (!to.empty()) std::memcpy(to.data(), bytes.data(), std::min(to.size(), bytes.size()));
  if (to_dtype == DType::pred) make_truths(to);
}

}  // namespace

DType meeting_dtype(DType a, DType b) {
  if (a == b || !is_floating(a) || !is_floating(b)) return a;
  return a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32;
}

void convert_elements(const View& from, DType to_dtype, std::byte* to, std::int64_t count) {
  visit_dtype(from.dtype, [&](auto from_tag) {
    using From = decltype(from_tag);
    visit_dtype(to_dtype, [&](auto to_tag) {
      using To = decltype(to_tag);
      for (std::int64_t i = 0; i < count; ++i) {
        write<To>(to, i, converted<To>(read<From>(from, i)));
      }
    });
  });
}

void apply_elementwise(Opcode opcode, const Attributes& attributes, std::span<const View> operands,
                       DType result_dtype, std::byte* result, std::int64_t count) {
  if (opcode == Opcode::convert) return convert_elements(operands[0], result_dtype, result, count);
  const bool predicate_result = op_info(opcode).shape_rule == ShapeRule::predicate;
  const std::size_t first = opcode == Opcode::select ? 1 : 0;
  DType dtype = predicate_result ? operands[first].dtype : result_dtype;
  for (std::size_t i = first; i < operands.size(); ++i) {
    dtype = meeting_dtype(dtype, operands[i].dtype);
  }
  std::vector<std::byte> storage[3];
  View views[3];
  for (std::size_t i = 0; i < operands.size(); ++i) {
    views[i] = i < first ? operands[i] : in_dtype(operands[i], dtype, count, storage[i]);
  }
  const std::span<const View> uniform(views, operands.size());
  if (predicate_result || dtype == result_dtype) {
    return apply_uniform(opcode, attributes, uniform, result, count);
  }
  std::vector<std::byte> wide(static_cast<std::size_t>(count * dtype_bytes(dtype)));
  apply_uniform(opcode, attributes, uniform, wide.data(), count);
  convert_elements({dtype, wide.data()}, result_dtype, result, count);
}

Result<Literal> elementwise(const Instruction& instruction, Operands operands) {
  if (instruction.opcode() == Opcode::copy) return *operands[0];
  Literal result(instruction.shape());
  const DType dtype = instruction.shape().dtype();
  if (instruction.opcode() == Opcode::bitcast_convert) {
    bitcast_elements(*operands[0], dtype, result.mutable_bytes());
    return result;
  }
  std::vector<View> views;
  for (const Literal* operand : operands) {
    views.push_back(
        {operand->shape().dtype(), operand->bytes().data(), operand->shape().is_scalar()});
  }
  apply_elementwise(instruction.opcode(), instruction.attributes(), views, dtype,
                    result.mutable_bytes().data(), instruction.shape().element_count());
  return result;
}

}  // namespace plimsoll::ir::interpreter
