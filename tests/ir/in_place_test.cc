// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/fusions/in_place.h"

#include <gtest/gtest.h>

#include <functional>

#include "runtime/ir/shapes/builder.h"

namespace plimsoll::ir {
namespace {

const Shape kArray(DType::f32, {4, 4});
const Shape kScalar(DType::s32, {});

// A module with an entry and one fused computation under construction.
struct Fused {
  Module module{"m"};
  Computation* fused = module.add_computation("fused");
  Instruction* a = fused->add_parameter(0, kArray);
  Instruction* b = fused->add_parameter(1, kArray);

  Instruction* fuse(bool same_operand = false) {
    Computation* entry = module.add_computation("entry");
    std::vector<Instruction*> operands;
    for (const Instruction* parameter : fused->parameters()) {
      operands.push_back(
          entry->add_parameter(static_cast<std::int64_t>(operands.size()), parameter->shape()));
    }
    if (same_operand) operands[1] = operands[0];
    Instruction* fusion = entry->add(Opcode::fusion, fused->root()->shape(), operands);
    fusion->set_called_computations({fused});
    return fusion;
  }
  Instruction* transpose(Instruction* x) {
    Attributes attributes;
    attributes.dimensions = {1, 0};
    return fused->add(Opcode::transpose, kArray, {x}, {}, attributes);
  }
};

TEST(InPlace, ElementwiseTakesEitherOperandOfItsSize) {
  Module module("m");
  Computation* entry = module.add_computation("entry");
  Instruction* x = entry->add_parameter(0, kArray);
  Instruction* y = entry->add_parameter(1, kArray);
  Instruction* sum = entry->add(Opcode::add, kArray, {x, y});
  EXPECT_TRUE(may_reuse_operand(*sum, 0, 0));
  EXPECT_TRUE(may_reuse_operand(*sum, 1, 0));
  EXPECT_FALSE(may_reuse_operand(*sum, 2, 0));
  EXPECT_FALSE(may_reuse_operand(*sum, 0, 1));
  Instruction* wide = entry->add(Opcode::convert, Shape(DType::f64, {4, 4}), {x});
  EXPECT_FALSE(may_reuse_operand(*wide, 0, 0));
}

TEST(InPlace, KernelOfItsOwnMayReadAnyOperandToTheEnd) {
  Fused f;
  f.fused->add(Opcode::add, kArray, {f.a, f.b});
  Instruction* fusion = f.fuse();
  EXPECT_TRUE(may_reuse_operand(*fusion, 0, 0));
  fusion->attributes().fusion_kind = FusionKind::custom;
  EXPECT_FALSE(may_reuse_operand(*fusion, 0, 0));
}

TEST(InPlace, TransposeNeverTakesItsOperand) {
  Fused f;
  EXPECT_FALSE(may_reuse_operand(*f.transpose(f.a), 0, 0));
}

TEST(InPlace, UpdateTakesWhatItUpdatesOnly) {
  Fused f;
  Instruction* i = f.fused->add_parameter(2, kScalar);
  Instruction* update = f.fused->add(Opcode::dynamic_update_slice, kArray, {f.a, f.b, i, i});
  EXPECT_TRUE(may_reuse_operand(*update, 0, 0));
  EXPECT_FALSE(may_reuse_operand(*update, 1, 0));
  Instruction* fusion = f.fuse();
  EXPECT_TRUE(may_reuse_operand(*fusion, 0, 0));
  EXPECT_FALSE(may_reuse_operand(*fusion, 1, 0));
}

// dynamic-update-slice(a, f(dynamic-slice(a, i, j)), k, l) of one row.
bool may_update(const std::function<Instruction*(Fused&, Instruction*)>& made, bool same_place,
                std::int64_t rows = 1) {
  Fused f;
  Instruction* const i = f.fused->add_parameter(2, kScalar);
  Instruction* const j = f.fused->add_parameter(3, kScalar);
  Attributes attributes;
  attributes.slice_sizes = {rows, 4};
  Instruction* const slice = f.fused->add(Opcode::dynamic_slice, Shape(DType::f32, {rows, 4}),
                                          {f.a, i, j}, {}, attributes);
  f.fused->add(Opcode::dynamic_update_slice, kArray, {f.a, made(f, slice), i, same_place ? j : i});
  return may_reuse_operand(*f.fuse(), 0, 0);
}

TEST(InPlace, UpdateMayReadWhatItReplaces) {
  const Shape row(DType::f32, {1, 4});
  const auto bent = [&](Fused& f, Instruction* slice) {
    return f.fused->add(Opcode::tanh, row, {slice});
  };
  EXPECT_TRUE(may_update(bent, true));
  EXPECT_FALSE(may_update(bent, false));  // another place
  const auto reversed = [&](Fused& f, Instruction* slice) {
    Attributes attributes;
    attributes.dimensions = {1};
    return f.fused->add(Opcode::reverse, row, {slice}, {}, attributes);
  };
  EXPECT_FALSE(may_update(reversed, true));  // an element is read where another one is stored
  const auto first_row = [&](Fused& f, Instruction* slice) {
    Attributes attributes;
    attributes.slice_starts = {1, 0};
    attributes.slice_limits = {2, 4};
    return f.fused->add(Opcode::slice, row, {slice}, {}, attributes);
  };
  EXPECT_FALSE(may_update(first_row, true, 2));
  const auto of_all = [&](Fused& f, Instruction* slice) {
    Attributes attributes;
    attributes.slice_starts = {0, 0};
    attributes.slice_limits = {1, 4};
    return f.fused->add(Opcode::add, row,
                        {slice, f.fused->add(Opcode::slice, row, {f.a}, {}, attributes)});
  };
  EXPECT_FALSE(may_update(of_all, true));  // and read elsewhere, too
}

TEST(InPlace, AllReduceTakesTheOperandOfTheSameNumber) {
  Module module("m");
  Computation* const entry = module.add_computation("entry");
  Computation* const sum = scalar_computation(module, Opcode::add, DType::f32);
  Instruction* const a = entry->add_parameter(0, kArray);
  Instruction* const b = entry->add_parameter(1, kArray);
  const auto reduced = [&](std::vector<Instruction*> operands) {
    auto made = build(*entry, Opcode::all_reduce, std::move(operands), {}, {sum});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return *made;
  };
  const Instruction* const both = reduced({a, b});
  EXPECT_TRUE(may_reuse_operand(*both, 0, 0));
  EXPECT_TRUE(may_reuse_operand(*both, 1, 1));
  EXPECT_FALSE(may_reuse_operand(*both, 0, 1));
  EXPECT_TRUE(may_reuse_operand(*reduced({a}), 0, 0));
  EXPECT_FALSE(may_reuse_operand(*reduced({a, a}), 0, 0));
}

TEST(InPlace, FusionTakesWhatItReadsWhereItWrites) {
  Fused f;
  f.fused->add(Opcode::add, kArray,
               {f.fused->add(Opcode::negate, kArray, {f.a}), f.transpose(f.b)});
  Instruction* fusion = f.fuse();
  EXPECT_TRUE(may_reuse_operand(*fusion, 0, 0));
  EXPECT_FALSE(may_reuse_operand(*fusion, 1, 0));
}

TEST(InPlace, FusionWithOneOperandTwiceChecksBothUses) {
  Fused f;
  f.fused->add(Opcode::add, kArray, {f.a, f.transpose(f.b)});
  EXPECT_FALSE(may_reuse_operand(*f.fuse(true), 0, 0));
}

TEST(InPlace, EveryResultOfAFusionMustReadAtItsIndex) {
  Fused f;
  Instruction* negated = f.fused->add(Opcode::negate, kArray, {f.a});
  Instruction* other = f.fused->add(Opcode::add, kArray, {f.b, f.transpose(f.a)});
  f.fused->add_tuple({negated, other});
  Instruction* fusion = f.fuse();
  EXPECT_FALSE(may_reuse_operand(*fusion, 0, 0));
  EXPECT_TRUE(may_reuse_operand(*fusion, 1, 0));
}

TEST(InPlace, ReductionTakesOperandsForItsLoopValuesOnly) {
  Fused f;
  Computation* sum = scalar_computation(f.module, Opcode::add, DType::f32);
  Instruction* zero = f.fused->add_constant(Literal::scalar(0.0f));
  Attributes attributes;
  attributes.dimensions = {0};
  const Shape vector(DType::f32, {4});
  Instruction* reduced = f.fused->add(Opcode::reduce, vector, {f.a, zero}, {}, attributes);
  reduced->set_called_computations({sum});
  Instruction* scaled = f.fused->add(Opcode::multiply, kArray, {f.a, f.b});
  Instruction* c = f.fused->add_parameter(2, vector);
  Instruction* epilogue = f.fused->add(Opcode::add, vector, {reduced, c});
  f.fused->add_tuple({scaled, epilogue});
  Instruction* fusion = f.fuse();
  EXPECT_TRUE(may_reuse_operand(*fusion, 0, 0));
  EXPECT_TRUE(may_reuse_operand(*fusion, 1, 0));
  EXPECT_FALSE(may_reuse_operand(*fusion, 2, 1));
}

// Two parts: the negation of parameters 0 and 1's sum, and parameter 2's (with parameter 0's, where
// `shared`).
Instruction* horizontal(Fused& f, bool shared) {
  Instruction* c = f.fused->add_parameter(2, kArray);
  const auto add_part = [&](Instruction* x, Instruction* y) {
    Computation* body = f.module.add_computation("body");
    Instruction* sum = body->add(Opcode::add, kArray,
                                 {body->add_parameter(0, kArray), body->add_parameter(1, kArray)});
    body->add(Opcode::negate, kArray, {sum});
    Instruction* part = f.fused->add(Opcode::fusion, kArray, {x, y});
    part->set_called_computations({body});
    return part;
  };
  f.fused->add_tuple({add_part(f.a, f.b), add_part(c, shared ? f.a : c)});
  return f.fuse();
}

TEST(InPlace, PartOfAHorizontalFusionTakesAnOperandOfItsOwnOnly) {
  Fused f;
  const Instruction* fusion = horizontal(f, false);
  EXPECT_TRUE(may_reuse_operand(*fusion, 0, 0));
  EXPECT_TRUE(may_reuse_operand(*fusion, 1, 0));
  EXPECT_TRUE(may_reuse_operand(*fusion, 2, 1));
  EXPECT_FALSE(may_reuse_operand(*fusion, 2, 0));
  EXPECT_FALSE(may_reuse_operand(*fusion, 0, 1));
}

TEST(InPlace, NoPartOfAHorizontalFusionTakesWhatAnotherReads) {
  Fused f;
  const Instruction* fusion = horizontal(f, true);
  EXPECT_FALSE(may_reuse_operand(*fusion, 0, 0));
  EXPECT_FALSE(may_reuse_operand(*fusion, 0, 1));
  EXPECT_TRUE(may_reuse_operand(*fusion, 1, 0));
  EXPECT_TRUE(may_reuse_operand(*fusion, 2, 1));
}

}  // namespace
}  // namespace plimsoll::ir
