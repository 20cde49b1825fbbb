// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/graphs/transformer_graph.h"

#include <gtest/gtest.h>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/planner.h"
#include "tests/cases/compare.h"

namespace plimsoll::planner {
namespace {

using graphs::Layers;
using ir::Literal;

graphs::TransformerOptions tiny(Layers form) {
  graphs::TransformerOptions options;
  options.layers = 3;
  options.batch = 2;
  options.length = 3;
  options.width = 4;
  options.heads = 2;
  options.hidden = 6;
  options.adam = false;
  options.form = form;
  return options;
}

std::vector<float> floats(const Literal& literal) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < literal.shape().element_count(); ++i) {
    all.push_back(static_cast<float>(literal.at(i)));
  }
  return all;
}

// The looped form's parameters from the inlined one's: weight k of every layer in one stack.
std::vector<Literal> stacked(const std::vector<Literal>& flat, int layers) {
  const std::size_t kinds = (flat.size() - 2) / static_cast<std::size_t>(layers);
  std::vector<Literal> result;
  for (std::size_t k = 0; k < kinds; ++k) {
    std::vector<float> all;
    std::vector<std::int64_t> dims{layers};
    for (const std::int64_t d : flat[k].shape().dims().to_vector()) dims.push_back(d);
    for (int i = 0; i < layers; ++i) {
      const std::vector<float> part = floats(flat[static_cast<std::size_t>(i) * kinds + k]);
      all.insert(all.end(), part.begin(), part.end());
    }
    result.push_back(Literal::array<float>(ir::Dims(dims), all));
  }
  result.insert(result.end(), flat.end() - 2, flat.end());
  return result;
}

TEST(TransformerGraph, IsTheSameNetworkInEveryForm) {
  const auto inlined = graphs::transformer_step(tiny(Layers::inlined));
  const auto called = graphs::transformer_step(tiny(Layers::called));
  const auto looped = graphs::transformer_step(tiny(Layers::looped));
  for (const auto* module : {&inlined, &called, &looped}) {
    const Status status = ir::verify(**module);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  const std::vector<Literal> arguments = cases::random_arguments(*inlined, 7);
  const Result<Literal> expected = ir::interpret(*inlined, arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  const Result<Literal> by_calls = ir::interpret(*called, arguments);
  ASSERT_TRUE(by_calls.ok()) << by_calls.status().to_string();
  EXPECT_EQ(cases::compare_close(*expected, *by_calls, 1e-5), "");
  const Result<Literal> by_loops = ir::interpret(*looped, stacked(arguments, 3));
  ASSERT_TRUE(by_loops.ok()) << by_loops.status().to_string();
  std::vector<Literal> parts = expected->elements();
  parts.insert(parts.end() - 1, parts.back());  // stacked() takes two unstacked ones last
  std::vector<Literal> wanted = stacked(parts, 3);
  wanted.pop_back();
  EXPECT_EQ(cases::compare_close(Literal::tuple(wanted), *by_loops, 1e-5), "");
}

TEST(TransformerGraph, UpdatesWeightsAgainstTheSlopeOfTheLoss) {
  const auto module = graphs::transformer_step(tiny(Layers::inlined));
  const std::vector<Literal> arguments = cases::random_arguments(*module, 11);
  const Result<Literal> result = ir::interpret(*module, arguments);
  ASSERT_TRUE(result.ok());
  const auto loss_with = [&](std::size_t weight, std::size_t element, float change) {
    std::vector<Literal> changed = arguments;
    std::vector<float> all = floats(changed[weight]);
    all[element] += change;
    changed[weight] = Literal::array<float>(changed[weight].shape().dims(), all);
    return ir::interpret(*module, changed)->elements().back().at(0);
  };
  constexpr float kChange = 1e-2f;
  for (std::size_t weight = 0; weight < 12; ++weight) {
    const double slope =
        (loss_with(weight, 1, kChange) - loss_with(weight, 1, -kChange)) / (2 * kChange);
    const double step = arguments[weight].at(1) - result->elements()[weight].at(1);
    EXPECT_NEAR(step / 0.01, slope, 0.02 + 0.05 * std::abs(slope)) << "weight " << weight;
  }
}

TEST(TransformerGraph, HasTheSizeAskedFor) {
  for (const int size : {1000, 3000}) {
    const auto module = graphs::transformer_step_of_size(size);
    EXPECT_NEAR(module->entry()->instruction_count(), size, size * 0.3);
  }
}

TEST(TransformerGraph, EveryFormHasAPlanThatHolds) {
  for (const Layers form : {Layers::inlined, Layers::called, Layers::looped}) {
    graphs::TransformerOptions options = tiny(form);
    options.length = 32;
    const auto module = graphs::transformer_step(options);
    const RooflineCostModel cost_model;
    const Result<Plan> plan = make_plan(*module, cost_model, {});
    ASSERT_TRUE(plan.ok());
    const Status status = check_plan(*module, *plan);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

}  // namespace
}  // namespace plimsoll::planner
