// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/builder.h"

#include <gtest/gtest.h>

namespace plimsoll::ir {
namespace {

TEST(Builder, InfersTheShapeAndAppends) {
  Module module("m");
  Computation* entry = module.add_computation("entry");
  Instruction* x = entry->add_parameter(0, Shape(DType::f32, {2, 3}));
  const Result<Instruction*> y = build(*entry, Opcode::exponential, {x}, {}, {}, nullptr, "y");
  ASSERT_TRUE(y.ok());
  EXPECT_EQ((*y)->name(), "y");
  EXPECT_EQ((*y)->shape().to_string(), "f32[2,3]");
  EXPECT_EQ(entry->root(), *y);
}

TEST(Builder, ErrorsAppendNothing) {
  Module module("m");
  Computation* entry = module.add_computation("entry");
  Computation* other = module.add_computation("other");
  Instruction* x = entry->add_parameter(0, Shape(DType::f32, {2}));
  Instruction* z = other->add_parameter(0, Shape(DType::f32, {2}));
  EXPECT_EQ(build(*entry, Opcode::add, {x, z}).status().message(),
            "add: operand 1 is not of computation 'entry'");
  EXPECT_EQ(build(*entry, Opcode::reshape, {x}).status().message(),
            "reshape: the result shape must be given");
  EXPECT_EQ(entry->instruction_count(), 1);
}

TEST(Builder, ScalarComputationsAreShared) {
  Module module("m");
  Computation* sum = scalar_computation(module, Opcode::add, DType::f32);
  EXPECT_EQ(scalar_computation(module, Opcode::add, DType::f32), sum);
  EXPECT_NE(scalar_computation(module, Opcode::add, DType::f64), sum);
  EXPECT_NE(scalar_computation(module, Opcode::maximum, DType::f32), sum);
  EXPECT_TRUE(is_binary_computation(*sum, Opcode::add));
  EXPECT_FALSE(is_binary_computation(*sum, Opcode::multiply));
}

TEST(Builder, BinaryComputationMustUseBothParametersOnce) {
  Module module("m");
  Computation* twice = module.add_computation("twice");
  Instruction* x = twice->add_parameter(0, Shape(DType::f32, {}));
  twice->add_parameter(1, Shape(DType::f32, {}));
  twice->add(Opcode::add, Shape(DType::f32, {}), {x, x});
  EXPECT_FALSE(is_binary_computation(*twice, Opcode::add));
}

}  // namespace
}  // namespace plimsoll::ir
