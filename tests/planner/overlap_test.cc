// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/order/overlap.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "runtime/ir/participants.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/planner.h"
#include "runtime/planner/problem/arrange.h"
#include "runtime/planner/problem/extract.h"
#include "runtime/planner/remat/remat.h"
#include "runtime/planner/residency.h"
#include "tests/cases/random_module.h"
#include "tests/planner/parsed.h"

namespace plimsoll::planner {
namespace {

const RooflineCostModel kRoofline;

constexpr std::string_view kTwoReplicas =
    "HloModule m, replica_count=2\n"
    "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n";

// Layers with a gradient each, which is summed; its update stands right behind the sum. What is
// kept of each layer until then (`h`) makes the peak come early, as activations do.
std::unique_ptr<ir::Module> layers_with_sums(int layers, int width) {
  const std::string square = fmt::format("f32[{0},{0}]", width);
  std::string text(kTwoReplicas), results, types;
  text += fmt::format("ENTRY e {{\n  h0 = {} parameter(0)\n", square);
  for (int i = 0; i < layers; ++i) {
    text += fmt::format(
        "  w{0} = {1} parameter({2})\n"
        "  p{0} = {1} dot(h{0}, w{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        "  h{2} = {1} tanh(p{0})\n",
        i, square, i + 1);
  }
  text += fmt::format("  d{} = {} negate(h{})\n", layers, square, layers);
  for (int i = layers; i-- > 0;) {
    text += fmt::format(
        "  g{0} = {1} dot(h{0}, d{2}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n"
        "  s{0} = {1} all-reduce(g{0}), to_apply=sum\n  n{0} = {1} subtract(w{0}, s{0})\n"
        "  d{0} = {1} dot(d{2}, w{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}\n",
        i, square, i + 1);
    results += fmt::format("{}n{}", results.empty() ? "" : ", ", i);
    types += fmt::format("{}{}", types.empty() ? "" : ", ", square);
  }
  text += fmt::format("  ROOT r = ({}, {}) tuple({}, d0)\n}}\n", types, square, results);
  return parse(text);
}

// Layers on a few rows, whose weights are gathered right before they are read.
std::unique_ptr<ir::Module> layers_with_gathers(int layers, int width) {
  const std::string rows = fmt::format("f32[32,{}]", width);
  std::string text(kTwoReplicas);
  text += fmt::format("ENTRY e {{\n  h0 = {} parameter(0)\n", rows);
  for (int i = 0; i < layers; ++i) {
    text += fmt::format(
        "  w{0} = f32[{3},{4}] parameter({2})\n"
        "  a{0} = f32[{4},{4}] all-gather(w{0}), dimensions={{0}}\n"
        "  p{0} = {1} dot(h{0}, a{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        "  h{2} = {1} tanh(p{0})\n",
        i, rows, i + 1, width / 2, width);
  }
  return parse(text + fmt::format("  ROOT r = {} negate(h{})\n}}\n", rows, layers));
}

std::vector<OpId> as_written(const Graph& graph) {
  std::vector<OpId> order;
  for (const OpId op : graph.ops.ids()) order.push_back(op);
  return order;
}

struct Planned {
  Plan plan;
  int beside = 0;  // collectives before whose first use something else is computed
};

Planned planned(const ir::Module& module, std::int64_t limit, bool overlaps) {
  PlanOptions options;
  options.parameters = default_residency(module);
  options.limit_bytes = limit;
  if (!overlaps) options.without.add(Technique::overlap);
  auto made = make_plan(module, kRoofline, options);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  if (!made.ok()) return {};
  const Status proof = check_plan(module, *made);
  EXPECT_TRUE(proof.ok()) << proof.to_string();
  Planned found{std::move(*made)};
  const auto& steps = found.plan.steps;
  for (const StepId t : steps.ids()) {
    if (!ir::may_go_on(*steps[t].instruction)) continue;
    const BufferId result = steps[t].outputs.front();
    int between = 0;
    for (StepId u = t + 1; u < steps.end_id(); ++u) {
      const auto& inputs = steps[u].inputs;
      if (std::find(inputs.begin(), inputs.end(), result) != inputs.end()) break;
      if (!ir::may_go_on(*steps[u].instruction)) ++between;
    }
    if (between > 0) ++found.beside;
  }
  return found;
}

std::int64_t floor_of(const ir::Module& module, bool overlaps) {
  PlanOptions options;
  options.parameters = default_residency(module);
  if (!overlaps) options.without.add(Technique::overlap);
  const auto floor = find_floor(module, kRoofline, options);
  EXPECT_TRUE(floor.ok()) << floor.status().to_string();
  return floor.ok() ? floor->bytes : 0;
}

TEST(Overlap, UpdatesLetWhatFollowsGoBeforeThem) {
  const auto module = layers_with_sums(8, 256);
  ASSERT_NE(module, nullptr);
  const Planned waiting = planned(*module, kUnlimited, false);
  // The last one has nothing left to go on beside.
  EXPECT_GE(planned(*module, kUnlimited, true).beside, 7);
  EXPECT_LE(waiting.beside, 1);
}

// At the peak that a plan has in any case, the order takes no more: late sums find the room that
// what was kept of the layers has left.
TEST(Overlap, TakesNoMoreWhereTheLimitIsThePeak) {
  const auto module = layers_with_sums(8, 256);
  const Planned waiting = planned(*module, kUnlimited, false);
  const Planned made = planned(*module, waiting.plan.peak_bytes, true);
  EXPECT_EQ(made.plan.peak_bytes, waiting.plan.peak_bytes);
  EXPECT_EQ(made.plan.predicted_seconds, waiting.plan.predicted_seconds);
  EXPECT_GE(made.beside, 4);
  EXPECT_EQ(floor_of(*module, true), floor_of(*module, false));
  for (const int percent : {90, 75, 60}) {
    const std::int64_t limit = waiting.plan.peak_bytes * percent / 100;
    if (limit < floor_of(*module, true)) break;
    EXPECT_EQ(planned(*module, limit, true).plan.peak_bytes,
              planned(*module, limit, false).plan.peak_bytes);
  }
}

TEST(Overlap, GathersBeginWhileTheLayerBeforeIsComputed) {
  const auto module = layers_with_gathers(8, 256);
  ASSERT_NE(module, nullptr);
  const Planned waiting = planned(*module, kUnlimited, false);
  const Planned made = planned(*module, kUnlimited, true);
  EXPECT_LE(waiting.beside, 1);
  EXPECT_GE(made.beside, 7);
  // Not all at once: one layer's weights, or two, beside those that are read.
  const std::int64_t weights = 256 * 256 * 4;
  EXPECT_LE(made.plan.peak_bytes, waiting.plan.peak_bytes + 2 * weights);
  // Without room there is no less of it.
  const Planned tight = planned(*module, waiting.plan.peak_bytes, true);
  EXPECT_EQ(tight.plan.peak_bytes, waiting.plan.peak_bytes);
  EXPECT_EQ(floor_of(*module, true), floor_of(*module, false));
}

// More memory, more that goes on, and never a higher peak with less.
TEST(Overlap, PeaksRiseWithTheLimit) {
  const auto module = layers_with_gathers(8, 256);
  const std::int64_t least = planned(*module, kUnlimited, false).plan.peak_bytes;
  const std::int64_t most = planned(*module, kUnlimited, true).plan.peak_bytes;
  ASSERT_LT(least, most);
  std::int64_t before = 0;
  for (int i = 0; i <= 8; ++i) {
    const std::int64_t limit = least + (most - least) * i / 8;
    const std::int64_t peak = planned(*module, limit, true).plan.peak_bytes;
    EXPECT_LE(peak, limit);
    EXPECT_GE(peak, before);
    before = peak;
  }
  EXPECT_EQ(before, most);
}

TEST(Overlap, ProgramsOfOneParticipantAreNotTouched) {
  auto module = layers_with_sums(4, 64);
  ASSERT_NE(module, nullptr);
  module->replica_count = 1;
  const Graph graph = extract(*module->entry(), Role::entry, default_residency(*module), kRoofline);
  const Problem problem = arrange(graph, as_written(graph), true);
  EXPECT_FALSE(has_overlap(problem));
  EXPECT_EQ(overlap_collectives(problem, each_once(problem), kUnlimited), std::nullopt);
}

// Who meets whom, and what has an effect, stays in order.
std::vector<const ir::Instruction*> meetings_of(const Problem& problem, const Schedule& schedule) {
  std::vector<const ir::Instruction*> found;
  for (const OpId op : schedule) {
    const ir::Instruction* const instruction = problem.ops[op].instruction;
    if (instruction == nullptr || problem.ops[op].kind == StepKind::copy) continue;
    if (ir::is_meeting(*instruction) || instruction->has_side_effect())
      found.push_back(instruction);
  }
  return found;
}

// Random programs, everything once and recomputing: the same executions, in an order that is valid,
// within the bytes, and faster by what it is for.
TEST(Overlap, OrdersOfRandomProgramsAreValidAndFaster) {
  int changed = 0, recomputing = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    cases::RandomModuleOptions options;
    options.instructions = 80;
    options.replicas = 2;
    options.partitions = seed % 2 == 0 ? 1 : 2;
    options.control_flow = false;
    const auto module = cases::random_module(seed, options);
    const Graph graph =
        extract(*module->entry(), Role::entry, default_residency(*module), kRoofline);
    const Problem problem = arrange(graph, as_written(graph), true);
    const Schedule once = each_once(problem);
    const std::int64_t peak = evaluate(problem, once).arena_peak;
    for (const int percent : {200, 100, 70}) {
      const std::int64_t limit = peak * percent / 100;
      std::optional<Schedule> schedule = once;
      if (percent < 100) schedule = rematerialize(problem, limit, 0, 0);
      if (!schedule) continue;
      const auto found = overlap_collectives(problem, *schedule, limit);
      if (!found) continue;
      ++changed;
      if (schedule->size() > once.size()) ++recomputing;
      EXPECT_TRUE(is_valid(problem, *found)) << seed;
      EXPECT_LE(evaluate(problem, *found).arena_peak, limit) << seed;
      EXPECT_LT(overlapped_seconds(problem, *found), overlapped_seconds(problem, *schedule));
      EXPECT_EQ(meetings_of(problem, *found), meetings_of(problem, *schedule)) << seed;
      EXPECT_TRUE(
          std::is_permutation(found->begin(), found->end(), schedule->begin(), schedule->end()));
    }
  }
  EXPECT_GT(changed, 30);
  EXPECT_GT(recomputing, 3);
}

}  // namespace
}  // namespace plimsoll::planner
