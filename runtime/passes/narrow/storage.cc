// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/narrow/storage.h"

#include <utility>
#include <vector>

#include "runtime/passes/narrow/codes.h"

namespace plimsoll::passes::narrow_types {

using ir::Attributes;
using ir::DType;
using ir::Instruction;
using ir::Literal;
using ir::Opcode;
using ir::Shape;

Instruction* made(Opcode opcode, Shape shape, std::vector<Instruction*> operands,
                  Attributes attributes) {
  ir::Computation& to = *operands[0]->parent();
  return to.add(opcode, std::move(shape), std::move(operands), {}, std::move(attributes));
}

Instruction* reshaped(Instruction* value, const ir::Dims& dims) {
  if (value->shape().dims() == dims) return value;
  return made(Opcode::reshape, Shape(value->shape().dtype(), dims), {value});
}

Instruction* low_bits(Instruction* code, DType dtype) {
  if (ir::dtype_bits(dtype) == 8 || code_dtype(dtype) == DType::u8) return code;
  Instruction* const byte =
      made(Opcode::bitcast_convert, Shape(DType::u8, code->shape().dims()), {code});
  return wrap(byte, ir::dtype_bits(dtype) == 2 ? DType::u2 : DType::u4);
}

Instruction* code_of(Instruction* bits, DType dtype) {
  if (code_dtype(dtype) == DType::u8) return bits;
  const Shape shape(DType::s8, bits->shape().dims());
  return wrap(made(Opcode::bitcast_convert, shape, {bits}), dtype);
}

Instruction* unpack(Instruction* bytes, const Shape& shape) {
  const int bits = ir::dtype_bits(shape.dtype());
  if (bits == 8) return bytes;
  const std::int64_t count = shape.element_count();
  Instruction* all =
      reshaped(split_bytes(bytes, bits, 8 / bits), {bytes->shape().dim(0) * (8 / bits)});
  if (all->shape().dim(0) != count) {
    Attributes first;
    first.slice_starts = {0};
    first.slice_limits = {count};
    first.slice_strides = {1};
    all = made(Opcode::slice, Shape(DType::u8, {count}), {all}, std::move(first));
  }
  return code_of(reshaped(all, shape.dims()), shape.dtype());
}

Instruction* pack(Instruction* code, const Shape& shape) {
  const int bits = ir::dtype_bits(shape.dtype());
  if (bits == 8) return code;
  const std::int64_t count = shape.element_count(), bytes = shape.byte_size();
  const std::int64_t room = bytes * (8 / bits);
  Instruction* all = reshaped(low_bits(code, shape.dtype()), {count});
  if (room != count) {
    Attributes attributes;
    attributes.padding = {{0, room - count, 0}};
    Instruction* const zero = code->parent()->add_constant(Literal(Shape(DType::u8, {})));
    all = made(Opcode::pad, Shape(DType::u8, {room}), {all, zero}, std::move(attributes));
  }
  return join_bytes(reshaped(all, {bytes, 8 / bits}), bits);
}

Shape stored(const Shape& shape) {
  if (shape.is_tuple()) {
    std::vector<Shape> elements;
    for (const Shape& element : shape.elements()) elements.push_back(stored(element));
    return Shape::tuple(std::move(elements));
  }
  if (!shape.is_array() || !ir::is_narrow(shape.dtype())) return shape;
  if (ir::dtype_bits(shape.dtype()) == 8) return Shape(DType::u8, shape.dims());
  return Shape(DType::u8, {shape.byte_size()});
}

}  // namespace plimsoll::passes::narrow_types
