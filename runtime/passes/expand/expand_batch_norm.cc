// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/expand/expansions.h"
#include "runtime/passes/expand/numbers.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

// Computes in f32 where the program has fewer bits: arrays like the operand, and vectors of its
// features.
class Normalization {
 public:
  explicit Normalization(Instruction& instruction)
      : instruction_(instruction),
        to_(*instruction.parent()),
        given_(instruction.operand(0)->shape()),
        dtype_(given_.dtype() == DType::f64 ? DType::f64 : DType::f32),
        shape_(dtype_, given_.dims()) {
    const std::string_view feature = instruction.attributes().find_extra("feature_index");
    (void)std::from_chars(feature.data(), feature.data() + feature.size(), feature_);
    // A number out of the program's text: from_chars for floats knows no locale either.
    const std::string_view epsilon = instruction.attributes().find_extra("epsilon");
    (void)std::from_chars(epsilon.data(), epsilon.data() + epsilon.size(), epsilon_);
    features_ = Shape(dtype_, {given_.dim(static_cast<int>(feature_))});
    count_ = 1;
    for (int i = 0; i < given_.rank(); ++i) {
      if (i != feature_) count_ *= given_.dim(i);
    }
  }

  Instruction* training() {
    Instruction* const x = operand(0);
    Instruction* const mean = average(x);
    Instruction* const off = binary(Opcode::subtract, x, spread(mean));
    Instruction* const variance = average(binary(Opcode::multiply, off, off));
    Instruction* const normal = scaled(off, variance, operand(1));
    return to_.add_tuple({converted(binary(Opcode::add, normal, spread(operand(2)))),
                          converted(mean), converted(variance)});
  }
  Instruction* inference() {
    Instruction* const off = binary(Opcode::subtract, operand(0), spread(operand(3)));
    return converted(binary(Opcode::add, scaled(off, operand(4), operand(1)), spread(operand(2))));
  }
  // With d the gradient of the result and s = 1 / sqrt(variance + epsilon), over n elements a
  // feature: of the offset sum(d), of the scale sum(d (x - mean)) s, of the operand scale s (d -
  // (sum(d) + (x - mean) s^2 sum(d (x - mean))) / n).
  Instruction* gradient() {
    Instruction* const off = binary(Opcode::subtract, operand(0), spread(operand(2)));
    Instruction* const d = operand(4);
    Instruction* const inverse = inverse_deviation(operand(3));
    Instruction* const of_offset = sum(d);
    Instruction* const along = sum(binary(Opcode::multiply, d, off));
    Instruction* const of_scale = binary(Opcode::multiply, along, inverse);
    Instruction* const slope = binary(Opcode::multiply, of_scale, inverse);
    Instruction* const mean =
        binary(Opcode::divide,
               binary(Opcode::add, spread(of_offset), binary(Opcode::multiply, off, spread(slope))),
               number(shape_, static_cast<double>(count_)));
    Instruction* const factor = binary(Opcode::multiply, operand(1), inverse);
    return to_.add_tuple(
        {converted(binary(Opcode::multiply, spread(factor), binary(Opcode::subtract, d, mean))),
         converted(of_scale), converted(of_offset)});
  }

 private:
  Instruction* operand(int i) {
    Instruction* const given = instruction_.operand(i);
    if (given->shape().dtype() == dtype_) return given;
    return to_.add(Opcode::convert, Shape(dtype_, given->shape().dims()), {given});
  }
  Instruction* converted(Instruction* value) {
    if (given_.dtype() == dtype_) return value;
    return to_.add(Opcode::convert, Shape(given_.dtype(), value->shape().dims()), {value});
  }
  Instruction* binary(Opcode opcode, Instruction* a, Instruction* b) {
    return to_.add(opcode, a->shape(), {a, b});
  }
  Instruction* number(const Shape& shape, double value) { return add_number(to_, shape, value); }
  Instruction* spread(Instruction* vector) {
    Attributes over;
    over.dimensions = {feature_};
    return to_.add(Opcode::broadcast, shape_, {vector}, {}, std::move(over));
  }
  Instruction* sum(Instruction* value) {
    Attributes over;
    for (int i = 0; i < given_.rank(); ++i) {
      if (i != feature_) over.dimensions.push_back(i);
    }
    Instruction* const zero = to_.add_constant(ir::Literal(Shape(dtype_, {})));
    Instruction* const made =
        to_.add(Opcode::reduce, features_, {value, zero}, {}, std::move(over));
    made->set_called_computations({ir::scalar_computation(*to_.module(), Opcode::add, dtype_)});
    return made;
  }
  Instruction* average(Instruction* value) {
    return binary(Opcode::divide, sum(value), number(features_, static_cast<double>(count_)));
  }
  Instruction* inverse_deviation(Instruction* variance) {
    Instruction* const shifted = binary(Opcode::add, variance, number(features_, epsilon_));
    return to_.add(Opcode::rsqrt, features_, {shifted});
  }
  Instruction* scaled(Instruction* off, Instruction* variance, Instruction* scale) {
    return binary(Opcode::multiply, off,
                  spread(binary(Opcode::multiply, inverse_deviation(variance), scale)));
  }

  Instruction& instruction_;
  Computation& to_;
  const Shape given_;
  const DType dtype_;
  const Shape shape_;
  Shape features_;
  std::int64_t feature_ = 0, count_ = 1;
  double epsilon_ = 0;
};

}  // namespace

Expansion expand_batch_norm(Instruction& instruction) {
  Normalization normalization(instruction);
  switch (instruction.opcode()) {
    case Opcode::batch_norm_training:
      return normalization.training();
    case Opcode::batch_norm_inference:
      return normalization.inference();
    default:
      return normalization.gradient();
  }
}

}  // namespace plimsoll::passes
