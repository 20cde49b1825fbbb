// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/ir/attribute_fields.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::ir {
namespace {

std::unique_ptr<Module> read(std::string_view text) {
  auto module = parse_module(text, "test");
  EXPECT_TRUE(module.ok()) << module.status().message() << "\nin\n" << text;
  return module.ok() ? std::move(*module) : nullptr;
}

void expect_equal(const Instruction& a, const Instruction& b) {
  SCOPED_TRACE(a.name());
  EXPECT_EQ(a.name(), b.name());
  EXPECT_EQ(a.opcode(), b.opcode());
  EXPECT_EQ(a.shape().to_string(true), b.shape().to_string(true));
  ASSERT_EQ(a.operand_count(), b.operand_count());
  for (int i = 0; i < a.operand_count(); ++i) EXPECT_EQ(a.operand(i)->name(), b.operand(i)->name());
  ASSERT_EQ(a.called_computations().size(), b.called_computations().size());
  for (std::size_t i = 0; i < a.called_computations().size(); ++i) {
    EXPECT_EQ(a.called_computations()[i]->name(), b.called_computations()[i]->name());
  }
  ASSERT_EQ(a.control_predecessors().size(), b.control_predecessors().size());
  for (std::size_t i = 0; i < a.control_predecessors().size(); ++i) {
    EXPECT_EQ(a.control_predecessors()[i]->name(), b.control_predecessors()[i]->name());
  }
  all_fields(a.attributes(), b.attributes(), [](auto field, const auto& x, const auto& y) {
    EXPECT_TRUE(same_value(x, y)) << field.name << " " << field.letter;
    return true;
  });
}

// Prints, reads back, and compares everything there is to compare.
std::unique_ptr<Module> expect_round_trip(std::string_view text) {
  SCOPED_TRACE(text);
  auto first = read(text);
  if (first == nullptr) return nullptr;
  const std::string printed = to_text(*first);
  auto second = read(printed);
  if (second == nullptr) return nullptr;
  EXPECT_EQ(printed, to_text(*second));
  EXPECT_EQ(first->name(), second->name());
  EXPECT_EQ(first->is_scheduled, second->is_scheduled);
  EXPECT_EQ(first->input_output_alias, second->input_output_alias);
  EXPECT_EQ(first->buffer_donor, second->buffer_donor);
  EXPECT_EQ(first->replica_count, second->replica_count);
  EXPECT_EQ(first->num_partitions, second->num_partitions);
  EXPECT_EQ(first->extra, second->extra);
  EXPECT_EQ(first->entry()->name(), second->entry()->name());
  EXPECT_EQ(first->computations().size(), second->computations().size());
  if (first->computations().size() != second->computations().size()) return nullptr;
  for (std::size_t c = 0; c < first->computations().size(); ++c) {
    const Computation& a = *first->computations()[c];
    const Computation& b = *second->computations()[c];
    EXPECT_EQ(a.name(), b.name());
    EXPECT_EQ(a.root()->name(), b.root()->name());
    EXPECT_EQ(a.instruction_count(), b.instruction_count());
    if (a.instruction_count() != b.instruction_count()) return nullptr;
    for (std::size_t i = 0; i < a.instructions().size(); ++i) {
      expect_equal(*a.instructions()[i], *b.instructions()[i]);
    }
  }
  PrintOptions options;
  options.operand_shapes = true;
  const auto third = read(to_text(*first, options));
  EXPECT_EQ(third != nullptr ? to_text(*third) : "", printed);
  return first;
}

// One entry computation with a parameter per shape, `p0`, `p1`, ..., and `line` as its root.
std::string program(std::initializer_list<std::string_view> shapes, std::string_view line,
                    std::string_view before = "") {
  std::string text = "HloModule test\n" + std::string(before) + "\nENTRY main {\n";
  int i = 0;
  for (const std::string_view shape : shapes) {
    const std::string number = std::to_string(i++);
    text += "  p" + number + " = " + std::string(shape) + " parameter(" + number + ")\n";
  }
  return text + "  ROOT result = " + std::string(line) + "\n}\n";
}

constexpr std::string_view kSumText =
    "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n";
constexpr std::string_view kLess =
    "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), "
    "direction=LT }\n";

TEST(HloText, TakesWhatJaxPrints) {
  const auto module = expect_round_trip(R"(
HloModule jit_step, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, must-alias) }, buffer_donor={ (2, {}) }, entry_computation_layout={(f32[4,8]{1,0}, f32[8]{0}, f32[2,4]{1,0})->(f32[4,8]{1,0}, f32[8]{0})}, replica_count=2, num_partitions=4, frontend_attributes={fingerprint="a{b"}

%region_0.12 (Arg_0.13: f32[], Arg_1.14: f32[]) -> f32[] {
  %Arg_0.13 = f32[] parameter(0), metadata={op_name="jit(step)/jit(main)/reduce_sum"}
  %Arg_1.14 = f32[] parameter(1)
  ROOT %add.15 = f32[] add(f32[] %Arg_0.13, f32[] %Arg_1.14), metadata={op_name="jit(step)/reduce_sum[axes=(0,)]" source_file="/a b.py" source_line=3}
}

ENTRY %main.20 (Arg_0.1: f32[4,8], Arg_1.2: f32[8], Arg_2.3: f32[2,4]) -> (f32[4,8], f32[8]) {
  %Arg_0.1 = f32[4,8]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}
  %Arg_1.2 = f32[8]{0} parameter(1), sharding={replicated}
  %Arg_2.3 = f32[2,4]{1,0:T(8,128)S(5)} parameter(2)
  %dot.4 = f32[2,8]{1,0} dot(%Arg_2.3, %Arg_0.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,default}
  %constant.5 = f32[] constant(0) /* the initial value */
  %reduce.6 = f32[8]{0} reduce(%dot.4, %constant.5), dimensions={0}, to_apply=%region_0.12
  %add.7 = f32[8]{0} add(f32[8]{0} %Arg_1.2, f32[8]{0} %reduce.6), control-predecessors={%dot.4}, backend_config={"a":{"b":["c, }"]}}
  // the result
  ROOT %tuple.8 = (f32[4,8]{1,0}, /*index=1*/f32[8]{0}) tuple(%Arg_0.1, %add.7)
}
)");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->name(), "jit_step");
  EXPECT_TRUE(module->is_scheduled);
  ASSERT_EQ(module->input_output_alias.size(), 2u);
  EXPECT_TRUE(module->input_output_alias[1].must_alias);
  EXPECT_EQ(module->buffer_donor.size(), 1u);
  EXPECT_EQ(module->replica_count, 2);
  EXPECT_EQ(module->num_partitions, 4);
  const Instruction* parameter = module->entry()->parameters()[2];
  ASSERT_NE(parameter->shape().layout(), nullptr);
  EXPECT_EQ(parameter->shape().layout()->memory_space, 5);
  EXPECT_EQ(parameter->shape().layout()->tiling, "T(8,128)");
  const Instruction* add = module->entry()->find("add.7");
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add->attributes().find_extra("backend_config"), R"({"a":{"b":["c, }"]}})");
  EXPECT_EQ(add->control_predecessors().size(), 1u);
}

