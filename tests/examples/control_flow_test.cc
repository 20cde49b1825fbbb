// SPDX-License-Identifier: Apache-2.0
#include "plimsoll/ops/control_flow.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll {
namespace {

using Floats = std::vector<float>;
using Pair = std::array<Tensor, 2>;

Tensor numbers(const Dims& dims, std::uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = scale * (static_cast<float>(random() % 2001) / 1000.0f - 1.0f);
  }
  return Tensor::from_host(values, dims);
}

void expect_near(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.shape_text(), b.shape_text()) << what;
  const Floats x = a.to_vector<float>(), y = b.to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(x[i], y[i], 2e-5f * std::max(1.0f, std::abs(y[i]))) << what << " element " << i;
  }
}

// The error that it throws; fails where it throws none.
Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::unknown, "");
}

Tensor row(const Tensor& x, std::int64_t i) {
  const Tensor slice = slice_axis(x, 0, i, i + 1);
  return reshape(slice, Dims(x.dims().begin() + 1, x.dims().end()));
}

Tensor stack(const std::vector<Tensor>& slices) {
  std::vector<Tensor> parts;
  for (const Tensor& slice : slices) parts.push_back(expand_dim(slice, 0));
  return concatenate(parts, 0);
}

class ControlFlow : public testing::Test {
 protected:
  const Context context_{};
  const ContextScope scope_{context_};
};

TEST_F(ControlFlow, AWhileLoopGoesRoundWhileItsConditionHolds) {
  const Tensor w = numbers({3, 3}, 1);
  Tensor x = numbers({2, 3}, 2);
  const auto [count, last] =
      while_loop([](const Pair& state) { return state[0] < 7; },
                 [&](const Pair& state) { return Pair{state[0] + 1, tanh(matmul(state[1], w))}; },
                 Pair{Tensor::scalar(0, DType::s32), x});
  for (int i = 0; i < 7; ++i) x = tanh(matmul(x, w));
  expect_near(last, x, "state");
  EXPECT_EQ(count.item<std::int32_t>(), 7);
}

TEST_F(ControlFlow, AWhileLoopGoesByWhatItComputes) {
  // Newton's square root of 2, until it changes no more.
  const Tensor root =
      while_loop([](const Pair& s) { return abs(s[0] - s[1]) > 1e-6; },
                 [](const Pair& s) { return Pair{s[1], (s[1] + 2.0 / s[1]) * 0.5}; },
                 Pair{Tensor::scalar(0), Tensor::scalar(1)})[1];
  EXPECT_NEAR(root.item<float>(), std::sqrt(2.0f), 1e-6f);
  // None where it does not hold at first.
  const Tensor start = Tensor::scalar(3);
  EXPECT_EQ(while_loop([](const Tensor& x) { return x < 0; }, [](const Tensor& x) { return x - 1; },
                       start)
                .item<float>(),
            3);
}

TEST_F(ControlFlow, CondRunsOneOfItsBranches) {
  const Tensor x = Tensor::from_host<float>({1, 2, 3}, {3});
  for (const float sign : {1.0f, -1.0f}) {
    const Tensor predicate = Tensor::scalar_input(sign) > 0;
    const auto [a, b] = cond(
        predicate, [&] { return std::pair(x * 2, sum(x)); },
        [&] { return std::pair(-x, Tensor::scalar(7)); });
    EXPECT_EQ(a.to_vector<float>(), (sign > 0 ? Floats{2, 4, 6} : Floats{-1, -2, -3}));
    EXPECT_EQ(b.item<float>(), sign > 0 ? 6 : 7);
  }
}

TEST_F(ControlFlow, AScanGoesThroughSlicesAndStacksResults) {
  const Tensor xs = numbers({5, 2}, 3);
  for (const bool reverse : {false, true}) {
    const auto [last, results] = scan(
        [](const Tensor& h, const Tensor& x) {
          const Tensor next = h * 0.5 + x;
          return std::pair(next, std::pair(next, h));
        },
        ones({2}), xs, {.reverse = reverse});
    Tensor h = ones({2});
    std::vector<Tensor> after(5), before(5);
    for (int n = 0; n < 5; ++n) {
      const int i = reverse ? 4 - n : n;
      before[static_cast<std::size_t>(i)] = h;
      h = h * 0.5 + row(xs, i);
      after[static_cast<std::size_t>(i)] = h;
    }
    expect_near(last, h, "last");
    expect_near(results.first, stack(after), "after");
    expect_near(results.second, stack(before), "before");
  }
}

