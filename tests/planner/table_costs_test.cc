// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/builtin_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/planner/check/check.h"
#include "runtime/planner/ladder/module_planner.h"
#include "tests/planner/graphs.h"

namespace plimsoll::planner {
namespace {

// Each instruction takes from a microsecond to a millisecond, whatever it does.
class ShuffledModel : public RooflineCostModel {
 public:
  explicit ShuffledModel(std::uint32_t seed) : seed_(seed) {}
  double seconds(const ir::Instruction& instruction) const override {
    std::uint32_t hash = seed_ * 2654435761U;
    for (const char c : instruction.name())
      hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    hash ^= hash >> 15;
    return 1e-6 * static_cast<double>(1 << hash % 11);
  }

 private:
  std::uint32_t seed_;
};

PlanOptions with_host(double bytes_per_second) {
  PlanOptions options;
  options.host = {1 << 20, bytes_per_second, bytes_per_second, 1e-6};
  return options;
}

void check_floors(const ir::Module& module, const std::string& name) {
  SCOPED_TRACE(name);
  const RooflineCostModel table;
  ASSERT_TRUE(is_table(module, table));
  const auto floor = find_floor(module, table, {});
  const auto host_floor = find_floor(module, table, with_host(10e9));
  ASSERT_TRUE(floor.ok() && host_floor.ok());
  for (std::uint32_t seed = 1; seed <= 2; ++seed) {
    const ShuffledModel model(seed);
    EXPECT_FALSE(is_table(module, model));
    for (const bool host : {false, true}) {
      const PlanOptions options = host ? with_host(1e9 * seed) : PlanOptions();
      const std::int64_t least = host ? host_floor->bytes : floor->bytes;
      const auto planner = ModulePlanner::create(module, model, options);
      ASSERT_TRUE(planner.ok());
      EXPECT_EQ((*planner)->floor().bytes, least);
      const Status brief = (*planner)->plan(least - 1, nullptr, Refusal::brief).status();
      EXPECT_EQ(brief.code(), StatusCode::resource_exhausted);
      EXPECT_EQ(brief.shortage(), nullptr);
      const Status refused = (*planner)->plan(least - 1).status();
      ASSERT_NE(refused.shortage(), nullptr) << refused.to_string();
      EXPECT_EQ(refused.shortage()->floor_bytes, least);
      for (const std::int64_t limit : {least, least + least / 5}) {
        const auto plan = (*planner)->plan(limit);
        ASSERT_TRUE(plan.ok()) << plan.status().to_string();
        EXPECT_LE(plan->peak_bytes, limit);
        EXPECT_LE(plan->lower_bound_seconds, plan->predicted_seconds);
        EXPECT_GE(plan->lower_bound_seconds, plan->unlimited_seconds * (1 - 1e-9));
        Plan priced = *plan;
        price_plan(priced, model, options);
        EXPECT_NEAR(priced.predicted_seconds, plan->predicted_seconds,
                    1e-9 * plan->predicted_seconds);
        const Status proof = check_plan(module, *plan);
        EXPECT_TRUE(proof.ok()) << proof.to_string();
      }
    }
  }
}

TEST(TableCosts, TheFloorIsTheSameWhateverIsMeasured) {
  check_floors(*training_step(6, 32, 64, true), "residual");
  check_floors(*training_step(7, 64, 32), "perceptron");
  for (const std::uint32_t seed : {3U, 10U}) {
    check_floors(*random_graph(seed, 60), "random " + std::to_string(seed));
  }
}

// A plan that was made for the table's links, on a machine that had better copy by the kernels'
// threads.
TEST(TableCosts, APlanOfTheTableCopiesAsTheMachineHadBetter) {
  const auto module = training_step(8, 64, 64, true);
  const RooflineCostModel model;
  const PlanOptions table = with_host(10e9);
  const auto planner = *ModulePlanner::create(*module, model, table);
  Plan plan = *planner->plan(planner->floor().bytes);
  PlanOptions machine = table;
  machine.host.compute_share = 0.5;
  machine.host.synchronous_out_bytes_per_second = machine.host.synchronous_in_bytes_per_second =
      20e9;
  const auto synchronous = [&] {
    return std::count_if(plan.steps.begin(), plan.steps.end(),
                         [](const Step& step) { return step.synchronous; });
  };
  ASSERT_GT(plan.counts.swap_out, 0);
  EXPECT_EQ(synchronous(), 0);
  choose_copies(plan, machine);
  EXPECT_EQ(synchronous(), plan.counts.swap_out + plan.counts.swap_in);
  const Status proof = check_plan(*module, plan);
  EXPECT_TRUE(proof.ok()) << proof.to_string();
  choose_copies(plan, table);
  EXPECT_EQ(synchronous(), 0);
}

TEST(TableCosts, APlanIsPricedAsItsPlannerPricesIt) {
  const auto module = training_step(8, 64, 64, true);
  const RooflineCostModel table;
  const PlanOptions options = with_host(4e9);
  const auto planner = *ModulePlanner::create(*module, table, options);
  const std::int64_t floor = planner->floor().bytes;
  const std::int64_t peak = planner->plan(kUnlimited)->peak_bytes;
  std::int64_t swaps = 0;
  for (int i = 0; i <= 12; ++i) {
    const Plan plan = *planner->plan(floor + (peak - floor) * i / 12);
    swaps += plan.counts.swap_in;
    Plan priced = plan;
    price_plan(priced, table, options);
    EXPECT_NEAR(priced.predicted_seconds, plan.predicted_seconds, 1e-9 * plan.predicted_seconds);
    EXPECT_NEAR(priced.unlimited_seconds, plan.unlimited_seconds, 1e-9 * plan.unlimited_seconds);
  }
  EXPECT_GT(swaps, 0);
}

}  // namespace
}  // namespace plimsoll::planner