TEST(HloText, LeavesOutWhatIsOptional) {
  const auto module = expect_round_trip("x = f32[4] parameter(0)\ny = negate(x) z = add(x, y)");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->root()->name(), "z");
  EXPECT_EQ(module->entry()->root()->shape(), Shape(DType::f32, {4}));
}

TEST(HloText, TakesTheLastComputationWithoutEntry) {
  const auto module = expect_round_trip(
      "first { a = f32[] parameter(0) } second { a = f32[2] parameter(0) ROOT b = exponential(a) "
      "c = negate(a) }");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->name(), "second");
  EXPECT_EQ(module->entry()->root()->opcode(), Opcode::exponential);
}

TEST(HloText, KeepsTheNamesOfTheEntryWhenOthersClash) {
  const auto module = expect_round_trip(
      std::string(kSumText) +
      "ENTRY main { a = f32[4] parameter(0) b = f32[] constant(0) ROOT s = reduce(a, b), "
      "dimensions={0}, to_apply=sum }");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->parameters()[0]->name(), "a");
  EXPECT_EQ(module->entry()->root()->name(), "s");
  EXPECT_EQ(module->find("sum")->parameters()[0]->name(), "a.1");
}

TEST(HloText, SortsInstructionsOfAnUnscheduledModule) {
  const auto module = expect_round_trip(
      "ENTRY main { ROOT z = f32[4] add(x, y) y = f32[4] negate(x) x = f32[4] parameter(0) }");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->instructions()[0]->name(), "x");
  EXPECT_EQ(module->entry()->root()->name(), "z");
}

