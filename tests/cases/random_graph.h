// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/ir/shapes/builder.h"
#include "tests/cases/random.h"

// How random modules are put together; only random_*.cc include this.
namespace plimsoll::cases {

// An array of f32 and what is known of it.
struct Value {
  ir::Instruction* at = nullptr;
  double bound = 2;   // of the magnitudes, for arguments in [-2, 2]
  bool exact = true;  // no sum of floats on the way: every implementation has the same bits

  const ir::Dims& dims() const { return at->shape().dims(); }
};

// Appends instructions to one computation. A mistake of the generator (a shape that inference
// refuses) throws std::logic_error, so that tests see it.
class Graph {
 public:
  explicit Graph(ir::Computation& computation) : computation_(computation) {}
  ir::Computation& computation() const { return computation_; }
  ir::Module& module() const { return *computation_.module(); }

  ir::Instruction* op(ir::Opcode opcode, std::vector<ir::Instruction*> operands,
                      ir::Attributes attributes = {}, std::vector<ir::Computation*> called = {},
                      const ir::Shape* given = nullptr);
  ir::Instruction* given(ir::Opcode opcode, const ir::Shape& shape,
                         std::vector<ir::Instruction*> operands, ir::Attributes attributes = {},
                         std::vector<ir::Computation*> called = {});
  template <typename T>
  ir::Instruction* scalar(T value) {
    return computation_.add_constant(ir::Literal::scalar(value));
  }

  ir::Instruction* spread(ir::Instruction* scalar, const ir::Dims& dims);
  Value constant(double value, const ir::Dims& dims);
  Value unary(ir::Opcode opcode, Value x, double bound);
  // Equal dims.
  Value binary(ir::Opcode opcode, Value x, Value y, double bound);
  Value scaled(Value x, double factor);
  // Brought under 2.
  Value tamed(Value x);
  Value reshaped(Value x, const ir::Dims& dims);
  Value broadcast(Value x, const ir::Dims& dims, std::vector<std::int64_t> dimensions);
  Value transposed(Value x, std::vector<std::int64_t> permutation);
  Value sliced(Value x, std::vector<std::int64_t> starts, std::vector<std::int64_t> limits,
               std::vector<std::int64_t> strides);
  // Any array as one of `dims`, by the movements it takes.
  Value fitted(Value x, const ir::Dims& dims);
  // Sum, maximum or minimum over `dimensions`, not scaled.
  Value reduced(ir::Opcode opcode, Value x, std::vector<std::int64_t> dimensions);
  Value mean(Value x, std::vector<std::int64_t> dimensions);
  // [m, k] times [k, n], scaled by about the square root of k.
  Value dot(Value x, Value y);
  ir::Instruction* compare(ir::Instruction* x, ir::Instruction* y,
                           ir::ComparisonDirection direction);
  ir::Instruction* convert(ir::Instruction* x, ir::DType dtype);

 private:
  ir::Computation& computation_;
};

}  // namespace plimsoll::cases
