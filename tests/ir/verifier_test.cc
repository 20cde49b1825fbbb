// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/verifier.h"

#include <gtest/gtest.h>

#include "runtime/ir/shapes/builder.h"

namespace plimsoll::ir {
namespace {

struct Small {
  Module module{"m"};
  Computation* entry = module.add_computation("entry");
  Instruction* x = entry->add_parameter(0, Shape(DType::f32, {2}), "x");
  Instruction* y = entry->add(Opcode::negate, Shape(DType::f32, {2}), {x}, "y");
  Small() { module.set_entry(entry); }
  std::string message() const { return verify(module).message(); }
};

TEST(Verifier, AcceptsAValidModule) { EXPECT_EQ(Small().message(), ""); }

TEST(Verifier, NamesComputationAndInstructionOfAWrongShape) {
  Small small;
  small.y->set_shape(Shape(DType::f32, {3}));
  EXPECT_EQ(small.message(),
            "computation 'entry': instruction 'y': negate: result is f32[2], not f32[3]");
}

TEST(Verifier, RefusesAUseBeforeItsDefinition) {
  Small small;
  small.entry->set_order({small.y, small.x});
  EXPECT_EQ(small.message(),
            "computation 'entry': instruction 'y': operand 'x' comes later in the schedule");
}

TEST(Verifier, RefusesAControlPredecessorThatComesLater) {
  Small small;
  Instruction* z = small.entry->add(Opcode::negate, Shape(DType::f32, {2}), {small.x}, "z");
  small.y->add_control_predecessor(z);
  EXPECT_EQ(small.message(),
            "computation 'entry': instruction 'y': control predecessor 'z' comes later in the "
            "schedule");
}

TEST(Verifier, RefusesGapsAmongParameters) {
  Small small;
  small.entry->add_parameter(2, Shape(DType::f32, {}), "z");
  EXPECT_EQ(small.message(), "computation 'entry': parameter numbers are not 0..2 without gaps");
}

TEST(Verifier, RefusesRecursion) {
  Small small;
  Instruction* call = small.entry->add(Opcode::call, Shape(DType::f32, {2}), {small.x}, "call");
  call->set_called_computations({small.entry});
  EXPECT_EQ(small.message(), "computation 'entry' calls itself");
}

TEST(Verifier, RefusesAliasesOfWhatDoesNotExistOrFit) {
  Small small;
  small.module.input_output_alias = {
      {.output_index = {1}, .parameter_number = 0, .parameter_index = {}}};
  EXPECT_EQ(small.message(), "input_output_alias {1}: the result has no such element");
  small.module.input_output_alias = {
      {.output_index = {}, .parameter_number = 3, .parameter_index = {}}};
  EXPECT_EQ(small.message(), "input_output_alias {}: there is no parameter 3 {}");
  small.module.input_output_alias = {
      {.output_index = {}, .parameter_number = 0, .parameter_index = {}}};
  EXPECT_EQ(small.message(), "");
  small.module.buffer_donor = {{.parameter_number = 0, .parameter_index = {}}};
  EXPECT_EQ(small.message(), "parameter {} is aliased or donated twice");
}

TEST(Verifier, RefusesADoneWithoutItsStart) {
  Small small;
  small.entry->add(Opcode::copy_done, Shape(DType::f32, {2}),
                   {small.entry->add_tuple({small.y, small.x})}, "done");
  EXPECT_EQ(small.message(),
            "computation 'entry': instruction 'done': copy-done: operand is tuple, must be "
            "copy-start");
}

TEST(Verifier, RefusesWhileBodiesOfAnotherType) {
  Small small;
  Computation* condition = small.module.add_computation("condition");
  condition->add_parameter(0, Shape(DType::f32, {2}));
  condition->add_constant(Literal::scalar(true));
  Computation* body = small.module.add_computation("body");
  body->add_parameter(0, Shape(DType::f32, {3}), "p");
  Instruction* loop = small.entry->add(Opcode::while_, Shape(DType::f32, {2}), {small.y}, "loop");
  loop->set_called_computations({condition, body});
  EXPECT_EQ(small.message(),
            "computation 'entry': instruction 'loop': while: parameter 0 of 'body' is f32[3], must "
            "be f32[2]");
}

}  // namespace
}  // namespace plimsoll::ir