TEST(HloText, SortsComputations) {
  expect_round_trip(
      "ENTRY main { x = f32[4] parameter(0) ROOT c = f32[4] call(x), to_apply=g }\n"
      "g { x = f32[4] parameter(0) ROOT c = f32[4] call(x), to_apply=f }\n"
      "f { x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }");
}

TEST(HloText, ReadsElementsOperandsAndComputationsInPlace) {
  const auto module = expect_round_trip(
      "ENTRY main {\n t = (f32[4], s32[4]) parameter(0)\n"
      "  m = add(t#0, multiply(f32[4] t#0, f32[4] broadcast(f32[] constant(2)), dimensions={}))\n"
      "  ROOT r = f32[] reduce(m, f32[] constant(0)), dimensions={0}, to_apply={\n"
      "    a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = add(a, b) }\n}");
  (void)module;
}

TEST(HloText, SharesOneGetTupleElementPerElement) {
  const auto module =
      expect_round_trip("t = (f32[4], s32[4]) parameter(0)\n ROOT m = add(t#0, t#0)");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->instruction_count(), 3);
}

TEST(HloText, KeepsEveryOperationsAttributes) {
  expect_round_trip(program({"f32[2,3]"}, "f32[3,2] transpose(p0), dimensions={1,0}"));
  expect_round_trip(program({"f32[3]"}, "f32[2,3] broadcast(p0), dimensions={1}"));
  expect_round_trip(program({"f32[10,9]"}, "f32[2,3] slice(p0), slice={[0:2], [1:9:3]}"));
  expect_round_trip(program({"f32[2,3]", "f32[]"}, "pad(p0, p1), padding=0_1_2x1_-1"));
  expect_round_trip(program({"f32[2,3]"}, "reverse(p0), dimensions={0,1}"));
  expect_round_trip(program({"f32[2,3]", "f32[4,3]"}, "concatenate(p0, p1), dimensions={0}"));
  expect_round_trip(program({"f32[8,3]", "s32[]", "s32[]"},
                            "dynamic-slice(p0, p1, p2), dynamic_slice_sizes={2,3}"));
  expect_round_trip(program({"f32[8]", "f32[2]", "s32[]"}, "dynamic-update-slice(p0, p1, p2)"));
  expect_round_trip(program({}, "s32[2,3] iota(), iota_dimension=1"));
  expect_round_trip(
      program({"f32[4]", "f32[4]"}, "compare(p0, p1), direction=GE, type=TOTALORDER"));
  expect_round_trip(program({"u8[4]", "u8[4]"}, "compare(p0, p1), direction=NE, type=UNSIGNED"));
  expect_round_trip(program({"pred[4]", "f32[4]", "f32[4]"}, "select(p0, p1, p2)"));
  expect_round_trip(program({"f32[4]"}, "reduce-precision(p0), exponent_bits=5, mantissa_bits=10"));
  expect_round_trip(program({"f32[4]"}, "bf16[4] convert(p0)"));
  expect_round_trip(program({"f32[4]"}, "s32[4] bitcast-convert(p0)"));
  expect_round_trip(program({"f32[2,4,8]", "f32[2,8,3]"},
                            "dot(p0, p1), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
                            "rhs_batch_dims={0}, rhs_contracting_dims={1}, algorithm=dot_f32_f32"));
  expect_round_trip(program({"f32[1,8,8,4]", "f32[3,3,2,6]"},
                            "convolution(p0, p1), window={size=3x3 stride=2x1 pad=1_1x0_2 "
                            "lhs_dilate=2x1 rhs_dilate=1x2 rhs_reversal=1x0}, "
                            "dim_labels=b01f_01io->b01f, feature_group_count=2"));
  expect_round_trip(program({"f32[4,4]", "f32[]"},
                            "reduce-window(p0, p1), window={size=2x2 stride=2x2}, to_apply=sum",
                            kSumText));
  expect_round_trip(program({"f32[4,4]", "f32[2,2]", "f32[]"},
                            "select-and-scatter(p0, p1, p2), window={size=2x2 stride=2x2}, "
                            "select=less, scatter=sum",
                            std::string(kSumText) + std::string(kLess)));
  expect_round_trip(
      program({"f32[4,4]"}, "sort(p0), dimensions={1}, is_stable=true, to_apply=less", kLess));
  expect_round_trip(
      program({"f32[4]", "f32[4]"}, "map(p0, p1), dimensions={0}, to_apply=sum", kSumText));
  expect_round_trip(program({"f32[8,3]", "s32[5,1]"},
                            "gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, "
                            "start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}, "
                            "indices_are_sorted=true"));
  expect_round_trip(program({"f32[8,3]", "s32[5,1]", "f32[5,3]"},
                            "scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0},"
                            " scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
                            "unique_indices=true, to_apply=sum",
                            kSumText));
  expect_round_trip(program({"f32[]", "f32[]"}, "f32[4] rng(p0, p1), distribution=rng_normal"));
  expect_round_trip(
      program({"u64[2]"}, "(u64[2], u32[4]) rng-bit-generator(p0), algorithm=rng_philox"));
  expect_round_trip(program({"f32[4]"},
                            "f32[4] custom-call(p0), custom_call_target=\"a\\\"b\\n\", "
                            "custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI, "
                            "called_computations={sum}",
                            kSumText));
  expect_round_trip(program({"f32[4]"}, "opt-barrier(p0)"));
  expect_round_trip(program({"f32[4]"}, "add-dependency(p0, after-all())"));
}

