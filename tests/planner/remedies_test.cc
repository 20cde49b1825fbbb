// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/remedies.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/ir/text/text.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/ladder/module_planner.h"
#include "runtime/planner/planner.h"
#include "runtime/planner/remedies/remedies_find.h"
#include "tests/planner/graphs.h"

namespace plimsoll::planner {
namespace {

PlanOptions with_tiers() {
  PlanOptions options;
  options.remedies.lossy = true;
  options.host.bytes = options.disk.bytes = std::int64_t{1} << 30;
  return options;
}

// One random form per value, in a random interval of it; transfers start early and are waited for
// late.
std::vector<Choice> random_choices(const Problem& problem, std::span<const Form> forms,
                                   std::mt19937& rng) {
  std::vector<Choice> choices;
  std::unordered_set<ValueId> taken;
  for (const Form& form : forms) {
    if (rng() % 3 != 0 || taken.contains(form.value)) continue;
    const auto uses = problem.uses[form.value];
    const OpId ready = uses[rng() % uses.size()];
    if (ready < form.first_return) continue;
    Choice choice = choose_form(problem, form, ready);
    const auto interval = static_cast<std::uint32_t>(ready - choice.leave);
    if (form.kind != RemedyKind::compress && interval > 0) {
      choice.left += static_cast<std::int32_t>(rng() % interval);
      choice.returns[0].start -=
          static_cast<std::int32_t>(rng() % static_cast<std::uint32_t>(ready - choice.left + 1));
    }
    for (const OpId later : uses) {
      if (later > ready && rng() % 2 == 0) choice.returns.push_back({later, later});
    }
    choices.push_back(choice);
    taken.insert(form.value);
  }
  return choices;
}

TEST(Remedies, RandomChoicesGivePlansThatHold) {
  const RooflineCostModel cost_model;
  StepCounts all;
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const auto module = seed % 2 == 0 ? random_graph(seed, 40) : training_step(4, 16, 16, true);
    std::mt19937 rng(seed);
    const auto plan = plan_with_choices(*module, cost_model, with_tiers(),
                                        [&](const Problem& problem, std::span<const Form> forms) {
                                          return random_choices(problem, forms, rng);
                                        });
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    const Status proof = check_plan(*module, *plan);
    EXPECT_TRUE(proof.ok()) << proof.to_string();
    all.encode += plan->counts.encode;
    all.decode += plan->counts.decode;
    all.swap_out += plan->counts.swap_out;
    all.swap_in += plan->counts.swap_in;
  }
  EXPECT_GT(all.encode, 20);
  EXPECT_GT(all.decode, all.encode);
  EXPECT_GT(all.swap_out, 20);
  EXPECT_GT(all.swap_in, all.swap_out);
}

struct Mask {
  bool recompute, compress, lossy, host, disk;
  bool within(const Mask& o) const {
    return recompute <= o.recompute && compress <= o.compress && lossy <= o.lossy &&
           host <= o.host && disk <= o.disk;
  }
};

PlanOptions options_of(const Mask& mask, double link) {
  PlanOptions options;
  options.remedies = {mask.recompute, mask.compress, mask.host || mask.disk, mask.lossy};
  if (mask.host) options.host.bytes = 40'000;
  if (mask.disk) options.disk.bytes = 1'000'000;
  for (Tier* tier : {&options.host, &options.disk}) {
    tier->latency_seconds = 1e-7;
    tier->in_bytes_per_second = tier->out_bytes_per_second = link;
  }
  return options;
}

constexpr double kNoPlan = std::numeric_limits<double>::infinity();

double seconds_at(ModulePlanner& planner, const ir::Module& module, std::int64_t limit) {
  const auto plan = planner.plan(limit);
  if (!plan.ok()) return kNoPlan;
  EXPECT_LE(plan->peak_bytes, limit);
  const Status proof = check_plan(module, *plan);
  EXPECT_TRUE(proof.ok()) << proof.to_string();
  return plan->predicted_seconds;
}

TEST(Remedies, MoreMemoryTiersOrCodecsNeverGiveASlowerPlan) {
  const RooflineCostModel cost_model;
  std::vector<Mask> masks;
  for (int bits = 0; bits < 32; ++bits) {
    const Mask mask{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0,
                    (bits & 16) != 0};
    if (!mask.lossy || mask.compress) masks.push_back(mask);
  }
  int better = 0;
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    const auto module = seed % 3 == 0 ? training_step(3, 32, 32, true) : random_graph(seed, 30);
    const double link = seed % 2 == 0 ? 5e9 : 25e9;
    PlanOptions alone;
    alone.remedies = {true, false, false, false};
    const auto top = make_plan(*module, cost_model, alone);
    const auto floor = find_floor(*module, cost_model, alone);
    ASSERT_TRUE(top.ok() && floor.ok());
    std::vector<std::vector<double>> seconds;
    for (const Mask& mask : masks) {
      auto planner = ModulePlanner::create(*module, cost_model, options_of(mask, link));
      ASSERT_TRUE(planner.ok());
      seconds.emplace_back();
      for (int i = 0; i <= 8; ++i) {
        const std::int64_t limit = floor->bytes + (top->peak_bytes - floor->bytes) * (i - 1) / 7;
        seconds.back().push_back(seconds_at(**planner, *module, limit));
        if (i > 0) {
          EXPECT_LE(seconds.back().back(), seconds.back()[at(i) - 1]);
        }
      }
    }
    for (std::size_t a = 0; a < masks.size(); ++a) {
      for (std::size_t b = 0; b < masks.size(); ++b) {
        if (!masks[a].within(masks[b])) continue;
        for (std::size_t i = 0; i < seconds[a].size(); ++i) {
          // In another order of ops the same times may add up to a little more.
          EXPECT_LE(seconds[b][i], (1 + 1e-12) * seconds[a][i])
              << "seed " << seed << " masks " << a << " " << b << " limit " << i;
          better += seconds[b][i] < seconds[a][i];
        }
      }
    }
  }
  EXPECT_GT(better, 100);
}

