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

// Both ends of a channel, of which each has a shape, and something else there.
std::string channel_message(DType sent, DType received, bool has_other) {
  Small small;
  const auto collective =
      std::make_shared<CollectiveAttributes>(CollectiveAttributes{.channel_id = 4});
  const auto add = [&](Opcode opcode, const Shape& shape, std::vector<Instruction*> operands,
                       const char* name) {
    Attributes attributes;
    attributes.collective = collective;
    return small.entry->add(opcode, shape, std::move(operands), name, attributes);
  };
  const auto under_way = [](DType dtype) {
    return Shape::tuple({Shape(dtype, {2}), Shape(DType::u32, {}), Shape::token()});
  };
  Instruction* const converted =
      small.entry->add(Opcode::convert, Shape(sent, {2}), {small.x}, "converted");
  Instruction* const token = small.entry->add(Opcode::after_all, Shape::token(), {}, "token");
  Instruction* const send = add(Opcode::send, under_way(sent), {converted, token}, "s");
  Instruction* const recv = add(Opcode::recv, under_way(received), {token}, "r");
  add(Opcode::send_done, Shape::token(), {send}, "sd");
  add(Opcode::recv_done, Shape::tuple({Shape(received, {2}), Shape::token()}), {recv}, "rd");
  if (has_other) add(Opcode::collective_broadcast, Shape(DType::f32, {2}), {small.y}, "all");
  return small.message();
}

TEST(Verifier, RefusesChannelsWhoseEndsDoNotAgree) {
  EXPECT_EQ(channel_message(DType::f32, DType::f32, false), "");
  EXPECT_EQ(channel_message(DType::f32, DType::s32, false),
            "computation 'entry': instruction 's': send in channel 4, where nobody receives f32[2] "
            "('r' receives s32[2])");
  EXPECT_EQ(channel_message(DType::f32, DType::f32, true),
            "computation 'entry': instruction 'all': collective-broadcast in channel 4, which send "
            "'s' uses (give it one of its own)");
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
