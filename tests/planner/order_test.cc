// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/order/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "benchmarks/graphs/transformer_graph.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/order/list_schedulers.h"
#include "runtime/planner/order/order_graph.h"
#include "runtime/planner/order/peak_search.h"
#include "runtime/planner/problem/arrange.h"
#include "runtime/planner/problem/extract.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/residency.h"
#include "tests/cases/random_module.h"
#include "tests/planner/graphs.h"

namespace plimsoll::planner {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

const RooflineCostModel kOrderCosts;

Graph graph_of(const ir::Module& module) {
  Graph graph = extract(*module.entry(), Role::entry, default_residency(module), kOrderCosts);
  for (const ir::InputOutputAlias& alias : module.input_output_alias) {
    graph.alias[at(alias.output_index[0])] = static_cast<int>(alias.parameter_number);
  }
  return graph;
}

std::vector<OpId> textual(const Graph& graph) {
  std::vector<OpId> order(graph.ops.size());
  std::iota(order.begin(), order.end(), OpId(0));
  return order;
}

bool is_valid_order(const OrderGraph& graph, const std::vector<OpId>& order) {
  IdVector<OpId, char> done(graph.workspace.size(), 0);
  for (const OpId op : order) {
    if (done[op]) return false;
    for (const OpId before : graph.before[op]) {
      if (!done[before]) return false;
    }
    done[op] = 1;
  }
  return order.size() == done.size();
}

std::unique_ptr<ir::Module> straight_random(std::uint64_t seed, int instructions) {
  cases::RandomModuleOptions options;
  options.instructions = instructions;
  options.control_flow = false;
  return cases::random_module(seed, options);
}

// The lowest peak of all orders, by dynamic programming over the sets of ops that have run.
std::int64_t lowest_peak(const OrderGraph& graph) {
  const int n = graph.size();
  std::vector<std::int64_t> best(std::size_t{1} << n, kUnlimited);
  best[0] = 0;
  for (std::uint32_t set = 0; set + 1 < best.size(); ++set) {
    if (best[set] == kUnlimited) continue;
    const auto ran = [&](OpId op) { return (set >> op.value() & 1) != 0; };
    std::int64_t live = 0;
    IdVector<ValueId, int> left(graph.cost.size(), 0);
    for (const ValueId v : graph.cost.ids()) {
      if (graph.cost[v] == 0) continue;
      for (const OpId r : graph.readers[v]) left[v] += !ran(r);
      const OpId producer = graph.graph.values[v].producer;
      if (ran(producer) && left[v] > 0) {
        live += graph.cost[v];
      }
    }
    for (const OpId op : graph.workspace.ids()) {
      if (ran(op)) continue;
      const auto before = graph.before[op];
      if (!std::all_of(before.begin(), before.end(), ran)) continue;
      std::int64_t here = live + graph.workspace[op];
      for (const ValueId v : graph.makes[op]) here += graph.cost[v];
      const auto reads = graph.reads[op];
      here -= reused_bytes(graph, op, [&](ValueId v) {
        return left[v] == 1 && std::find(reads.begin(), reads.end(), v) != reads.end();
      });
      auto& there = best[set | 1u << op.value()];
      there = std::min(there, std::max(best[set], here));
    }
  }
  return best.back();
}

TEST(Order, EveryCandidateIsValidAndTheLowestComesFirst) {
  for (int seed = 0; seed < 30; ++seed) {
    const auto module = seed % 2 == 0 ? random_graph(static_cast<std::uint32_t>(seed), 60)
                                      : straight_random(static_cast<std::uint64_t>(seed), 80);
    const Graph graph = graph_of(*module);
    const OrderGraph order_graph(graph);
    const auto orders = candidate_orders(graph, false);
    ASSERT_GE(orders.size(), 2u);
    std::int64_t last = 0;
    for (const auto& order : orders) {
      EXPECT_TRUE(is_valid_order(order_graph, order)) << "seed " << seed;
      const std::int64_t peak = peak_of(order_graph, order);
      EXPECT_GE(peak, last) << "seed " << seed;
      last = peak;
    }
  }
}

TEST(Order, AScheduledModuleKeepsItsOrder) {
  const auto module = random_graph(3, 40);
  const Graph graph = graph_of(*module);
  const auto orders = candidate_orders(graph, true);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0], textual(graph));
}

TEST(Order, PredictsThePeakOfTheArrangedProblem) {
  for (int seed = 0; seed < 20; ++seed) {
    const auto module = straight_random(static_cast<std::uint64_t>(seed), 80);
    const Graph graph = graph_of(*module);
    const Problem problem = arrange(graph, textual(graph), false);
    if (problem.op_count() != static_cast<int>(graph.ops.size())) continue;  // copies were added
    std::vector<std::int64_t> expected;
    evaluate(problem, textual(graph), &expected);
    EXPECT_EQ(profile_of(OrderGraph(graph), textual(graph)), expected) << "seed " << seed;
  }
}

