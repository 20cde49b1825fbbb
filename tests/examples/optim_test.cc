// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll::optim {
namespace {

// Two steps on the loss sum(p * c), whose gradient is c, from p = {1, -2}.
std::vector<float> two_steps(Tensor parameter, Optimizer& optimizer) {
  const Tensor c = Tensor::from_host<float>({0.5f, -1.0f}, {2});
  for (int i = 0; i < 2; ++i) {
    sum(parameter * c).backward();
    optimizer.step();
  }
  return parameter.to_vector<float>();
}

Tensor start() { return Tensor::parameter(Tensor::from_host<float>({1, -2}, {2})); }

void expect_near(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 2e-6) << i;
}

// The same steps by the textbook, in double precision.
std::vector<double> by_hand(const std::function<void(double& p, double g, int t)>& step) {
  std::vector<double> p = {1, -2};
  const std::vector<double> g = {0.5, -1.0};
  for (int t = 1; t <= 2; ++t) {
    for (std::size_t i = 0; i < 2; ++i)
      step(p[i], g[i], static_cast<int>(2 * t + static_cast<int>(i)));
  }
  return p;
}

TEST(Sgd, FollowsTheGradient) {
  Tensor p = start();
  Sgd optimizer({p}, {.learning_rate = 0.1});
  expect_near(two_steps(p, optimizer), {0.9, -1.8});
}

TEST(Sgd, AddsMomentumDecayAndNesterov) {
  for (const bool nesterov : {false, true}) {
    Tensor p = start();
    Sgd optimizer(
        {p}, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = nesterov});
    double v[2] = {0, 0};
    expect_near(two_steps(p, optimizer), by_hand([&](double& x, double g, int at) {
                  g += 0.01 * x;
                  double& velocity = v[at % 2];
                  velocity = 0.9 * velocity + g;
                  x -= 0.1 * (nesterov ? g + 0.9 * velocity : velocity);
                }));
  }
}

TEST(Adam, TakesTheTextbookSteps) {
  for (const bool decoupled : {false, true}) {
    Tensor p = start();
    const AdamOptions options{.learning_rate = 0.1, .weight_decay = 0.2};
    std::unique_ptr<Optimizer> optimizer;
    if (decoupled) {
      optimizer = std::make_unique<AdamW>(std::vector{p}, options);
    } else {
      optimizer = std::make_unique<Adam>(std::vector{p}, options);
    }
    double m[2] = {0, 0}, v[2] = {0, 0};
    expect_near(two_steps(p, *optimizer), by_hand([&](double& x, double g, int at) {
                  const int i = at % 2;
                  const int t = at / 2;
                  if (!decoupled) g += 0.2 * x;
                  m[i] = 0.9 * m[i] + 0.1 * g;
                  v[i] = 0.999 * v[i] + 0.001 * g * g;
                  if (decoupled) x *= 1 - 0.1 * 0.2;
                  x -= 0.1 * (m[i] / (1 - std::pow(0.9, t))) /
                       (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-8);
                }));
  }
}

TEST(Optimizer, ClearsGradientsAndLeavesAloneWhatHasNone) {
  Tensor used = start();
  Tensor unused = start();
  Adam optimizer({used, unused}, {.learning_rate = 0.1});
  sum(used).backward();
  EXPECT_TRUE(used.grad().defined());
  optimizer.step();
  EXPECT_FALSE(used.grad().defined());
  expect_near(unused.to_vector<float>(), {1, -2});
}

TEST(Optimizer, ChangesItsRateWithoutCompilingAnew) {
  const Context context;
  const ContextScope scope(context);
  Tensor p = start();
  Adam optimizer({p});
  const auto misses = [&] {
    Context::current().wait();
    return nlohmann::json::parse(Context::current().report()).at("cache_misses").get<int>();
  };
  int after_second = 0;
  for (int step = 0; step < 6; ++step) {
    optimizer.set_learning_rate(0.1 / (step + 1));
    sum(p * p).backward();
    optimizer.step();
    if (step == 1) after_second = misses();
  }
  EXPECT_EQ(misses(), after_second);
}

TEST(ClipGradNorm, ScalesOnlyWhatIsTooLong) {
  Tensor p = start();
  sum(p * Tensor::from_host<float>({3, 4}, {2})).backward();
  EXPECT_NEAR(clip_grad_norm({p}, 1.0).item<float>(), 5, 1e-5);
  expect_near(p.grad().to_vector<float>(), {0.6, 0.8});
  clip_grad_norm({p}, 10.0);
  expect_near(p.grad().to_vector<float>(), {0.6, 0.8});
}

TEST(ClipGradNorm, KeepsTheDtypesOfMixedGradients) {
  Tensor p = start();
  Tensor narrow = Tensor::parameter(convert(Tensor::from_host<float>({1, 1}, {2}), DType::bf16));
  sum(p * Tensor::from_host<float>({3, 4}, {2})).backward();
  convert(sum(narrow * 12.0), DType::f32).backward();
  EXPECT_NEAR(clip_grad_norm({narrow, p}, 1.0).item<float>(), std::sqrt(25.0f + 288.0f), 1e-4);
  EXPECT_EQ(narrow.grad().dtype(), DType::bf16);
  EXPECT_EQ(p.grad().dtype(), DType::f32);
  expect_near(p.grad().to_vector<float>(), {3 / std::sqrt(313.0), 4 / std::sqrt(313.0)});
  Sgd({narrow, p}, {.learning_rate = 0.1}).step();
}

TEST(CosineSchedule, WarmsUpAndFalls) {
  const CosineSchedule rate{.peak_rate = 1, .total_steps = 110, .warmup_steps = 10};
  EXPECT_DOUBLE_EQ(rate(0), 0.1);
  EXPECT_DOUBLE_EQ(rate(9), 1);
  EXPECT_DOUBLE_EQ(rate(10), 1);
  EXPECT_NEAR(rate(60), 0.5, 1e-12);
  EXPECT_NEAR(rate(110), 0, 1e-12);
  EXPECT_NEAR(rate(1000), 0, 1e-12);
}

TEST(StepSchedule, FallsAtIntervals) {
  const StepSchedule rate{.first_rate = 1, .interval = 10, .factor = 0.5};
  EXPECT_EQ(rate(9), 1);
  EXPECT_EQ(rate(10), 0.5);
  EXPECT_EQ(rate(25), 0.25);
}

}  // namespace
}  // namespace plimsoll::optim
