// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/fusion/sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"
#include "tests/cases/compare.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

using ir::Opcode;

// `count_in_entry` products d0, d1, ... of two matrices, large when `size` is, then `sum`.
std::string products(int count_in_entry, int size, const std::string& sum) {
  const std::string matrix = "f32[" + std::to_string(size) + "," + std::to_string(size) + "]";
  std::string text = "HloModule m\nENTRY e {\n  x = " + matrix + " parameter(0)\n";
  for (int i = 0; i < count_in_entry; ++i) {
    const std::string n = std::to_string(i);
    text += "  y" + n + " = " + matrix + " parameter(" + std::to_string(i + 1) + ")\n  d" + n +
            " = " + matrix + " dot(x, y" + n +
            "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  }
  std::string lines = sum;
  for (std::size_t at = 0; (at = lines.find('#', at)) != std::string::npos;) {
    lines.replace(at, 1, matrix);
  }
  return text + lines + "}\n";
}

std::string chain(int count_in_entry) {
  std::string text = "  s1 = # add(d0, d1)\n";
  for (int i = 2; i < count_in_entry; ++i) {
    const std::string root = i + 1 == count_in_entry ? "  ROOT s" : "  s";
    text += root + std::to_string(i) + " = # add(s" + std::to_string(i - 1) + ", d" +
            std::to_string(i) + ")\n";
  }
  return text;
}

int count_in_entry(const ir::Module& module, Opcode opcode) {
  int found = 0;
  for (const auto& i : module.entry()->instructions()) found += i->opcode() == opcode;
  return found;
}

const std::string kBalanced =
    "  a = # add(d0, d1)\n  b = # add(d2, d3)\n  c = # add(d4, d5)\n"
    "  ab = # add(a, b)\n  ROOT all = # add(ab, c)\n";

TEST(Sums, AreFoundWithTheirAddendsFromLeftToRight) {
  const auto module = parse(products(6, 4, kBalanced));
  const std::vector<Sum> sums = find_sums(*module->entry());
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].root->name(), "all");
  EXPECT_EQ(sums[0].inner.size(), 4u);
  std::string names;
  for (const ir::Instruction* addend : sums[0].addends) names += addend->name() + " ";
  EXPECT_EQ(names, "d0 d1 d2 d3 d4 d5 ");
}

TEST(Sums, AValueThatIsUsedElsewhereEndsASum) {
  const auto module = parse(products(4, 4,
                                     "  s1 = # add(d0, d1)\n  s2 = # add(s1, d2)\n"
                                     "  s3 = # add(s2, d3)\n  t = # negate(s2)\n"
                                     "  ROOT r = (#, #) tuple(s3, t)\n"));
  const std::vector<Sum> sums = find_sums(*module->entry());
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].root->name(), "s2");
}

TEST(Sums, LongOnesOfWaitingProductsAccumulateInsteadOfFusing) {
  const auto module = parse(products(8, 128, chain(8)));
  ASSERT_TRUE(optimize(*module).ok());
  EXPECT_EQ(count_in_entry(*module, Opcode::add), 7);
  EXPECT_EQ(count_in_entry(*module, Opcode::fusion), 0);
}

TEST(Sums, ShortOrSmallOnesAreOneKernel) {
  for (const auto& text : {products(3, 128, chain(3)), products(8, 8, chain(8))}) {
    const auto module = parse(text);
    ASSERT_TRUE(optimize(*module).ok());
    EXPECT_EQ(count_in_entry(*module, Opcode::add), 0);
    EXPECT_EQ(count_in_entry(*module, Opcode::fusion), 1);
  }
}

TEST(Sums, OnesOfValuesThatAreThereAnywayAreOneKernel) {
  std::string text = products(6, 128, chain(6));
  // Every product is a result too, and so lives to the end.
  text.replace(text.find("ROOT s5"), 7, "s5");
  text.insert(text.rfind('}'),
              "  ROOT r = (f32[128,128], f32[128,128], f32[128,128], f32[128,128], f32[128,128], "
              "f32[128,128], f32[128,128]) tuple(s5, d0, d1, d2, d3, d4, d5)\n");
  const auto module = parse(text);
  ASSERT_TRUE(optimize(*module).ok());
  EXPECT_EQ(count_in_entry(*module, Opcode::fusion), 1);
}