TEST(Order, TheSearchNeverRaisesThePeakAndKeepsOrdersValid) {
  int lowered = 0;
  for (int seed = 0; seed < 40; ++seed) {
    const auto module = seed % 2 == 0 ? random_graph(static_cast<std::uint32_t>(seed), 120)
                                      : straight_random(static_cast<std::uint64_t>(seed), 120);
    const Graph graph = graph_of(*module);
    const OrderGraph order_graph(graph);
    for (const auto& start : {textual(graph), level_order(order_graph)}) {
      const std::int64_t before = peak_of(order_graph, start);
      const std::vector<OpId> found = lower_peak(order_graph, start, 200'000);
      EXPECT_TRUE(is_valid_order(order_graph, found)) << "seed " << seed;
      EXPECT_LE(peak_of(order_graph, found), before) << "seed " << seed;
      lowered += peak_of(order_graph, found) < before;
    }
  }
  EXPECT_GT(lowered, 40);
}

TEST(Order, IsCloseToTheOptimumOfSmallGraphs) {
  int optimal = 0, graphs = 0;
  for (std::uint32_t seed = 0; graphs < 60; ++seed) {
    const auto module = random_graph(seed, 9);
    const Graph graph = graph_of(*module);
    const OrderGraph order_graph(graph);
    if (order_graph.size() > 15) continue;
    ++graphs;
    const std::int64_t lowest = lowest_peak(order_graph);
    const std::int64_t found = peak_of(order_graph, candidate_orders(graph, false)[0]);
    EXPECT_GE(found, lowest);
    EXPECT_LE(static_cast<double>(found), 1.25 * static_cast<double>(lowest)) << "seed " << seed;
    optimal += found == lowest;
  }
  EXPECT_GE(optimal, 54);
}

// Every gradient is made first and every update last, as a program writes them; each gradient can
// die at once.
TEST(Order, UpdatesRunAsSoonAsTheirGradientsAreThere) {
  ir::Module module("updates");
  Computation& c = *module.add_computation("entry");
  module.set_entry(&c);
  constexpr int kCount = 12;
  const Shape shape(ir::DType::f32, {1024});
  Instruction* x = c.add_parameter(0, shape, "x");
  std::vector<Instruction*> weights, gradients, results;
  for (int i = 0; i < kCount; ++i) weights.push_back(c.add_parameter(i + 1, shape));
  for (int i = 0; i < kCount; ++i) {
    x = make(c, Opcode::sine, {x});
    gradients.push_back(make(c, Opcode::multiply, {x, x}));
  }
  for (int i = 0; i < kCount; ++i) {
    const auto k = at(i);
    results.push_back(make(c, Opcode::subtract, {weights[k], gradients[k]}));
    module.input_output_alias.push_back({{i}, i + 1, {}, false});
  }
  c.add_tuple(results);
  const Graph graph = graph_of(module);
  const OrderGraph order_graph(graph);
  EXPECT_EQ(peak_of(order_graph, textual(graph)), kCount * 4096);
  EXPECT_EQ(peak_of(order_graph, candidate_orders(graph, false)[0]), 2 * 4096);
}

// n products that are added up one by one, where the result goes: one product beside it, whatever n
// is.
TEST(Order, ASumOfProductsAccumulatesInOneBuffer) {
  for (const int count : {4, 16}) {
    ir::Module module("sum");
    Computation& c = *module.add_computation("entry");
    module.set_entry(&c);
    const Shape shape(ir::DType::f32, {64, 64});
    Instruction* x = c.add_parameter(0, shape, "x");
    std::vector<Instruction*> terms;
    for (int i = 0; i < count; ++i) {
      terms.push_back(matmul(c, x, c.add_parameter(i + 1, shape), 1, 0));
    }
    Instruction* sum = terms[0];
    for (int i = 1; i < count; ++i) {
      sum = make(c, Opcode::add, {sum, terms[at(i)]});
    }
    make(c, Opcode::negate, {sum});
    const Result<Plan> plan = make_plan(module, kOrderCosts, {});
    ASSERT_TRUE(plan.ok());
    EXPECT_TRUE(check_plan(module, *plan).ok());
    EXPECT_EQ(plan->arena_bytes, 64 * 64 * 4);
    // Every addition writes where the sum so far is.
    BufferId total;
    for (const Step& step : plan->steps) {
      if (step.instruction->opcode() != Opcode::add) continue;
      if (total >= 0) {
        EXPECT_EQ(step.outputs[0], total);
      }
      total = step.outputs[0];
    }
  }
}

// Reading the old content after the update would cost a copy of the parameter.
TEST(Order, UpdatesOfDonatedParametersStayBehindTheirReaders) {
  const auto module = training_step(6, 64, 32);
  const Graph graph = graph_of(*module);
  for (const auto& order : candidate_orders(graph, false)) {
    const Problem problem = arrange(graph, order, true);
    for (const Op& op : problem.ops) EXPECT_NE(op.kind, StepKind::copy);
  }
}

TEST(Order, GivesTheSameOrdersEveryTime) {
  const auto module = graphs::transformer_step_of_size(2000);
  const Graph graph = graph_of(*module);
  EXPECT_EQ(candidate_orders(graph, false), candidate_orders(graph, false));
}

}  // namespace
}  // namespace plimsoll::planner