TEST(HloText, KeepsControlFlow) {
  expect_round_trip(
      "cond { s = (s32[], f32[4]) parameter(0) i = get-tuple-element(s), index=0 n = s32[] "
      "constant(5) ROOT c = compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[4]) parameter(0) i = s32[] add(s#0, s32[] constant(1)) "
      "ROOT t = tuple(i, negate(s#1)) }\n"
      "ENTRY main { p = (s32[], f32[4]) parameter(0) ROOT w = (s32[], f32[4]) while(p), "
      "body=body, condition=cond, backend_config={\"known_trip_count\":{\"n\":\"5\"}} }");
  const std::string branches =
      "neg { x = f32[4] parameter(0) ROOT y = negate(x) }\n"
      "exp { x = f32[4] parameter(0) ROOT y = exponential(x) }\n";
  expect_round_trip(program({"pred[]", "f32[4]"},
                            "conditional(p0, p1, p1), false_computation=exp, true_computation=neg",
                            branches));
  expect_round_trip(program({"s32[]", "f32[4]"},
                            "conditional(p0, p1, p1), branch_computations={neg, %exp}", branches));
  expect_round_trip(program({"f32[4]"}, "f32[4] call(p0), to_apply=neg", branches));
  expect_round_trip(program({"f32[4]"}, "f32[4] fusion(p0), kind=kInput, calls=neg", branches));
}

TEST(HloText, TakesTrueAndFalseBranchesInEitherOrder) {
  const auto module = read(program(
      {"pred[]", "f32[4]"}, "conditional(p0, p1, p1), false_computation=e, true_computation=n",
      "n { x = f32[4] parameter(0) ROOT y = negate(x) }\n"
      "e { x = f32[4] parameter(0) ROOT y = exponential(x) }\n"));
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->root()->called(0)->name(), "n");
}

