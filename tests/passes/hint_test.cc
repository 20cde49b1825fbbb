// SPDX-License-Identifier: Apache-2.0
// What the passes do with hints (runtime/ir/hint.h).
#include <gtest/gtest.h>

#include <string>

#include "runtime/ir/hint.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"

namespace plimsoll::passes {
namespace {

std::unique_ptr<ir::Module> optimized(const std::string& text) {
  auto module = ir::parse_module(text, "m");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  if (!module.ok()) return nullptr;
  const Status status = optimize(**module);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return std::move(*module);
}

int hinted(const ir::Module& module, ir::Hint hint) {
  int count = 0;
  for (const auto& instruction : module.entry()->instructions()) {
    count += ir::hint_of(*instruction) == hint;
  }
  return count;
}

int kernels(const ir::Module& module) {
  int count = 0;
  for (const auto& instruction : module.entry()->instructions()) {
    count += instruction->opcode() != ir::Opcode::parameter &&
             instruction->opcode() != ir::Opcode::get_tuple_element &&
             instruction->opcode() != ir::Opcode::tuple;
  }
  return count;
}

std::string chain(const std::string& hint) {
  return R"(
HloModule m
ENTRY e {
  x = f32[1000] parameter(0)
  a = f32[1000] exponential(x)
  b = f32[1000] negate(a))" +
         hint + R"(
  c = f32[1000] tanh(b)
  ROOT d = f32[1000] add(c, x)
})";
}

TEST(Hint, KeptCompressedAndSwappedValuesStayValuesOfTheirOwn) {
  EXPECT_EQ(kernels(*optimized(chain(""))), 1);
  for (const ir::Hint hint : {ir::Hint::keep, ir::Hint::compress, ir::Hint::swap}) {
    const auto module = optimized(chain(", frontend_attributes={plimsoll.hint=\"" +
                                        std::string(ir::to_string(hint)) + "\"}"));
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(hinted(*module, hint), 1) << ir::to_text(*module);
  }
}

TEST(Hint, AValueToRecomputeMayVanishInAFusion) {
  const auto module = optimized(chain(", frontend_attributes={plimsoll.hint=\"recompute\"}"));
  EXPECT_EQ(kernels(*module), 1) << ir::to_text(*module);
}

TEST(Hint, ARewriteHandsItOn) {
  const auto module = optimized(R"(
HloModule m
ENTRY e {
  x = f32[8,4] parameter(0)
  y = f32[4,8] parameter(1)
  m = f32[8,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[8,8] negate(m)
  nn = f32[8,8] negate(n), frontend_attributes={plimsoll.hint="compress"}
  t = f32[8,8] transpose(nn), dimensions={1,0}
  ROOT r = f32[8,8] dot(nn, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  const ir::Instruction* dot = module->entry()->find("m");
  ASSERT_NE(dot, nullptr) << ir::to_text(*module);
  EXPECT_EQ(ir::hint_of(*dot), ir::Hint::compress) << ir::to_text(*module);
}

TEST(Hint, EqualInstructionsAreMergedWhateverTheirHints) {
  auto module = ir::parse_module(R"(
HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  a = f32[8] exponential(x)
  b = f32[8] exponential(x), frontend_attributes={plimsoll.hint="keep"}
  ROOT r = f32[8] add(a, b)
})",
                                 "m");
  ASSERT_TRUE(module.ok());
  ASSERT_TRUE(*eliminate_common_subexpressions(**module));
  EXPECT_EQ(ir::hint_of(*(*module)->entry()->find("a")), ir::Hint::keep);
  EXPECT_EQ((*module)->entry()->find("b"), nullptr);
}

TEST(Hint, MergedKernelsKeepTheHintsOfTheirResults) {
  const auto module = optimized(R"(
HloModule m
ENTRY e {
  x = f32[1000] parameter(0)
  a = f32[1000] exponential(x), frontend_attributes={plimsoll.hint="keep"}
  b = f32[1000] tanh(a)
  ROOT t = (f32[1000], f32[1000]) tuple(a, b)
})");
  EXPECT_EQ(hinted(*module, ir::Hint::keep), 1) << ir::to_text(*module);
}

}  // namespace
}  // namespace plimsoll::passes