TEST(Remedies, OnlyWhatTransfersAndCollectivesTouchIsPinned) {
  const auto module = ir::parse_module(R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[1024] parameter(0)
  t = f32[1024] tanh(x)
  n = f32[1024] negate(t)
  r = f32[1024] all-reduce(n), replica_groups={}, to_apply=add
  u = f32[1024] cosine(r)
  ROOT z = f32[1024] multiply(u, t)
})",
                                       "test");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const RooflineCostModel cost_model;
  const auto pinned = [](const Plan& plan) {
    std::set<std::string> names;
    for (const Buffer& b : plan.buffers) {
      if (b.pinned) names.insert(b.source->name());
    }
    return names;
  };
  const auto plain = make_plan(**module, cost_model, {});
  ASSERT_TRUE(plain.ok());
  for (const Step& step : plain->steps) {
    if (step.instruction->name() != "r") continue;
    for (const BufferId b : {step.inputs[0], step.outputs[0]}) {
      EXPECT_TRUE(plain->buffers[b].pinned);
    }
  }
  EXPECT_FALSE(pinned(*plain).contains("t"));
  EXPECT_FALSE(pinned(*plain).contains("x"));
  const auto swapped = plan_with_choices(
      **module, cost_model, with_tiers(), [](const Problem& problem, std::span<const Form> forms) {
        std::vector<Choice> choices;
        for (const Form& form : forms) {
          const Value& value = problem.values[form.value];
          if (form.kind == RemedyKind::swap_host && value.source->name() == "t") {
            choices.push_back(choose_form(problem, form, problem.uses[form.value].back()));
          }
        }
        return choices;
      });
  ASSERT_TRUE(swapped.ok()) << swapped.status().to_string();
  EXPECT_EQ(swapped->counts.swap_out, 1);
  EXPECT_TRUE(pinned(*swapped).contains("t"));
  EXPECT_FALSE(pinned(*swapped).contains("x"));
  EXPECT_TRUE(check_plan(**module, *swapped).ok());
}

}  // namespace
}  // namespace plimsoll::planner
