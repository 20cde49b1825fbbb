// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/ladder/lend_results.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/planner.h"
#include "tests/planner/parsed.h"

namespace plimsoll::planner {
namespace {

// Of a, b and c two are alive at a time; all are dead when w is made, which has the bytes of two.
constexpr char kTwoBeforeTheResult[] = R"(
HloModule m, is_scheduled=true
sum { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
ENTRY e {
  p = f32[1008] parameter(0)
  zero = f32[] constant(0)
  a = f32[1008] reverse(p), dimensions={0}
  b = f32[1008] reverse(a), dimensions={0}
  c = f32[1008] reverse(b), dimensions={0}
  m = f32[] reduce(c, zero), dimensions={0}, to_apply=sum
  ROOT w = f32[2016] broadcast(m), dimensions={}
})";

std::vector<BufferId> lent(const Plan& plan) {
  std::vector<BufferId> ids;
  for (const BufferId id : plan.buffers.ids()) {
    if (plan.buffers[id].placement == Placement::lent) ids.push_back(id);
  }
  return ids;
}

Plan proven_plan(const ir::Module& module, const PlanOptions& options = {}) {
  auto plan = make_plan(module, RooflineCostModel(), options);
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  if (!plan.ok()) return {};
  const Status proof = check_plan(module, *plan);
  EXPECT_TRUE(proof.ok()) << proof.to_string();
  return std::move(*plan);
}

TEST(LendResults, WhatIsDeadBeforeAResultLiesInItsBytes) {
  const auto module = parse(kTwoBeforeTheResult);
  const Plan plan = proven_plan(*module);
  EXPECT_EQ(lent(plan).size(), 3U);
  // Only m is alive beside the result.
  EXPECT_EQ(plan.arena_bytes, 64);
  EXPECT_EQ(plan.peak_bytes, 4032 + 64 + 8064 + 64);
  const auto floor = find_floor(*module, RooflineCostModel(), {});
  ASSERT_TRUE(floor.ok());
  EXPECT_EQ(floor->bytes, plan.peak_bytes);
  EXPECT_LE(floor->lower_bound_bytes, floor->bytes);
}

// Two results: what is alive when the first is made lies in the second, if it is dead before that.
TEST(LendResults, EachResultLendsUntilItsOwnStep) {
  const auto module = parse(R"(
HloModule m, is_scheduled=true
ENTRY e {
  p = f32[1024] parameter(0)
  a = f32[1024] reverse(p), dimensions={0}
  first = f32[2048] concatenate(a, p), dimensions={0}
  b = f32[1024] reverse(a), dimensions={0}
  second = f32[2048] concatenate(b, a), dimensions={0}
  ROOT r = (f32[2048], f32[2048]) tuple(first, second)
})");
  const Plan plan = proven_plan(*module);
  // a and b are alive at the second one, and when b is made the first one is there.
  EXPECT_EQ(lent(plan).size(), 0U);
  EXPECT_EQ(plan.arena_bytes, 8192);
  const auto other = parse(R"(
HloModule m, is_scheduled=true
ENTRY e {
  p = f32[1024] parameter(0)
  a = f32[1024] reverse(p), dimensions={0}
  first = f32[2048] concatenate(a, p), dimensions={0}
  b = f32[1024] reverse(p), dimensions={0}
  c = f32[1024] reverse(b), dimensions={0}
  second = f32[2048] concatenate(c, p), dimensions={0}
  ROOT r = (f32[2048], f32[2048]) tuple(first, second)
})");
  const Plan better = proven_plan(*other);
  EXPECT_EQ(better.arena_bytes, 4096);  // c
  EXPECT_EQ(lent(better).size(), 2U);   // a and b, in the second
}

// A caller that donates its parameters lends nothing: the old content is there until it is written.
TEST(LendResults, NothingLiesInDonatedParameters) {
  const auto module = parse(R"(
HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
  p = f32[1024] parameter(0)
  a = f32[1024] reverse(p), dimensions={0}
  b = f32[1024] reverse(a), dimensions={0}
  ROOT r = f32[1024] add(b, p)
})");
  const Plan plan = proven_plan(*module);
  EXPECT_EQ(lent(plan).size(), 0U);
  EXPECT_EQ(plan.peak_bytes, 3 * 4096);
}

TEST(LendResults, TheProofSeesWhatDoesNotLieWhereItMay) {
  const auto module = parse(kTwoBeforeTheResult);
  const Plan plan = proven_plan(*module);
  const std::vector<BufferId> ids = lent(plan);
  ASSERT_EQ(ids.size(), 3U);
  const auto refused = [&](auto&& change, const char* why) {
    Plan changed = plan;
    change(changed);
    const Status proof = check_plan(*module, changed);
    EXPECT_FALSE(proof.ok()) << why;
    EXPECT_NE(proof.message().find(why), std::string::npos) << proof.to_string();
  };
  refused([&](Plan& p) { p.buffers[ids[0]].offset = p.buffers[ids[1]].offset; }, "overlaps");
  refused([&](Plan& p) { p.buffers[ids[1]].offset = 8064 - 64; }, "lies outside result leaf 0");
  refused([&](Plan& p) { p.buffers[ids[1]].index = 1; }, "lies outside result leaf 1");
  refused([&](Plan& p) { p.buffers[ids[2]].last_step = p.steps.end_id() - 1; },
          "lives when result 0");
  refused(
      [&](Plan& p) {
        for (Buffer& b : p.buffers) {
          if (b.placement == Placement::output) b.first_step = p.steps.end_id();
        }
      },
      "outside its life");
}

}  // namespace
}  // namespace plimsoll::planner