TEST_F(ControlFlow, AScanNeedsNoArraysNoStateAndNoResults) {
  using None = std::tuple<>;
  const auto [power, none] = scan([](const Tensor& x, None) { return std::pair(x * 2, None()); },
                                  Tensor::scalar(1), None(), {.length = 10});
  EXPECT_EQ(power.item<float>(), 1024);
  const auto [nothing, squares] =
      scan([](None, const std::vector<Tensor>& x) { return std::pair(None(), x[0] * x[1]); },
           None(), std::vector<Tensor>{iota({4}, 0, DType::f32), iota({4}, 0, DType::f32)});
  EXPECT_EQ(squares.to_vector<float>(), (Floats{0, 1, 4, 9}));
  // No slices: the state as it is.
  const auto [same, empty] = scan(
      [](const Tensor& h, const Tensor& x) { return std::pair(h + x, concatenate({h, x}, 0)); },
      ones({2}), zeros({0, 2}));
  EXPECT_EQ(same.to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(empty.shape_text(), "f32[0,4]");
  EXPECT_EQ(empty.to_vector<float>().size(), 0u);
}

// A loss of everything that a recurrent network has, its state kept in a loop or written out.
struct Recurrent {
  Tensor w = numbers({4, 4}, 11, 0.5f), u = numbers({3, 4}, 12), b = numbers({4}, 13),
         h0 = numbers({2, 4}, 14), xs = numbers({6, 2, 3}, 15);

  std::pair<Tensor, Tensor> round(const Tensor& h, const Tensor& x) const {
    const Tensor next = tanh(matmul(h, w) + matmul(x, u) + b);
    return {next, next * sigmoid(h)};
  }
  Tensor loss(const Tensor& last, const Tensor& results) const {
    return sum(square(last)) + sum(results * results) + sum(h0);
  }
  Tensor by_scan() const {
    const auto [last, results] =
        scan([&](const Tensor& h, const Tensor& x) { return round(h, x); }, h0, xs);
    return loss(last, results);
  }
  Tensor written_out() const {
    Tensor h = h0;
    std::vector<Tensor> results;
    for (int i = 0; i < 6; ++i) {
      auto [next, result] = round(h, row(xs, i));
      h = next;
      results.push_back(result);
    }
    return loss(h, stack(results));
  }
  std::vector<Tensor> all() const { return {w, u, b, h0, xs}; }
};

TEST_F(ControlFlow, GradientsOfAScanAreThoseOfItsRounds) {
  const Recurrent net;
  const Tensor loop = net.by_scan(), rounds = net.written_out();
  const auto actual = gradients(loop, net.all()), expected = gradients(rounds, net.all());
  expect_near(loop, rounds, "loss");
  for (std::size_t i = 0; i < actual.size(); ++i) {
    expect_near(actual[i], expected[i], "gradient " + std::to_string(i));
  }
}

TEST_F(ControlFlow, GradientsOfGradientsOfAScanAreThoseOfItsRounds) {
  const Recurrent net;
  const auto second = [&](const Tensor& loss) {
    Tensor total = Tensor::scalar(0);
    for (const Tensor& gradient : gradients(loss, net.all()))
      total = total + sum(gradient * gradient);
    return gradients(total, net.all());
  };
  const auto actual = second(net.by_scan()), expected = second(net.written_out());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    expect_near(actual[i], expected[i], "gradient " + std::to_string(i));
  }
}