TEST(HloText, KeepsCollectives) {
  auto module =
      expect_round_trip(program({"f32[4]"},
                                "all-reduce(p0), channel_id=3, replica_groups={{0,1},{2,3}}, "
                                "use_global_device_ids=true, to_apply=sum",
                                kSumText));
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->root()->attributes().collective->channel_id, 3);
  module = expect_round_trip(program(
      {"f32[4]"}, "f32[16] all-gather(p0), dimensions={0}, replica_groups=[2,4]<=[2,2,2]T(1,0,2)"));
  ASSERT_NE(module, nullptr);
  const std::vector<std::vector<std::int64_t>> groups = {{0, 1, 4, 5}, {2, 3, 6, 7}};
  EXPECT_EQ(module->entry()->root()->attributes().collective->replica_groups, groups);
  expect_round_trip(program({"f32[4]"},
                            "f32[2] reduce-scatter(p0), dimensions={0}, "
                            "replica_groups={{0,1}}, to_apply=sum",
                            kSumText));
  expect_round_trip(
      program({"f32[4]"}, "f32[4] collective-permute(p0), source_target_pairs={{0,1},{1,0}}"));
  expect_round_trip(program(
      {"f32[4]", "f32[4]"},
      "(f32[4], f32[4]) all-to-all(p0, p1), replica_groups={{0,1}}, constrain_layout=true"));
  expect_round_trip(program({"f32[4,2]", "f32[9,2]", "s32[2]", "s64[2]"},
                            "f32[9,2] ragged-all-to-all(p0, p1, p2, p3, p2, p3), channel_id=1, "
                            "replica_groups={{0,1}}"));
}

TEST(HloText, WritesOutTheGroupsOfAMesh) {
  // Row by row on the mesh; what stands in braces varies within a group, the last fastest.
  constexpr std::pair<const char*, const char*> kMeshes[] = {
      {"mesh['a'=2,'b'=4] {'a'}", "{{0,4},{1,5},{2,6},{3,7}}"},
      {"mesh['a'=2,'b'=4] {'b'}", "{{0,1,2,3},{4,5,6,7}}"},
      {"mesh[a=2,b=4] {b,a}", "{{0,4,1,5,2,6,3,7}}"},
      {"mesh['a'=2,'b'=1] {'a'}", "{{0,1}}"},
      {"mesh['a'=8] {'a':(1)2}", "{{0,4},{1,5},{2,6},{3,7}}"},
      {"mesh['a'=8] {'a':(2)2}", "{{0,2},{1,3},{4,6},{5,7}}"},
      {"mesh['a'=8] {'a':(4)2,'a':(1)2}", "{{0,4,1,5},{2,6,3,7}}"},
      {"mesh['a'=2,'b'=2], device_ids=(3,1,2,0) {'a'}", "{{3,2},{1,0}}"},
      {"mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'a'}", "{{0,1},{2,3}}"},
  };
  for (const auto& [mesh, wanted] : kMeshes) {
    const auto module = expect_round_trip(program(
        {"f32[8]"}, "all-reduce(p0), replica_groups=" + std::string(mesh) + ", to_apply=sum",
        kSumText));
    ASSERT_NE(module, nullptr);
    EXPECT_NE(to_text(*module).find("replica_groups=" + std::string(wanted) + ","),
              std::string::npos)
        << mesh << "\n"
        << to_text(*module);
  }
}

TEST(HloText, RefusesMeshesThatMakeNoSense) {
  const auto error = [](std::string_view groups) {
    const auto module = parse_module(program(
        {"f32[8]"}, "all-reduce(p0), replica_groups=" + std::string(groups) + ", to_apply=sum",
        kSumText));
    return module.ok() ? std::string() : module.status().message();
  };
  for (const auto& [groups, what] : {
           std::pair("mesh['a'=2] {'b'}", "expected an axis of the mesh, found 'b'"),
           std::pair("mesh['a'=2,'a'=2] {'a'}", "expected mesh axes of different names"),
           std::pair("mesh['a'=2] {'a','a'}", "parts of a mesh axis overlap or do not divide it"),
           std::pair("mesh['a'=8] {'a':(2)3}", "parts of a mesh axis overlap or do not divide it"),
           std::pair("mesh['a'=4], device_ids=(0,1,1,2) {'a'}",
                     "the devices of a mesh must be 0 to 3"),
           std::pair("mesh['a'=65536,'b'=2] {'a'}", "more than 65536 participants"),
       }) {
    EXPECT_NE(error(groups).find(what), std::string::npos) << groups << ": " << error(groups);
  }
}

TEST(HloText, PutsTheConvertBeforeABroadcastToAnotherType) {
  const auto module =
      expect_round_trip(program({"s32[4]"}, "f32[2,4] broadcast(p0), dimensions={1}"));
  ASSERT_NE(module, nullptr);
  const std::string text = to_text(*module);
  EXPECT_NE(text.find("%convert = f32[4] convert(%p0)"), std::string::npos) << text;
  EXPECT_NE(text.find("f32[2,4] broadcast(%convert), dimensions={1}"), std::string::npos) << text;
}

