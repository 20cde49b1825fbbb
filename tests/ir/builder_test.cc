// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

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

// Every value knows each of its users once, whatever is replaced by what.
TEST(Users, AreThoseWhoseOperandAValueIs) {
  std::mt19937 random(4);
  const Shape shape(DType::f32, {2});
  Module module("m");
  Computation* entry = module.add_computation("entry");
  std::vector<Instruction*> all{entry->add_parameter(0, shape)};
  const auto any = [&](std::size_t end) { return all[random() % end]; };
  for (int i = 0; i < 30; ++i)
    all.push_back(entry->add(Opcode::add, shape, {any(all.size()), all[0]}));
  std::vector<Instruction*> many;
  for (int i = 0; i < 40; ++i) many.push_back(any(all.size()));
  Instruction* const tuple = entry->add_tuple(many);
  for (int step = 0; step < 300; ++step) {
    const std::size_t at = 1 + random() % (all.size() - 1);
    if (step % 3 == 0) {
      all[at]->replace_all_uses_with(any(at));
    } else if (step % 3 == 1) {
      tuple->replace_operand(static_cast<int>(random() % many.size()), any(all.size()));
    } else {
      all[at]->replace_operand(static_cast<int>(random() % 2), any(at));
    }
    for (Instruction* value : all) {
      std::vector<const Instruction*> expected,
          actual(value->users().begin(), value->users().end());
      for (const auto& user : entry->instructions()) {
        const auto& operands = user->operands();
        if (std::find(operands.begin(), operands.end(), value) != operands.end()) {
          expected.push_back(user.get());
        }
      }
      std::sort(expected.begin(), expected.end());
      std::sort(actual.begin(), actual.end());
      ASSERT_EQ(actual, expected) << value->name() << " after step " << step;
    }
  }
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