TEST_F(ControlFlow, AWhileLoopOfAKnownNumberOfRoundsHasAGradient) {
  const Tensor w = numbers({3, 3}, 21), x0 = numbers({2, 3}, 22);
  const auto last_of = [&](const Tensor& first, const Tensor& step) {
    return while_loop([](const Pair& s) { return s[0] < 9; },
                      [&](const Pair& s) { return Pair{s[0] + step, sin(matmul(s[1], w))}; },
                      Pair{first, x0})[1];
  };
  const Tensor counted = last_of(Tensor::scalar(1, DType::s32), Tensor::scalar(2, DType::s32));
  Tensor x = x0;
  for (int i = 0; i < 4; ++i) x = sin(matmul(x, w));
  const auto actual = gradients(sum(counted * counted), {w, x0});
  const auto expected = gradients(sum(x * x), {w, x0});
  expect_near(actual[0], expected[0], "w");
  expect_near(actual[1], expected[1], "x0");

  const Tensor unknown =
      last_of(Tensor::scalar_input(1, DType::s32), Tensor::scalar(2, DType::s32));
  const Error error = error_of([&] { gradients(sum(unknown), {w}); });
  EXPECT_EQ(error.code(), ErrorCode::unimplemented);
  EXPECT_NE(error.message().find("while: has no gradient, as constants do not tell how often"),
            std::string::npos)
      << error.message();
  // It runs all the same.
  expect_near(unknown, x, "last");
}

TEST_F(ControlFlow, GradientsOfABranchAreThoseOfWhatRan) {
  const Tensor x = numbers({3}, 31), y = numbers({3}, 32), z = numbers({3}, 33);
  for (const float sign : {1.0f, -1.0f}) {
    const Tensor result =
        cond(Tensor::scalar_input(sign) > 0, [&] { return sin(x) * y; }, [&] { return y * y * z; });
    const Tensor taken = sign > 0 ? sin(x) * y : y * y * z;
    const auto actual = gradients(sum(result * result), {x, y, z});
    const auto expected = gradients(sum(taken * taken), {x, y, z});
    for (std::size_t i = 0; i < 3; ++i) expect_near(actual[i], expected[i], std::to_string(i));
  }
}

TEST_F(ControlFlow, LoopsAndBranchesLieInEachOther) {
  const Tensor xs = numbers({4, 3, 2}, 41), w = numbers({2, 2}, 42), h0 = numbers({2}, 43);
  const auto inner_round = [&](const Tensor& h, const Tensor& x) { return tanh(matmul(w, h) + x); };
  const auto [last, results] = scan(
      [&](const Tensor& h, const Tensor& outer) {
        const auto [inner, sums] = scan(
            [&](const Tensor& h, const Tensor& x) {
              const Tensor next = inner_round(h, x);
              return std::pair(next, sum(next));
            },
            h, outer);
        const Tensor chosen =
            cond(sum(sums) > 0, [&] { return inner * 2; }, [&] { return inner - h; });
        const Tensor looped =
            while_loop([](const Pair& s) { return s[0] < 2; },
                       [&](const Pair& s) { return Pair{s[0] + 1, s[1] * 0.5 + h}; },
                       Pair{Tensor::scalar(0, DType::s32), chosen})[1];
        return std::pair(looped, sum(looped));
      },
      h0, xs);
  Tensor h = h0;
  std::vector<Tensor> all;
  for (int i = 0; i < 4; ++i) {
    Tensor inner = h, sums = Tensor::scalar(0);
    for (int j = 0; j < 3; ++j) {
      inner = inner_round(inner, row(row(xs, i), j));
      sums = sums + sum(inner);
    }
    Tensor looped = where(sums > 0, inner * 2, inner - h);
    for (int j = 0; j < 2; ++j) looped = looped * 0.5 + h;
    h = looped;
    all.push_back(sum(h));
  }
  const Tensor expected_results = stack(all);
  const auto actual = gradients(sum(last * last) + sum(exp(results)), {xs, w, h0});
  const auto expected = gradients(sum(h * h) + sum(exp(expected_results)), {xs, w, h0});
  expect_near(last, h, "last");
  expect_near(results, expected_results, "results");
  for (std::size_t i = 0; i < 3; ++i) expect_near(actual[i], expected[i], std::to_string(i));
}

TEST_F(ControlFlow, AFunctionMayTakeGradients) {
  // Descent until it is flat.
  const Tensor flat =
      while_loop([](const Tensor& x) { return abs(x - 3) > 1e-4; },
                 [](const Tensor& x) { return x - gradients(square(x - 3) + 1, {x})[0] * 0.1; },
                 Tensor::scalar(0));
  EXPECT_NEAR(flat.item<float>(), 3, 1e-4f);
  // Through three steps of it, with respect to their rate.
  const auto step = [](const Tensor& x, const Tensor& rate) {
    return x - gradients(square(x - 3) * x, {x})[0] * rate;
  };
  const Tensor rate = Tensor::scalar_input(0.1);
  using None = std::tuple<>;
  const Tensor last = scan([&](const Tensor& x, None) { return std::pair(step(x, rate), None()); },
                           Tensor::scalar(0), None(), {.length = 3})
                          .first;
  Tensor written_out = Tensor::scalar(0);
  for (int i = 0; i < 3; ++i) written_out = step(written_out, rate);
  expect_near(last, written_out, "last");
  expect_near(gradients(last, {rate})[0], gradients(written_out, {rate})[0], "gradient");
}

