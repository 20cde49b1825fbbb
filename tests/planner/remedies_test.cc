// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "runtime/ir/text.h"
#include "runtime/planner/cost_model.h"
#include "runtime/planner/planner.h"
#include "tests/planner/graphs.h"

namespace plimsoll::planner {
namespace {

PlanOptions with_tiers() {
  PlanOptions options;
  options.remedies.lossy = true;
  options.host.bytes = options.disk.bytes = std::int64_t{1} << 30;
  return options;
}

// One random form per value, in a random gap of it; transfers start early and are waited for late.
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
    const auto gap = static_cast<std::uint32_t>(ready - choice.leave);
    if (form.kind != RemedyKind::compress && gap > 0) {
      choice.left += static_cast<OpId>(rng() % gap);
      choice.returns[0].start -=
          static_cast<OpId>(rng() % static_cast<std::uint32_t>(ready - choice.left + 1));
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

}  // namespace
}  // namespace plimsoll::planner
