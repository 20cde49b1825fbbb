// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/passes/cleanup/structure.h"
#include "tests/cases/attribute_variants.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

TEST(CommonSubexpressions, OneInstructionForEqualOnes) {
  auto module = parse(
      "HloModule m\nENTRY e { x = f32[4] parameter(0)\n a = f32[4] exponential(x)\n"
      "b = f32[4] exponential(x)\n c = f32[4] negate(a)\n d = f32[4] negate(b)\n"
      "ROOT r = f32[4] add(c, d) }");
  ASSERT_TRUE(eliminate_common_subexpressions(*module).ok());
  EXPECT_EQ(module->entry()->instruction_count(), 4);
  EXPECT_FALSE(*eliminate_common_subexpressions(*module));
}

TEST(CommonSubexpressions, KeepsEffectsAndElidedConstantsApart) {
  auto module = parse(
      "HloModule m\nENTRY e { a = f32[] constant(0)\n b = f32[] constant(1)\n"
      "x = f32[9] rng(a, b), distribution=rng_uniform\n"
      "y = f32[9] rng(a, b), distribution=rng_uniform\n"
      "c = f32[9] constant({...})\n d = f32[9] constant({...})\n"
      "ROOT r = (f32[9], f32[9], f32[9], f32[9]) tuple(x, y, c, d) }");
  EXPECT_FALSE(*eliminate_common_subexpressions(*module));
  EXPECT_EQ(module->entry()->instruction_count(), 7);
}

TEST(CommonSubexpressions, TellApartEveryAttribute) {
  ir::Module module("m");
  ir::Computation* computation = module.add_computation("e");
  module.set_entry(computation);
  const ir::Shape shape(ir::DType::f32, {4});
  ir::Instruction* x = computation->add_parameter(0, shape, "x");
  const auto add = [&](const ir::Attributes& attributes) {
    return computation->add(ir::Opcode::negate, shape, {x}, {}, attributes);
  };
  std::vector<ir::Instruction*> ones = {add({})}, twins = {add({})};
  for (const cases::AttributeVariant& variant : cases::attribute_variants()) {
    ones.push_back(add(variant.attributes));
    twins.push_back(add(variant.attributes));
  }
  const ComputationClasses classes(module);
  std::set<std::size_t> hashes;
  for (std::size_t i = 0; i < ones.size(); ++i) {
    EXPECT_TRUE(hashes.insert(classes.hash_operation(*ones[i])).second) << i;
    EXPECT_EQ(classes.hash_operation(*ones[i]), classes.hash_operation(*twins[i])) << i;
    for (std::size_t j = 0; j < twins.size(); ++j) {
      EXPECT_EQ(classes.same_operation(*ones[i], *twins[j]), i == j) << i << " " << j;
    }
  }
}

TEST(CommonSubexpressions, SharesReducersAndComparesThemByStructure) {
  auto module = parse(
      "HloModule m\nf { x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
      "ROOT r = f32[] add(x, y) }\n"
      "g { p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT s = f32[] add(p, q) }\n"
      "ENTRY e { x = f32[4] parameter(0)\n z = f32[] constant(0)\n"
      "a = f32[] reduce(x, z), dimensions={0}, to_apply=f\n"
      "b = f32[] reduce(x, z), dimensions={0}, to_apply=g\n ROOT r = f32[] multiply(a, b) }");
  ASSERT_TRUE(*eliminate_common_subexpressions(*module));
  EXPECT_EQ(module->computations().size(), 2u);
  EXPECT_EQ(module->entry()->root()->operand(0), module->entry()->root()->operand(1));
}

TEST(DeadCode, RemovesUnusedFusionResultsAndOperands) {
  EXPECT_EQ(after(eliminate_dead_code,
                  "HloModule m\nf { a = f32[4] parameter(0)\n b = f32[4] parameter(1)\n"
                  "n = f32[4] negate(a)\n m = f32[4] exponential(b)\n"
                  "ROOT t = (f32[4], f32[4]) tuple(n, m) }\n"
                  "ENTRY e { x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n"
                  "u = (f32[4], f32[4]) fusion(x, y), kind=kLoop, calls=f\n"
                  "ROOT r = f32[4] get-tuple-element(u), index=1 }"),
            "fusion{exponential(p0)}(p1)");
}

constexpr const char* kLoop =
    "HloModule m\n"
    "c { s = (s32[], f32[4], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    "n = s32[] constant(3)\n ROOT r = pred[] compare(i, n), direction=LT }\n"
    "b { s = (s32[], f32[4], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    "x = f32[4] get-tuple-element(s), index=1\n y = f32[4] get-tuple-element(s), index=2\n"
    "o = s32[] constant(1)\n j = s32[] add(i, o)\n u = f32[4] negate(x)\n v = f32[4] add(x, y)\n"
    "ROOT t = (s32[], f32[4], f32[4]) tuple(j, u, v) }\n"
    "ENTRY e { x = f32[4] parameter(0)\n z = s32[] constant(0)\n"
    "s = (s32[], f32[4], f32[4]) tuple(z, x, x)\n"
    "w = (s32[], f32[4], f32[4]) while(s), condition=c, body=b\n"
    "ROOT r = f32[4] get-tuple-element(w), index=";

