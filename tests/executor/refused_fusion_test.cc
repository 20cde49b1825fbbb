// SPDX-License-Identifier: Apache-2.0
// Fusions that a program brings along and no kernel takes run instruction by instruction.
#include <gtest/gtest.h>

#include "runtime/ir/text/text.h"
#include "runtime/program/program.h"
#include "tests/cases/compare.h"
#include "tests/cases/fused_entry.h"
#include "tests/cases/op_cases.h"
#include "tests/cases/random_fusion.h"
#include "tests/executor/limit_check.h"
#include "tests/executor/test_provider.h"

namespace plimsoll {
namespace {

class RefusedFusions : public ::testing::Test {
 protected:
  void SetUp() override {
    auto provider = create_provider();
    ASSERT_TRUE(provider.ok()) << provider.status().to_string();
    provider_ = std::move(*provider);
  }
  std::shared_ptr<device::KernelProvider> provider_;
};

// A reduce that is read transposed, a dot, a sort, a fusion within a fusion, and one that has a
// kernel; the loop's body has one, too.
constexpr const char* kText = R"(HloModule m
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
less { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = pred[] compare(a, b), direction=LT }
turned { x = f32[20,30,8] parameter(0)
 z = f32[] constant(0)
 s = f32[20,30] reduce(x, z), dimensions={2}, to_apply=sum
 t = f32[30,20] transpose(s), dimensions={1,0}
 ROOT e = f32[30,20] exponential(t) }
inner { x = f32[20,20] parameter(0)
 ROOT y = f32[20,20] tanh(x) }
product { x = f32[30,20] parameter(0)
 d = f32[20,20] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
 n = f32[20,20] fusion(d), kind=kLoop, calls=inner
 o = f32[20,20] sort(n), dimensions={1}, to_apply=less
 ROOT r = (f32[20,20], f32[20,20]) tuple(n, o) }
body { p = (s32[], f32[20,20]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 x = f32[20,20] get-tuple-element(p), index=1
 one = s32[] constant(1)
 j = s32[] add(i, one)
 y = f32[20,20] fusion(x), kind=kOutput, calls=square
 ROOT r = (s32[], f32[20,20]) tuple(j, y) }
square { x = f32[20,20] parameter(0)
 d = f32[20,20] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 ROOT y = f32[20,20] tanh(d) }
more { p = (s32[], f32[20,20]) parameter(0)
 i = s32[] get-tuple-element(p), index=0
 n = s32[] constant(3)
 ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[20,30,8] parameter(0)
 a = f32[30,20] fusion(x), kind=kInput, calls=turned
 b = (f32[20,20], f32[20,20]) fusion(a), kind=kOutput, calls=product
 c = f32[20,20] get-tuple-element(b), index=0
 d = f32[20,20] get-tuple-element(b), index=1
 f = f32[20,20] fusion(d), kind=kLoop, calls=inner
 zero = s32[] constant(0)
 w = (s32[], f32[20,20]) tuple(zero, f)
 l = (s32[], f32[20,20]) while(w), condition=more, body=body
 g = f32[20,20] get-tuple-element(l), index=1
 ROOT r = (f32[20,20], f32[20,20], f32[20,20]) tuple(c, d, g) })";

TEST_F(RefusedFusions, RunInstructionByInstructionAtEveryLimit) {
  const auto module = ir::parse_module(kText);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto arguments = cases::random_arguments(**module, 3);
  testing::LimitOptions options;
  options.optimize = false;
  EXPECT_EQ(testing::check_limits(**module, arguments, *provider_, 5, 6, options), "");
  std::string error;
  const ir::Literal written = testing::run_unlimited(**module, arguments, *provider_, false, error);
  ASSERT_EQ(error, "");
  const ir::Literal inlined = testing::run_unlimited(**module, arguments, *provider_, true, error);
  ASSERT_EQ(error, "");
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(cases::compare_bits(inlined.elements()[i], written.elements()[i]), "") << i;
  }
}

TEST_F(RefusedFusions, OnlyThoseAreInlined) {
  auto module = ir::parse_module(kText);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto program = executor::Program::create(std::move(*module), *provider_, false);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  std::string fusions;
  for (const auto& instruction : (*program)->module().entry()->instructions()) {
    if (instruction->opcode() == ir::Opcode::fusion) {
      fusions += instruction->to_apply()->name() + " ";
    }
  }
  EXPECT_EQ(fusions, "inner inner ");
}

TEST_F(RefusedFusions, AtRandomHaveTheBitsOfTheirInstructions) {
  const auto& table = cases::op_cases();
  int taken = 0, refused = 0;
  for (std::size_t i = 0; i < table.size(); i += 5) {
    const auto program = ir::parse_module(table[i].hlo, table[i].name);
    ASSERT_TRUE(program.ok()) << table[i].name;
    const auto module = cases::random_fusion(**program, i);
    if (module == nullptr) continue;
    const auto arguments = cases::random_arguments(*module, i);
    std::string error;
    const ir::Literal expected =
        testing::run_unlimited(*module, arguments, *provider_, false, error);
    if (!error.empty()) continue;  // nothing has a kernel for one of them
    const auto fusion = cases::fused_entry(*module);
    ++(provider_->kernel(*fusion->entry()->root()).ok() ? taken : refused);
    const ir::Literal actual = testing::run_unlimited(*fusion, arguments, *provider_, false, error);
    ASSERT_EQ(error, "") << table[i].name << "\n" << ir::to_text(*fusion);
    EXPECT_EQ(cases::compare_bits(expected, actual), "") << table[i].name << "\n"
                                                         << ir::to_text(*fusion);
  }
  EXPECT_GT(taken, 20);
  EXPECT_GT(refused, 10);
}

TEST_F(RefusedFusions, OfResultsThatDifferInNumberStayInTheirBounds) {
  const auto module = ir::parse_module(
      "both { x = f32[200] parameter(0)\n y = f32[100] parameter(1)\n"
      " c = f32[300] concatenate(x, y), dimensions={0}\n n = f32[300] negate(c)\n"
      " s = f32[200] slice(n), slice={[0:200]}\n t = f32[100] slice(n), slice={[200:300]}\n"
      " ROOT r = (f32[200], f32[100]) tuple(s, t) }\n"
      "ENTRY e { x = f32[200] parameter(0)\n y = f32[100] parameter(1)\n"
      " ROOT f = (f32[200], f32[100]) fusion(x, y), kind=kLoop, calls=both }");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  EXPECT_EQ(provider_->kernel(*(*module)->entry()->root()).status().code(),
            StatusCode::unimplemented);
  const auto arguments = cases::random_arguments(**module, 4);
  std::string error;
  const ir::Literal made = testing::run_unlimited(**module, arguments, *provider_, false, error);
  ASSERT_EQ(error, "");
  for (std::size_t i = 0; i < 2; ++i) {
    const ir::Literal& from = arguments[i];
    for (std::int64_t k = 0; k < from.shape().element_count(); ++k) {
      ASSERT_EQ(made.elements()[i].at(k), -from.at(k)) << i << " " << k;
    }
  }
}

TEST_F(RefusedFusions, ErrorsNameWhatHasNoKernelInThem) {
  auto module = ir::parse_module(
      "odd { x = f32[4] parameter(0)\n y = f32[4] custom-call(x), custom_call_target=\"none\"\n"
      " ROOT z = f32[4] add(y, y) }\n"
      "ENTRY e { x = f32[4] parameter(0)\n ROOT f = f32[4] fusion(x), kind=kLoop, calls=odd }");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto program = executor::Program::create(std::move(*module), *provider_, false);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), StatusCode::unimplemented);
  EXPECT_NE(program.status().message().find("custom-call"), std::string::npos)
      << program.status().message();
}

}  // namespace
}  // namespace plimsoll