TEST(ScheduleSums, AddsInTheOrderInWhichAddendsAreMade) {
  const auto module = parse(products(6, 128, kBalanced));
  const Result<bool> changed = schedule_sums(*module);
  ASSERT_TRUE(changed.ok() && *changed);
  ASSERT_TRUE(ir::verify(*module).ok());
  const ir::Instruction* at = module->entry()->root();
  for (int k = 5; k > 0; --k) {
    ASSERT_EQ(at->opcode(), Opcode::add);
    EXPECT_EQ(at->operand(1)->name(), "d" + std::to_string(k));
    at = at->operand(0);
  }
  EXPECT_EQ(at->name(), "d0");
  // Each addition stands right behind the product that it adds.
  const auto& instructions = module->entry()->instructions();
  int waiting = 0, most = 0;
  for (const auto& i : instructions) {
    waiting += i->opcode() == Opcode::dot;
    waiting -= i->opcode() == Opcode::add;
    most = std::max(most, waiting);
  }
  EXPECT_EQ(most, 2);
}

TEST(ScheduleSums, KeepsTheValueUpToRounding) {
  const auto module = parse(products(6, 64, kBalanced));
  const auto arguments = cases::random_arguments(*module, 3);
  const auto before = ir::interpret(*module, arguments);
  ASSERT_TRUE(*schedule_sums(*module));
  const auto after = ir::interpret(*module, arguments);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(cases::compare_close(*before, *after, 1e-5), "");
}

TEST(ScheduleSums, LeavesAccumulationsAndSmallSumsAsTheyAre) {
  for (const auto& text : {products(6, 128, chain(6)), products(6, 8, kBalanced)}) {
    const auto module = parse(text);
    const std::string before = ir::to_text(*module);
    const Result<bool> changed = schedule_sums(*module);
    ASSERT_TRUE(changed.ok());
    EXPECT_FALSE(*changed);
    EXPECT_EQ(ir::to_text(*module), before);
  }
}

TEST(ScheduleSums, IsNotAmongThePassesThatKeepBits) {
  const auto is_it = [](const PassInfo& pass) { return pass.name == "sum-scheduling"; };
  const auto exact = all_passes();
  const auto rounding = rounding_passes();
  EXPECT_FALSE(std::any_of(exact.begin(), exact.end(), is_it));
  EXPECT_TRUE(std::any_of(rounding.begin(), rounding.end(), is_it));
}

// Layers whose results go into the next layer and into a sum.
TEST(Sums, OfSkipConnectionsAccumulate) {
  for (const int layers : {2, 7}) {
    std::string text =
        "HloModule m\nENTRY e {\n x0 = f32[64,64] parameter(0)\n"
        "w = f32[64,64] parameter(1)\n";
    for (int i = 0; i < layers; ++i) {
      const std::string n = std::to_string(i), next = std::to_string(i + 1);
      text += "d" + n + " = f32[64,64] dot(x" + n +
              ", w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n z" + n +
              " = f32[64,64] tanh(d" + n + ")\n x" + next + " = f32[64,64] multiply(x" + n + ", z" +
              n + ")\n";
      if (i > 0) {
        text += (i + 1 == layers ? "ROOT s" : "s") + n + " = f32[64,64] add(" +
                (i == 1 ? "z0" : "s" + std::to_string(i - 1)) + ", z" + n + ")\n";
      }
    }
    const auto module = parse(text + "}\n");
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(accumulations(*module->entry()).size(), layers > 2 ? 5U : 0U);
    ASSERT_TRUE(fuse(*module).ok() && fuse_multi_output(*module).ok());
    // Nothing reads more than one layer's result beside the sum so far.
    for (const auto& instruction : module->entry()->instructions()) {
      EXPECT_LE(instruction->operand_count(), 4) << ir::to_text(*module);
    }
  }
}

}  // namespace
}  // namespace plimsoll::passes