// Steps of a training loop over a recurrent network, in a context of its own.
struct Training {
  Floats weights;
  std::int64_t peak_bytes = 0;
};
Training train(const ContextOptions& options, int steps) {
  const Context context(options);
  const ContextScope scope(context);
  constexpr std::int64_t kRounds = 24, kBatch = 16, kWidth = 32;
  Tensor w = Tensor::parameter(numbers({kWidth, kWidth}, 51, 0.2f));
  const Tensor xs = numbers({kRounds, kBatch, kWidth}, 52);
  eval({w, xs});
  Training result;
  for (int step = 0; step < steps; ++step) {
    const Tensor noise = Tensor::scalar(0.01 * step);
    const auto [last, none] = scan(
        [&](const Tensor& h, const Tensor& x) {
          const Tensor next = tanh(matmul(h, w) + x * sigmoid(h) + noise);
          return std::pair(next, std::tuple<>());
        },
        zeros({kBatch, kWidth}), xs);
    const Tensor loss = sum(square(last));
    loss.backward();
    w.assign(w - w.grad() * Tensor::scalar_input(0.01 / (1 + step)));
    w.clear_grad();
    Context(context).step();
  }
  result.weights = w.to_vector<float>();
  result.peak_bytes = context.memory().peak_bytes;
  return result;
}

TEST(ControlFlowLimits, ATrainingLoopHasTheSameBitsDownToItsFloor) {
  const Training free = train({}, 3);
  // Raised to what each refusal asks for.
  std::int64_t floor = 1000;
  for (bool runs = false; !runs;) {
    try {
      const Training least = train({.memory_limit_bytes = floor}, 3);
      EXPECT_EQ(least.weights, free.weights) << "at " << floor;
      EXPECT_LE(least.peak_bytes, floor);
      runs = true;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::resource_exhausted) << error.what();
      ASSERT_GT(error.floor_bytes(), floor) << error.what();
      floor = error.floor_bytes();
    }
  }
  // Less than half would do: the loops are planned as such.
  EXPECT_LT(floor, free.peak_bytes / 2);
  RecordProperty("floor_bytes", std::to_string(floor));
  RecordProperty("peak_bytes", std::to_string(free.peak_bytes));
  for (const std::int64_t limit : {free.peak_bytes, (free.peak_bytes + floor) / 2}) {
    const Training some = train({.memory_limit_bytes = limit}, 3);
    EXPECT_EQ(some.weights, free.weights) << "at " << limit;
    EXPECT_LE(some.peak_bytes, limit);
  }
}

TEST(ControlFlowCache, ALoopThatIsRecordedAgainIsCompiledOnce) {
  std::vector<std::string> lines;
  const Context context({.log = [&](const std::string& line) { lines.push_back(line); }});
  const ContextScope scope(context);
  const Tensor x = ones({4});
  x.eval();
  const auto run = [&](double outside, double inside, std::int64_t rounds) {
    const Tensor factor = Tensor::scalar(outside);
    const Tensor last =
        while_loop([&](const Pair& s) { return s[0] < static_cast<double>(rounds); },
                   [&](const Pair& s) { return Pair{s[0] + 1, s[1] * factor + inside}; },
                   Pair{Tensor::scalar(0, DType::s32), x})[1];
    lines.clear();
    EXPECT_FLOAT_EQ(last.to_vector<float>()[0],
                    static_cast<float>((outside + inside) * outside + inside));
    EXPECT_EQ(lines.size(), 1u);
    return lines.at(0).find(", cached") != std::string::npos;
  };
  EXPECT_FALSE(run(2, 1, 2));
  EXPECT_TRUE(run(2, 1, 2));
  EXPECT_FALSE(run(3, 1, 2));  // becomes an input
  EXPECT_TRUE(run(4, 1, 2));
  EXPECT_FALSE(run(4, 5, 2));  // part of the loop
  EXPECT_TRUE(run(2, 1, 2));
}