TEST(DeadCode, DropsLoopStateThatOnlyFeedsItself) {
  auto module = parse(std::string(kLoop) + "1 }");
  ASSERT_TRUE(*eliminate_dead_code(*module));
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).message();
  EXPECT_EQ(module->entry()->root()->operand(0)->shape().to_string(), "(s32[], f32[4])");
  EXPECT_EQ(module->entry()->root()->attributes().tuple_index, 1);
}

// A loop that is narrowed stays where control edges put it.
TEST(DeadCode, NarrowedLoopsKeepTheirPlaces) {
  const auto module = parse(R"(
HloModule m, num_partitions=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
step {
  s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  y = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  n = s32[] add(i, one)
  t = f32[4] all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=sum
  u = f32[4] add(y, x)
  ROOT r = (s32[], f32[4], f32[4]) tuple(n, t, u)
}
more {
  s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT c = pred[] compare(i, k), direction=LT
}
ENTRY e {
  x = f32[4] parameter(0)
  first = f32[4] all-reduce(x), channel_id=2, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=sum
  zero = s32[] constant(0)
  s = (s32[], f32[4], f32[4]) tuple(zero, x, x)
  loop = (s32[], f32[4], f32[4]) while(s), condition=more, body=step, control-predecessors={first}
  y = f32[4] get-tuple-element(loop), index=1
  last = f32[4] all-reduce(x), channel_id=3, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=sum, control-predecessors={loop}
  ROOT r = (f32[4], f32[4], f32[4]) tuple(first, y, last)
}
)");
  const auto changed = eliminate_dead_code(*module);
  ASSERT_TRUE(changed.ok() && *changed);
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
  const ir::Computation& entry = *module->entry();
  const ir::Instruction& loop = *entry.find("y")->operand(0);
  ASSERT_EQ(loop.opcode(), ir::Opcode::while_);
  EXPECT_EQ(loop.shape().elements().size(), 2U) << ir::to_text(*module);
  EXPECT_EQ(loop.control_predecessors(), std::vector<ir::Instruction*>{entry.find("first")});
  const auto& before = entry.find("last")->control_predecessors();
  EXPECT_NE(std::find(before.begin(), before.end(), &loop), before.end()) << ir::to_text(*module);
}

TEST(DeadCode, KeepsLoopStateThatFeedsAResult) {
  auto module = parse(std::string(kLoop) + "2 }");
  EXPECT_FALSE(*eliminate_dead_code(*module));
}

TEST(InlineCalls, PutsTheBodyInPlaceOfTheCall) {
  EXPECT_EQ(after(inline_calls,
                  "HloModule m\nf { x = f32[] parameter(0)\n ROOT r = f32[] negate(x) }\n"
                  "g { x = f32[] parameter(0)\n a = f32[] call(x), to_apply=f\n"
                  "ROOT r = f32[] add(a, x) }\n"
                  "ENTRY e { x = f32[] parameter(0)\n ROOT r = f32[] call(x), to_apply=g }"),
            "add(negate(p0), p0)");
}

TEST(InlineCalls, DissolvesFusionsThatNoKernelIsMadeFor) {
  EXPECT_EQ(after(inline_calls,
                  "HloModule m\nf { x = f32[2,2] parameter(0)\n"
                  "d = f32[2,2] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                  "ROOT r = f32[2,2] negate(d) }\n"
                  "ENTRY e { x = f32[2,2] parameter(0)\n"
                  "ROOT r = f32[2,2] fusion(x), kind=kCustom, calls=f }"),
            "negate(dot(p0, p0))");
}

// Those of one computation are gone, and their memory is used anew, before the next one's turn.
TEST(InlineFusions, TakesThoseOfSeveralComputations) {
  std::string body, entry;
  for (int i = 0; i < 20; ++i) {
    const auto line = [&](const char* from) {
      return "f" + std::to_string(i) + " = f32[4] fusion(" +
             (i == 0 ? std::string(from) : "f" + std::to_string(i - 1)) +
             "), kind=kLoop, calls=negated\n";
    };
    body += line("y");
    entry += line("v");
  }
  auto module = parse(
      "HloModule m\nnegated { a = f32[4] parameter(0)\n b = f32[4] negate(a)\n"
      "ROOT n = f32[4] negate(b) }\n"
      "c { s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      "k = s32[] constant(3)\n ROOT l = pred[] compare(i, k), direction=LT }\n"
      "b { s = (s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      "y = f32[4] get-tuple-element(s), index=1\n" +
      body +
      "ROOT t = (s32[], f32[4]) tuple(i, f19) }\n"
      "ENTRY e { x = f32[4] parameter(0)\n i = s32[] constant(0)\n"
      "s = (s32[], f32[4]) tuple(i, x)\n w = (s32[], f32[4]) while(s), condition=c, body=b\n"
      "v = f32[4] get-tuple-element(w), index=1\n" +
      entry + "ROOT r = f32[4] negate(f19) }");
  std::unordered_set<const ir::Instruction*> fusions;
  for (const auto& computation : module->computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (instruction->opcode() == ir::Opcode::fusion) fusions.insert(instruction.get());
    }
  }
  ASSERT_EQ(fusions.size(), 40U);
  const auto changed = inline_fusions(*module, fusions);
  ASSERT_TRUE(changed.ok() && *changed);
  EXPECT_TRUE(ir::verify(*module).ok());
  EXPECT_EQ(ir::to_text(*module).find("fusion"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::passes
