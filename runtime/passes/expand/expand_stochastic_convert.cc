// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <utility>

#include "runtime/passes/expand/expansions.h"
#include "runtime/passes/expand/numbers.h"

namespace plimsoll::passes {
namespace {

using ir::Computation;
using ir::DType;
using ir::DTypeClass;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

// The fraction of the size, as so many bits as are random, is compared with these: that many of all
// random numbers are smaller. What the type can't hold becomes its nearest, NaN zero, as of a
// convert.
class StochasticConvert {
 public:
  explicit StochasticConvert(Instruction& instruction)
      : to_(*instruction.parent()), shape_(instruction.shape()) {}

  Instruction* make(Instruction* value, Instruction* random) {
    // Exact for f16 and bfloat16; what has been widened has the same fraction.
    const DType dtype = value->shape().dtype() == DType::f64 ? DType::f64 : DType::f32;
    const Shape wide(dtype, shape_.dims()), truths(DType::pred, shape_.dims());
    Instruction* const given = to_.add(Opcode::convert, wide, {value});
    Instruction* const size = to_.add(Opcode::abs, wide, {given});
    Instruction* const whole = to_.add(Opcode::floor, wide, {size});
    Instruction* const fraction = to_.add(Opcode::subtract, wide, {size, whole});
    const int bits = 8 * static_cast<int>(ir::dtype_bytes(random->shape().dtype()));
    Instruction* const scaled =
        to_.add(Opcode::multiply, wide, {fraction, number(wide, std::ldexp(1.0, bits))});
    Instruction* const most = to_.add(Opcode::convert, random->shape(), {scaled});
    Instruction* const goes_up = compare(random, most, ir::ComparisonDirection::lt);
    Instruction* const up = to_.add(Opcode::add, wide, {whole, number(wide, 1)});
    Instruction* const rounded = to_.add(Opcode::select, wide, {goes_up, up, whole});
    Instruction* const turned = to_.add(Opcode::negate, wide, {rounded});
    Instruction* const is_negative = compare(given, number(wide, 0), ir::ComparisonDirection::lt);
    return to_.add(Opcode::convert, shape_,
                   {to_.add(Opcode::select, wide, {is_negative, turned, rounded})});
  }

 private:
  Instruction* compare(Instruction* a, Instruction* b, ir::ComparisonDirection direction) {
    ir::Attributes attributes;
    attributes.comparison_direction = direction;
    return to_.add(Opcode::compare, Shape(DType::pred, shape_.dims()), {a, b}, {},
                   std::move(attributes));
  }
  Instruction* number(const Shape& shape, double value) { return add_number(to_, shape, value); }

  Computation& to_;
  const Shape shape_;
};

}  // namespace

Expansion expand_stochastic_convert(Instruction& instruction) {
  const Shape& from = instruction.operand(0)->shape();
  const Shape& random = instruction.operand(1)->shape();
  const Shape& to = instruction.shape();
  if (!from.is_array() || !random.is_array() || !to.is_array() || from.dims() != to.dims() ||
      random.dims() != to.dims() || !ir::is_floating(from.dtype()) ||
      ir::dtype_class(random.dtype()) != DTypeClass::unsigned_int ||
      ir::dtype_bytes(random.dtype()) != ir::dtype_bytes(from.dtype())) {
    return invalid_argument("'" + instruction.name() +
                            "': stochastic-convert takes floats and random unsigned integers of "
                            "their width");
  }
  if (ir::dtype_class(to.dtype()) != DTypeClass::signed_int) {
    return unimplemented("'" + instruction.name() + "': stochastic-convert to " +
                         std::string(ir::to_string(to.dtype())) +
                         " (to signed integers it is supported)");
  }
  return StochasticConvert(instruction).make(instruction.operand(0), instruction.operand(1));
}

}  // namespace plimsoll::passes