TEST(HloText, ConvertsIntegersOfAProductOfFloats) {
  const auto module = expect_round_trip(
      program({"s8[2,3]", "s16[3,4]"},
              "f32[2,4] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"));
  ASSERT_NE(module, nullptr);
  const std::string text = to_text(*module);
  EXPECT_NE(text.find("f32[2,3] convert(%p0)"), std::string::npos) << text;
  EXPECT_NE(text.find("f32[3,4] convert(%p1)"), std::string::npos) << text;
}

TEST(HloText, ConvertsTheIntegersOfAProductWithFloats) {
  const auto module = expect_round_trip(
      program({"bf16[2,3]", "s4[3,4]"},
              "bf16[2,4] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"));
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->root()->operand(0)->opcode(), Opcode::parameter);
  EXPECT_NE(to_text(*module).find("bf16[3,4] convert(%p1)"), std::string::npos);
  const auto mask = expect_round_trip(
      program({"f32[1,4,1]", "pred[2,1,1]"},
              "f32[1,3,1] convolution(p0, p1), window={size=2}, dim_labels=b0f_0io->b0f"));
  ASSERT_NE(mask, nullptr);
  EXPECT_NE(to_text(*mask).find("f32[2,1,1] convert(%p1)"), std::string::npos);
  // Numbers with a fraction do not become integers unasked.
  EXPECT_FALSE(parse_module(program({"f32[2,3]", "s32[3,4]"},
                                    "s32[2,4] dot(p0, p1), lhs_contracting_dims={1}, "
                                    "rhs_contracting_dims={0}"))
                   .ok());
}

TEST(HloText, TakesTheInstructionsWordForParameters) {
  // Signatures that were not kept up with the instructions: XLA reads their result alone.
  const auto module = expect_round_trip(
      "f (x: s32[]) -> f32[4] { x = f32[4] parameter(0)\n ROOT y = f32[4] negate(x) }\n"
      "ENTRY e () -> f32[4] { p = f32[4] parameter(0)\n"
      " ROOT r = f32[4] call(p), to_apply=f }");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->parameters().size(), 1u);
  EXPECT_EQ(module->entry()->root()->called(0)->parameters()[0]->shape().to_string(), "f32[4]");
  expect_round_trip("ENTRY e (x f32[4]{0}) -> f32[4] { ROOT x = f32[4] parameter(0) }");
  expect_round_trip("HloModule m:\nENTRY e { ROOT x = f32[4] parameter(0) }");
}

TEST(HloText, TakesWindowsInAnyOrder) {
  const auto module =
      expect_round_trip(program({"f32[4,4]", "f32[]"},
                                "reduce-window(p0, p1), window={pad=1_1x0_2 size=3x1}, "
                                "to_apply=sum",
                                kSumText));
  ASSERT_NE(module, nullptr);
  const auto& window = module->entry()->root()->attributes().window;
  ASSERT_EQ(window.size(), 2u);
  EXPECT_EQ(window[0].size, 3);
  EXPECT_EQ(window[1].padding_high, 2);
}

TEST(HloText, TakesOldSpellings) {
  const auto module = expect_round_trip(
      program({"f32[4]"}, "f32[4] cross-replica-sum(p0), all_reduce_id=7, replica_groups={}"));
  ASSERT_NE(module, nullptr);
  const Instruction* root = module->entry()->root();
  EXPECT_EQ(root->opcode(), Opcode::all_reduce);
  EXPECT_EQ(root->attributes().collective->channel_id, 7);
  EXPECT_EQ(root->to_apply()->root()->opcode(), Opcode::add);
}

TEST(HloText, TakesStartIndicesAsOneVector) {
  const auto module = expect_round_trip(
      program({"f32[8,3]", "s32[2]"}, "dynamic-slice(p0, p1), dynamic_slice_sizes={2,3}"));
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->root()->operand_count(), 3);
  expect_round_trip(
      program({"f32[8]", "f32[2]", "s32[1]"}, "f32[8] dynamic-update-slice(p0, p1, p2)"));
}