TEST_F(ControlFlow, WhatIsEvaluatedInAFunctionIsRefused) {
  const Tensor x = ones({2}), w = Tensor::parameter(ones({2}));
  const auto refused = [&](const std::function<void(const Tensor&)>& act) {
    return error_of([&] {
      while_loop([](const Tensor& h) { return sum(h) < 100; },
                 [&](const Tensor& h) {
                   act(h);
                   return h * 2;
                 },
                 x);
    });
  };
  const std::string inside = "inside a callback that records a loop or branch";
  const std::function<void(const Tensor&)> acts[] = {
      [](const Tensor& h) { (void)h.to_vector<float>(); },
      [&](const Tensor&) { (void)x.to_vector<float>(); },
      [](const Tensor& h) { (h + 1).eval(); },
      [&](const Tensor&) { Context::current().step(); },
      [&](const Tensor&) { Context::current().measure_step(); },
      [](const Tensor& h) { Tensor(zeros({2})).assign(h); },
      [&](const Tensor& h) { Tensor(w).assign(h); },
  };
  for (const auto& act : acts) {
    const Error error = refused(act);
    EXPECT_EQ(error.code(), ErrorCode::failed_precondition) << error.message();
    EXPECT_NE(error.message().find(inside), std::string::npos) << error.message();
    EXPECT_EQ(error.message().find("while: the body failed: "), 0u) << error.message();
  }
  // The context goes on.
  EXPECT_EQ((x + w).to_vector<float>(), (Floats{2, 2}));
}

TEST_F(ControlFlow, ValuesOfAFunctionThatHasReturnedAreOfNoUse) {
  const Tensor x = ones({2});
  Tensor kept, made;
  const Tensor last = while_loop([](const Tensor& h) { return sum(h) < 100; },
                                 [&](const Tensor& h) {
                                   kept = h;
                                   made = exp(h) + x;
                                   return h * 2;
                                 },
                                 x);
  const auto expect_ended = [](const std::function<void()>& act) {
    const Error error = error_of(act);
    EXPECT_NE(error.message().find("was recorded in the callback of a loop or branch, which has "
                                   "ended"),
              std::string::npos)
        << error.message();
  };
  for (const Tensor& ended : {kept, made}) {
    expect_ended([&] { (void)(ended + x); });
    expect_ended([&] { (void)ended.to_vector<float>(); });
    expect_ended([&] { ended.eval(); });
    expect_ended([&] { gradients(sum(x), {ended}); });
    expect_ended([&] { Tensor(zeros({2})).assign(ended); });
    expect_ended([&] { (void)cond(sum(x) > 0, [&] { return ended + 1; }, [&] { return x; }); });
    EXPECT_EQ(error_of([&] {
                (void)cond(sum(x) > 0, [&] { return x; }, [&] { return ended; });
              }).message(),
              "conditional: the else branch returned a value of another callback, which has ended, "
              "as output 0");
    EXPECT_EQ(ended.shape_text(), "f32[2]");
  }
  EXPECT_EQ(last.to_vector<float>(), (Floats{64, 64}));
}

