// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/dataflow/scan_residuals.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ir/dataflow/induction_variables.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/planner.h"
#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/timeline.h"
#include "tests/cases/gru_step.h"
#include "tests/planner/parsed.h"

namespace plimsoll::planner {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::optional<ir::ResidualAccess> access_of(const std::string& text, const char* loop, int leaf) {
  static std::vector<std::unique_ptr<ir::Module>> kept;
  kept.push_back(parse(text));
  return find_residual_access(*kept.back()->entry()->find(loop), leaf);
}

const std::string kStep = cases::gru_step(8, 4, 16);

TEST(ScanResiduals, OneLoopWritesTheResidualAndAnotherReadsItBackwards) {
  const auto written = access_of(kStep, "scan", 2);
  ASSERT_TRUE(written.has_value());
  EXPECT_TRUE(written->writes);
  EXPECT_EQ(written->slices, 8);
  EXPECT_EQ(written->slice_bytes, 4 * 16 * 4);
  EXPECT_EQ(std::pair(written->first, written->step),
            (std::pair<std::int64_t, std::int64_t>(0, 1)));
  const auto read = access_of(kStep, "gradient", 2);
  ASSERT_TRUE(read.has_value());
  EXPECT_FALSE(read->writes);
  EXPECT_EQ(read->rounds, 8);
  EXPECT_EQ(std::pair(read->first, read->step), (std::pair<std::int64_t, std::int64_t>(7, -1)));
}

TEST(ScanResiduals, NeitherStatesNorWeightsNorCountersAreResiduals) {
  for (const int leaf : {0, 1, 6, 7}) EXPECT_FALSE(access_of(kStep, "scan", leaf)) << leaf;
  for (const int leaf : {0, 1, 6, 8}) EXPECT_FALSE(access_of(kStep, "gradient", leaf)) << leaf;
}

TEST(ScanResiduals, AResidualThatIsNotWrittenThroughoutIsNone) {
  EXPECT_FALSE(access_of(
      replaced(kStep, "n = s32[] constant(8)\n  ROOT less", "n = s32[] constant(7)\n  ROOT less"),
      "scan", 2));
}

TEST(ScanResiduals, ALoopThatAlsoReadsWhatItWritesHasNoResidual) {
  EXPECT_FALSE(access_of(replaced(kStep, "hs2 = f32[8,4,16] dynamic-update-slice(hs,",
                                  "seen = f32[8,4,16] negate(hs)\n"
                                  "  hs2 = f32[8,4,16] dynamic-update-slice(seen,"),
                         "scan", 2));
  EXPECT_FALSE(access_of(replaced(kStep, "h = f32[4,16] reshape(h1)",
                                  "m = f32[1,4,16] slice(hs), slice={[0:1],[0:4],[0:16]}\n"
                                  "  ha = f32[1,4,16] add(h1, m)\n  h = f32[4,16] reshape(ha)"),
                         "gradient", 2));
}

// Written in place, but what was there before matters.
TEST(ScanResiduals, NorOneThatReadsInAFusionWhatItReplaces) {
  const std::string fused =
      "f {\n  hs = f32[8,4,16] parameter(0)\n  h = f32[1,4,16] parameter(1)\n"
      "  i = s32[] parameter(2)\n  zero = s32[] constant(0)\n"
      "  old = f32[1,4,16] dynamic-slice(hs, i, zero, zero), dynamic_slice_sizes={1,4,16}\n"
      "  sum = f32[1,4,16] SUM\n"
      "  ROOT r = f32[8,4,16] dynamic-update-slice(hs, sum, i, zero, zero)\n}\n";
  std::string text = kStep;
  const std::size_t at = text.find("hs2 = f32[8,4,16] dynamic-update-slice(hs, ");
  ASSERT_NE(at, std::string::npos);
  const std::size_t value = text.find(' ', text.find("(hs,", at)) + 1;
  const std::string update = text.substr(value, text.find(',', value) - value);
  text.replace(at, text.find('\n', at) - at,
               "hs2 = f32[8,4,16] fusion(hs, " + update + ", i), kind=kLoop, calls=f");
  const auto with = [&](const std::string& sum) {
    return replaced(text, "\nforward {", "\n" + replaced(fused, "SUM", sum) + "forward {");
  };
  EXPECT_FALSE(access_of(with("add(old, h)"), "scan", 2));
  // What reads it may also do without.
  EXPECT_FALSE(access_of(with("negate(h)"), "scan", 2));
}

TEST(ScanResiduals, RoundsThatDependOnDataAreNotKnown) {
  EXPECT_FALSE(access_of(replaced(kStep, "i = s32[] constant(0)\n  nothing",
                                  "f = f32[1,1,1] slice(xs), slice={[0:1],[0:1],[0:1]}\n"
                                  "  g = f32[] reshape(f)\n  i = s32[] convert(g)\n  nothing"),
                         "scan", 2));
}

TEST(LoopCounters, FollowTheBodysIntegersRoundByRound) {
  const auto module = parse(R"(
HloModule m
condition { s = (u8[], s32[], s32[]) parameter(0)
  i = u8[] get-tuple-element(s), index=0
  n = u8[] constant(3)
  ROOT less = pred[] compare(i, n), direction=NE }
body { s = (u8[], s32[], s32[]) parameter(0)
  i = u8[] get-tuple-element(s), index=0
  a = s32[] get-tuple-element(s), index=1
  b = s32[] get-tuple-element(s), index=2
  one = u8[] constant(1)
  next = u8[] add(i, one)
  sum = s32[] add(a, b)
  ROOT t = (u8[], s32[], s32[]) tuple(next, b, sum) }
ENTRY e {
  i = u8[] constant(254)
  a = s32[] constant(0)
  b = s32[] constant(1)
  start = (u8[], s32[], s32[]) tuple(i, a, b)
  ROOT loop = (u8[], s32[], s32[]) while(start), condition=condition, body=body
})");
  const ir::Instruction& loop = *module->entry()->find("loop");
  const auto sums = scalar_by_round(loop, *loop.while_body()->find("sum"), {});
  ASSERT_TRUE(sums.has_value());
  // The counter wraps around: 254, 255, 0, 1, 2.
  EXPECT_EQ(*sums, (std::vector<std::int64_t>{1, 2, 3, 5, 8}));
}

TEST(ScanResiduals, OnlyWindowsLieInTheArenaWhereTheResidualIsSliced) {
  const auto module = parse(cases::gru_step(32, 64, 128));
  const RooflineCostModel cost_model;
  PlanOptions options;
  const auto kept = make_plan(*module, cost_model, options);
  ASSERT_TRUE(kept.ok());
  options.host.bytes = 1 << 30;
  options.limit_bytes = kept->peak_bytes * 3 / 10;
  const auto plan = make_plan(*module, cost_model, options);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_TRUE(check_plan(*module, *plan).ok());
  constexpr std::int64_t kSlice = 64 * 128 * 4;
  int windows = 0;
  for (const Step& step : plan->steps) {
    for (const SlicedState& state : step.sliced) {
      EXPECT_EQ(plan->buffers[state.window].bytes, 2 * kSlice);
      ++windows;
    }
  }
  EXPECT_EQ(windows, 6);
  EXPECT_EQ(plan->tier_bytes.host, 3 * 32 * kSlice);
  EXPECT_LE(plan->lower_bound_seconds, plan->predicted_seconds);
  // Nothing that is wrong with a window goes unseen.
  const auto find = [](Plan& wrong) -> SlicedState& {
    for (Step& step : wrong.steps) {
      if (!step.sliced.empty()) return step.sliced[0];
    }
    return wrong.steps.front().sliced[0];
  };
  const std::vector<std::pair<std::function<void(Plan&)>, std::string>> wrongs = {
      {[&](Plan& p) { find(p).step = -1; }, "is not used as the residual that the step says"},
      {[&](Plan& p) { find(p).rounds = 31; }, "is not used as the residual that the step says"},
      {[&](Plan& p) { find(p).leaf = 1; }, ""},
      {[&](Plan& p) { find(p).window = {}; }, "a residual's window cannot be used"},
      {[&](Plan& p) { p.buffers[find(p).window].pinned = false; },
       "is in a transfer and not pinned"},
      {[&](Plan& p) { p.tier_bytes.host += 64; }, "the bytes of a tier are not what it says"}};
  for (const auto& [change, text] : wrongs) {
    Plan wrong = *plan;
    change(wrong);
    const Status status = check_plan(*module, wrong);
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  }
}

TEST(SlicedSeconds, AreThoseOfTheLongestPartAndTheOthersOnce) {
  SlicedLoop loop;
  PerTier<Tier> tiers;
  tiers.disk.latency_seconds = 1;
  tiers.disk.out_bytes_per_second = tiers.disk.in_bytes_per_second = 100;
  SlicedState state;
  state.slice_bytes = 100;
  state.rounds = 10;
  state.writes = true;
  add_transfers(loop, state, MemorySpace::disk, tiers);
  EXPECT_DOUBLE_EQ(sliced_seconds(loop, 50), 10 * 5 + 2);  // hidden but for the last
  EXPECT_DOUBLE_EQ(sliced_seconds(loop, 10), 10 * 2 + 1);  // the link is what takes long
  tiers.disk.compute_share = 0.5;
  loop = {};
  add_transfers(loop, state, MemorySpace::disk, tiers);
  EXPECT_DOUBLE_EQ(sliced_seconds(loop, 50), 10 * (5 + 1) + 2);
  tiers.disk.synchronous_out_bytes_per_second = 200;
  state.synchronous = true;
  loop = {};
  add_transfers(loop, state, MemorySpace::disk, tiers);
  EXPECT_DOUBLE_EQ(sliced_seconds(loop, 50), 10 * (5 + 0.5));
}

}  // namespace
}  // namespace plimsoll::planner
