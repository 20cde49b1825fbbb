// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/passes/expand/expansions.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

// The letter of LAPACK's names: s, d, c or z.
char letter_of(DType dtype) {
  const bool is_wide = ir::part_dtype(dtype) == DType::f64;
  return ir::is_complex(dtype) ? (is_wide ? 'z' : 'c') : (is_wide ? 'd' : 's');
}

// 16-bit floats are computed in f32.
DType computed_in(DType dtype) {
  return ir::is_floating(dtype) && dtype != DType::f64 ? DType::f32 : dtype;
}

Instruction* converted(Instruction* value, DType dtype) {
  if (value->shape().dtype() == dtype) return value;
  return value->parent()->add(Opcode::convert, Shape(dtype, value->shape().dims()), {value});
}

Instruction* call(Instruction& of, std::string function, Shape shape,
                  std::vector<Instruction*> operands, std::string options) {
  Attributes attributes;
  attributes.custom_call_target =
      std::string("lapack_") + letter_of(operands[0]->shape().dtype()) + function + "_ffi";
  attributes.extra.emplace_back("backend_config", std::move(options));
  return of.parent()->add(Opcode::custom_call, std::move(shape), std::move(operands), of.name(),
                          std::move(attributes));
}

std::string option(std::string_view name, char letter) {
  return std::string(name) + " = " + std::to_string(static_cast<int>(letter)) + " : ui8";
}

bool is_set(const Instruction& instruction, std::string_view name) {
  return instruction.attributes().find_extra(name) == "true";
}

Instruction* nan_like(Instruction* value) {
  Computation& computation = *value->parent();
  const Shape& shape = value->shape();
  ir::Literal nan(Shape(shape.dtype(), {}));
  const double none = std::numeric_limits<double>::quiet_NaN();
  if (shape.dtype() == DType::c64) {
    nan.mutable_data<float>()[0] = nan.mutable_data<float>()[1] = static_cast<float>(none);
  } else if (shape.dtype() == DType::c128) {
    nan.mutable_data<double>()[0] = nan.mutable_data<double>()[1] = none;
  } else {
    nan.set(0, none);
  }
  return computation.add(Opcode::broadcast, shape, {computation.add_constant(std::move(nan))});
}

}  // namespace

Expansion expand_cholesky(Instruction& instruction) {
  Computation& computation = *instruction.parent();
  const DType dtype = instruction.shape().dtype();
  Instruction* const a = converted(instruction.operand(0), computed_in(dtype));
  const Shape& shape = a->shape();
  std::vector<std::int64_t> batch(shape.dims().begin(), shape.dims().end() - 2);
  const Shape info_shape(DType::s32, batch);
  Instruction* const made =
      call(instruction, "potrf", Shape::tuple({shape, info_shape}), {a},
           "{" + option("uplo", is_set(instruction, "lower") ? 'L' : 'U') + "}");
  Instruction* const factor = computation.add_get_tuple_element(made, 0);
  Instruction* const info = computation.add_get_tuple_element(made, 1);
  Instruction* zero = computation.add_constant(ir::Literal(Shape(DType::s32, {})));
  if (!batch.empty()) zero = computation.add(Opcode::broadcast, info_shape, {zero});
  Attributes equal;
  equal.comparison_direction = ir::ComparisonDirection::eq;
  Instruction* const succeeded = computation.add(Opcode::compare, Shape(DType::pred, batch),
                                                 {info, zero}, {}, std::move(equal));
  Attributes over;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    over.dimensions.push_back(static_cast<std::int64_t>(i));
  }
  Instruction* const everywhere = computation.add(
      Opcode::broadcast, Shape(DType::pred, shape.dims()), {succeeded}, {}, std::move(over));
  return converted(computation.add(Opcode::select, shape, {everywhere, factor, nan_like(factor)}),
                   dtype);
}

Expansion expand_triangular_solve(Instruction& instruction) {
  const DType dtype = instruction.shape().dtype();
  const DType computed = computed_in(dtype);
  Instruction* const a = converted(instruction.operand(0), computed);
  Instruction* const b = converted(instruction.operand(1), computed);
  const std::string_view transpose = instruction.attributes().find_extra("transpose_a");
  const char trans = transpose == "TRANSPOSE" ? 'T' : transpose == "ADJOINT" ? 'C' : 'N';
  const std::string options = "{" +
                              option("diag", is_set(instruction, "unit_diagonal") ? 'U' : 'N') +
                              ", " + option("side", is_set(instruction, "left_side") ? 'L' : 'R') +
                              ", " + option("trans_x", trans) + ", " +
                              option("uplo", is_set(instruction, "lower") ? 'L' : 'U') + "}";
  return converted(call(instruction, "trsm", b->shape(), {a, b}, options), dtype);
}

Expansion expand_fft(Instruction& instruction) {
  Attributes attributes;
  attributes.custom_call_target = "plimsoll.fft";
  attributes.extra = instruction.attributes().extra;
  return instruction.parent()->add(Opcode::custom_call, instruction.shape(),
                                   {instruction.operand(0)}, instruction.name(),
                                   std::move(attributes));
}

}  // namespace plimsoll::passes