TEST_F(ControlFlow, ErrorsNameThePlace) {
  const Tensor x = ones({2}), y = ones({3});
  const auto message = [&](const std::function<void()>& act) { return error_of(act).message(); };
  const auto any = [](const Tensor& h) { return sum(h) < 1; };
  EXPECT_EQ(
      message([&] { while_loop(any, [&](const Tensor& h) { return concatenate({h, h}, 0); }, x); }),
      "while: the body makes f32[4] of state 0, which was f32[2] (dtype and dims of a loop's "
      "state stay)");
  EXPECT_EQ(message([&] {
              while_loop([](const Pair& s) { return s[0] < 3; },
                         [&](const Pair& s) { return Pair{s[0] + 1, convert(s[1], DType::f64)}; },
                         Pair{Tensor::scalar(0, DType::s32), x});
            }),
            "while: the body makes f64[2] of state 1, which was f32[2] (dtype and dims of a loop's "
            "state stay)");
  EXPECT_EQ(message([&] {
              while_loop([](const Tensor& h) { return h < 1; }, [](const Tensor& h) { return h; },
                         x);
            }),
            "while: the condition is pred[2], must be pred[]");
  EXPECT_EQ(message([&] { while_loop(any, [&](const Tensor& h) { return h + y; }, x); }),
            "while: the body failed: [add] f32[3] does not broadcast to [2]");
  EXPECT_EQ(message([&] { (void)cond(x > 0, [&] { return x; }, [&] { return x; }); }),
            "conditional: the predicate is pred[2], must be pred[]");
  EXPECT_EQ(
      message([&] { (void)cond(sum(x) > 0, [&] { return x; }, [&] { return y; }); }),
      "conditional: result 0 is f32[2] of the then branch and f32[3] of the else branch, must "
      "be alike");
  const auto round = [](const Tensor& h, const auto&) { return std::pair(h, h); };
  EXPECT_EQ(message([&] { (void)scan(round, x, Tensor::scalar(1)); }),
            "scan: array 0 is f32[], must have a first dim to go along");
  EXPECT_EQ(message([&] { (void)scan(round, x, std::pair(x, y)); }),
            "scan: array 1 is f32[3], must have 2 slices");
  EXPECT_EQ(message([&] { (void)scan(round, x, std::tuple<>()); }),
            "scan: without arrays to go through, the options must say the length");
  EXPECT_EQ(message([&] { (void)scan(round, x, std::tuple<>(), {.length = -1}); }),
            "scan: length -1 is negative");
  EXPECT_EQ(
      message([&] { (void)scan(round, x, std::tuple<>(), {.length = std::int64_t{1} << 40}); }),
      "scan: 1099511627776 rounds are more than 2^31 - 1");
  // Nothing of all that is left.
  const char* text = nullptr;
  plm_tensor* handle = x.handle();
  ASSERT_EQ(plm_trace_text(Context::current().handle(), &handle, 1, &text), nullptr);
  EXPECT_EQ(std::string(text).find("while"), std::string::npos);
}

TEST_F(ControlFlow, TensorsOfAnotherContextAreRefused) {
  const Tensor x = ones({2});
  Tensor foreign;
  {
    const Context other;
    const ContextScope inner(other);
    foreign = ones({2});
  }
  const auto message = [&](const std::function<void()>& act) { return error_of(act).message(); };
  EXPECT_EQ(message([&] {
              while_loop([](const Tensor& h) { return sum(h) < 1; },
                         [&](const Tensor&) { return foreign; }, x);
            }),
            "while: the body returned a tensor of another context as output 0");
  EXPECT_NE(message([&] {
              while_loop([](const Tensor& h) { return sum(h) < 1; },
                         [&](const Tensor& h) { return h + foreign; }, x);
            }).find("add: operand 1 is of another context"),
            std::string::npos);
  EXPECT_NE(message([&] {
              while_loop([](const Pair& s) { return sum(s[0]) < 1; },
                         [&](const Pair& s) { return s; }, Pair{x, foreign});
            }).find("while: init: tensor 1 belongs to another context"),
            std::string::npos);
  EXPECT_EQ(message([&] {
              while_loop([](const Tensor& h) { return sum(h) < 1; },
                         [&](const Tensor&) { return Tensor(); }, x);
            }),
            "while: the body left output 0 NULL");
}

TEST_F(ControlFlow, WhatAFunctionThrowsComesOut) {
  const Tensor x = ones({2});
  EXPECT_THROW(while_loop([](const Tensor& h) { return sum(h) < 1; },
                          [](const Tensor& h) -> Tensor {
                            if (h.rank() == 1) throw std::runtime_error("mine");
                            return h;
                          },
                          x),
               std::runtime_error);
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 1}));
}

TEST_F(ControlFlow, TooManyInsideEachOtherAreRefused) {
  std::function<Tensor(const Tensor&, int)> nest = [&](const Tensor& x, int left) -> Tensor {
    if (left == 0) return x + 1;
    return cond(sum(x) > 0, [&] { return nest(x, left - 1); }, [&] { return x; });
  };
  const Tensor x = ones({2});
  EXPECT_EQ(nest(x, 32).to_vector<float>(), (Floats{2, 2}));
  EXPECT_NE(error_of([&] { nest(x, 33); })
                .message()
                .find("conditional: more than 32 loops and branches inside each other"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll
