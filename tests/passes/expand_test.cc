// SPDX-License-Identifier: Apache-2.0
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

Result<bool> expanded(ir::Module& module) {
  PLIMSOLL_RETURN_IF_ERROR(expand(module));
  return true;
}

TEST(Expand, TakesCustomCallsThatAreTheIdentityOnOneDevice) {
  EXPECT_EQ(entry_after(expanded,
                        "x = f32[8,8] parameter(0)\n"
                        "ROOT s = f32[8,8] custom-call(x), custom_call_target=\"Sharding\", "
                        "sharding={replicated}"),
            "p0");
  EXPECT_EQ(entry_after(expanded,
                        "x = f32[8] parameter(0)\n y = f32[8] negate(x)\n"
                        "a = f32[8] custom-call(y), custom_call_target=\"SPMDFullToShardShape\"\n"
                        "b = f32[8] custom-call(a), custom_call_target=\"MoveToHost\"\n"
                        "ROOT s = f32[8] tanh(b)"),
            "tanh(negate(p0))");
  EXPECT_EQ(entry_after(expanded,
                        "x = f32[8] parameter(0)\n i = s32[] parameter(1)\n"
                        "s = (f32[8], s32[]) custom-call(x, i), "
                        "custom_call_target=\"LayoutConstraint\"\n"
                        "ROOT r = f32[8] get-tuple-element(s), index=0"),
            "tuple(p0, p1)#0");
  EXPECT_EQ(entry_after(expanded,
                        "x = f32[8] parameter(0)\n"
                        "ROOT s = f32[8] custom-call(x), custom_call_target=\"other\""),
            "custom-call(p0)");
}

TEST(Expand, RefusesCustomCallsThatMeanSeveralDevices) {
  auto module = parse(
      "HloModule m\nENTRY e { x = f32[8] parameter(0)\n"
      "ROOT s = f32[4] custom-call(x), custom_call_target=\"SPMDFullToShardShape\" }");
  const Status status = expand(*module);
  EXPECT_EQ(status.code(), StatusCode::unimplemented);
  EXPECT_EQ(
      status.message(),
      "'s': the custom call 'SPMDFullToShardShape' makes f32[4] of f32[8], which takes several "
      "devices (one is supported)");
}

TEST(Expand, TakesScalarBitcastsToAnotherTypeAsBitcastConvert) {
  auto module = parse(
      "HloModule m\nless { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      "c = s32[] bitcast(a)\n d = s32[] bitcast(b)\n"
      "ROOT lt = pred[] compare(c, d), direction=LT }\n"
      "ENTRY e { x = f32[16] parameter(0)\n"
      "ROOT s = f32[16] sort(x), dimensions={0}, to_apply=less }");
  ASSERT_TRUE(expand(*module).ok());
  EXPECT_TRUE(ir::verify(*module).ok());
  EXPECT_EQ(expression(*module->entry()->root()->to_apply()->root()),
            "compare(bitcast-convert(p0), bitcast-convert(p1))");
}

TEST(Expand, LeavesBitcastsThatAreViews) {
  EXPECT_EQ(entry_after(expanded, "x = f32[2,2] parameter(0)\n ROOT b = s32[4] bitcast(x)"),
            "bitcast(p0)");
  EXPECT_EQ(entry_after(expanded, "x = f32[] parameter(0)\n ROOT b = f32[] bitcast(x)"),
            "bitcast(p0)");
}

TEST(Expand, TakesTheLargestAsAStableSort) {
  EXPECT_EQ(entry_after(expanded,
                        "x = f32[4,8] parameter(0)\n"
                        "ROOT t = (f32[4,3], s32[4,3]) topk(x), k=3, largest=true"),
            "tuple(slice(sort(p0, iota())#0), slice(sort(p0, iota())#1))");
}

}  // namespace
}  // namespace plimsoll::passes