TEST(HloText, KeepsAsynchronousPairs) {
  expect_round_trip(std::string(kSumText) +
                    "ENTRY main { p = f32[4] parameter(0)\n s = f32[4] all-reduce-start(p), "
                    "to_apply=sum\n ROOT d = f32[4] all-reduce-done(s) }");
  expect_round_trip(
      "ENTRY main { p = f32[4] parameter(0)\n c = (f32[4], f32[4], u32[]) copy-start(p)\n"
      " ROOT d = f32[4] copy-done(c) }");
  const auto module = expect_round_trip(
      "ENTRY main { p = f32[4] parameter(0)\n"
      " s = ((f32[4]), f32[4], u32[]) custom-call-start(p), custom_call_target=\"t\"\n"
      " u = ((f32[4]), f32[4], u32[]) custom-call-update(s)\n"
      " ROOT d = f32[4] custom-call-done(u) }");
  ASSERT_NE(module, nullptr);
  const Instruction* start = module->entry()->find("s");
  EXPECT_EQ(start->opcode(), Opcode::async_start);
  EXPECT_EQ(start->called(0)->root()->opcode(), Opcode::custom_call);
  EXPECT_EQ(start->called(0)->root()->attributes().custom_call_target, "t");
}

TEST(HloText, KeepsLayouts) {
  const auto module = expect_round_trip(
      "x = f32[2,3]{0,1} parameter(0)\ny = f32[3,2]{1,0:T(2,128)(2,1)S(3)} bitcast(x)");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->root()->shape().to_string(true), "f32[3,2]{1,0:T(2,128)(2,1)S(3)}");
  // Behind a blank, and with cores that share a dimension out, which is not kept.
  const auto split = expect_round_trip("x = f32[2,3] {0,1:T(2)S(1)SC(0:1)} parameter(0)");
  ASSERT_NE(split, nullptr);
  EXPECT_EQ(split->entry()->root()->shape().to_string(true), "f32[2,3]{0,1:T(2)S(1)}");
}

TEST(HloText, TakesScalarsWhereArraysAreUsual) {
  expect_round_trip(program({"f32[]", "f32[]"}, "reduce-window(p0, p1), to_apply=sum", kSumText));
  expect_round_trip(program({"f32[]", "f32[]", "f32[]"},
                            "select-and-scatter(p0, p1, p2), select=less, scatter=sum",
                            std::string(kSumText) + std::string(kLess)));
  expect_round_trip(program({"s32[]"}, "s32[] slice(p0), slice={}"));
  expect_round_trip(program({"f32[]"}, "f32[4,2] broadcast(p0)"));
  expect_round_trip(program({}, "() tuple()"));
  expect_round_trip(program({"f32[1,2]", "f32[2,2]"}, "convolution(p0, p1), dim_labels=bf_io->bf"));
}

TEST(HloText, KeepsAttributesWithoutMeaning) {
  const auto module = expect_round_trip(program(
      {"f32[4]"},
      "f32[4]{0} custom-call(p0), custom_call_target=\"f\", literal=s32[2]{0} {1, 2}, "
      "window={size=1}, dim_labels=b0f_0io->b0f, schedule=SCHEDULE_LATEST, "
      "output_to_operand_aliasing={{0}: (1, {}), {1}: (0, {0})}, statistics={a=1,stat-1=33}, "
      "frontend_attributes={n={k = 1 : i32, t = dense<1> : tensor<i32>},v=\"1\"}, "
      "metadata={op_name=\"a\\'b\\\"c}\"}"));
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->entry()->root()->attributes().find_extra("literal"), "s32[2]{0} {1, 2}");
  EXPECT_EQ(module->entry()->root()->attributes().extra.size(), 8u);
}

TEST(HloText, SkipsTablesOfSourcePlaces) {
  const auto module = expect_round_trip(R"(HloModule m
FileNames
1 "/a/b c.py"
2 "d.py"

FunctionNames
1 "main"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY main { ROOT x = f32[4] parameter(0), metadata={op_name="x" stack_frame_id=1} }
)");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->computations().size(), 1u);
}

TEST(HloText, AcceptsMixedPrecision) {
  expect_round_trip("x = bf16[4] parameter(0)\ny = f32[4] parameter(1)\nz = f32[4] add(x, y)");
}

}  // namespace
}  // namespace plimsoll::ir
