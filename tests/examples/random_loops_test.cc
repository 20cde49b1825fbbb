// SPDX-License-Identifier: Apache-2.0
// Random programs with loops and branches against the same ones written out, gradients included,
// and against themselves at their floor. RANDOM_LOOPS=FIRST,COUNT runs others.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll {
namespace {

using Tensors = std::vector<Tensor>;

constexpr std::int64_t kRows = 3, kColumns = 4;

Tensor host(std::mt19937& random, const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = static_cast<double>(random() % 4001) / 2000.0 - 1.0;
  return Tensor::from_host(values, dims);
}

Tensor stacked(const Tensors& parts) {
  Tensors expanded;
  for (const Tensor& part : parts) expanded.push_back(expand_dim(part, 0));
  return concatenate(expanded, 0);
}

Tensor row(const Tensor& x, std::int64_t i) {
  return reshape(slice_axis(x, 0, i, i + 1), {kRows, kColumns});
}

// One program for each seed: with loops, or with what these do written out.
class Program {
 public:
  Program(std::uint32_t seed, bool loops) : loops_(loops) {
    std::mt19937 random(seed);
    for (int i = 0; i < 3; ++i) inputs_.push_back(host(random, {kRows, kColumns}));
    inputs_.push_back(host(random, {kColumns, kColumns}));
    weights_ = inputs_.back();
    const Tensors results = body(static_cast<std::uint32_t>(random()), 2, inputs_, 3, 3);
    Tensor loss = Tensor::scalar(0, DType::f64);
    for (const Tensor& result : results) loss = loss + sum(result * result) + sum(sin(result));
    values_ = results;
    values_.push_back(loss);
    const Tensors first = gradients(loss, inputs_);
    Tensor of_gradients = Tensor::scalar(0, DType::f64);
    for (const Tensor& gradient : first) {
      values_.push_back(gradient);
      of_gradients = of_gradients + sum(gradient * gradient);
    }
    if (seed % 3 != 0) return;
    for (const Tensor& gradient : gradients(of_gradients, inputs_)) values_.push_back(gradient);
  }
  // Results, the loss, its gradients, sometimes those of the sum of their squares.
  const Tensors& values() const { return values_; }

 private:
  // Operations on what it is given and on each other, as the seed alone says: the last ones.
  Tensors body(std::uint32_t seed, int depth, Tensors pool, int operations, std::size_t results) {
    std::mt19937 random(seed);
    std::erase_if(pool, [&](const Tensor& x) { return x.dims()[0] != kRows; });
    for (int i = 0; i < operations; ++i) {
      if (depth > 0 && random() % 2 == 0) {
        for (Tensor& made : control(random, depth, pool)) pool.push_back(std::move(made));
      } else {
        pool.push_back(operation(random, pool));
      }
    }
    while (pool.size() < results) pool.push_back(pool.front());
    return Tensors(pool.end() - static_cast<std::ptrdiff_t>(results), pool.end());
  }

  static const Tensor& any(std::mt19937& random, const Tensors& pool) {
    return pool[random() % pool.size()];
  }

  Tensor operation(std::mt19937& random, const Tensors& pool) {
    const Tensor a = any(random, pool), b = any(random, pool);
    switch (random() % 11) {
      case 0:
        return tanh(a);
      case 1:
        return a * b;
      case 2:
        return a + b * 0.5;
      case 3:
        return tanh(matmul(a, weights_));
      case 4:
        return a - mean(a, {1}, true);
      case 5:
        return where(a > b, a, b * 0.25);
      case 6:
        return reshape(permute(reshape(a, {kColumns, kRows}), {1, 0}), {kRows, kColumns});
      case 7:
        return sin(a) + max(b, {0}, true);
      case 8:
        return stop_gradient(a) * b;
      case 9:
        return take(a, argmax(b, 1), 0) * 0.5;
      default:
        return concatenate({slice_axis(a, 1, 1, kColumns), slice_axis(b, 1, 0, 1)}, 1);
    }
  }

  Tensors control(std::mt19937& random, int depth, const Tensors& pool) {
    const auto seed = static_cast<std::uint32_t>(random());
    switch (random() % 4) {
      case 0:
        return {branch(random, seed, depth, pool)};
      case 1:
        return counted(random, seed, depth, pool);
      default:
        return through(random, seed, depth, pool);
    }
  }

  static Tensors with(Tensors pool, const Tensors& more) {
    pool.insert(pool.end(), more.begin(), more.end());
    return pool;
  }

  Tensor branch(std::mt19937& random, std::uint32_t seed, int depth, const Tensors& pool) {
    const Tensor predicate = sum(any(random, pool)) > 0.1;
    const auto side = [&](std::uint32_t which) {
      return body(seed + which, depth - 1, pool, 2, 1)[0];
    };
    if (loops_) return cond(predicate, [&] { return side(0); }, [&] { return side(1); });
    return where(predicate, side(0), side(1));
  }

  // While a counter says so.
  Tensors counted(std::mt19937& random, std::uint32_t seed, int depth, const Tensors& pool) {
    const auto rounds = static_cast<std::int64_t>(random() % 4);
    Tensors state = {any(random, pool), any(random, pool)};
    const auto round = [&](const Tensors& inputs) {
      return body(seed, depth - 1, with(pool, inputs), 2, 2);
    };
    if (!loops_) {
      for (std::int64_t i = 0; i < rounds; ++i) state = round(state);
      return state;
    }
    state.push_back(Tensor::scalar(static_cast<double>(2 * rounds), DType::s32));
    state = while_loop([](const Tensors& s) { return s[2] > 0; },
                       [&](const Tensors& s) {
                         Tensors next = round({s[0], s[1]});
                         next.push_back(s[2] - 2);
                         return next;
                       },
                       state);
    state.pop_back();
    return state;
  }

  // Through slices.
  Tensors through(std::mt19937& random, std::uint32_t seed, int depth, const Tensors& pool) {
    const auto rounds = static_cast<int>(1 + random() % 4);
    const bool reverse = random() % 2 == 0;
    Tensors slices;
    for (int i = 0; i < rounds; ++i) slices.push_back(any(random, pool));
    const Tensor xs = stacked(slices), ys = stacked({slices.rbegin(), slices.rend()}) * 0.5;
    Tensor state = any(random, pool);
    Tensors results;
    // The next state and two results.
    const auto round = [&](const Tensor& h, const Tensor& x, const Tensor& y) {
      return body(seed, depth - 1, with(pool, {h, x, y}), 4, 3);
    };
    if (loops_) {
      const auto [last, stacks] = scan(
          [&](const Tensor& h, const std::pair<Tensor, Tensor>& x) {
            const Tensors made = round(h, x.first, x.second);
            return std::pair(made[0], std::pair(made[1], made[2]));
          },
          state, std::pair(xs, ys), {.reverse = reverse});
      return {last, sum(stacks.first, {0}), row(stacks.second, rounds - 1)};
    }
    Tensors first(static_cast<std::size_t>(rounds)), second = first;
    for (int n = 0; n < rounds; ++n) {
      const int i = reverse ? rounds - 1 - n : n;
      const Tensors made = round(state, row(xs, i), row(ys, i));
      state = made[0];
      first[static_cast<std::size_t>(i)] = made[1];
      second[static_cast<std::size_t>(i)] = made[2];
    }
    return {state, sum(stacked(first), {0}), second.back()};
  }

  const bool loops_;
  Tensor weights_;
  Tensors inputs_, values_;
};

using Numbers = std::vector<std::vector<double>>;

struct Outcome {
  Numbers numbers;
  std::int64_t floor_bytes = 0, peak_bytes = 0;
};

Outcome run(std::uint32_t seed, bool loops, std::int64_t limit) {
  const Context context({.memory_limit_bytes = limit});
  const ContextScope scope(context);
  const Program program(seed, loops);
  std::vector<plm_tensor*> handles;
  for (const Tensor& value : program.values()) handles.push_back(value.handle());
  Outcome outcome;
  plm_memory_needs needs = {};
  needs.struct_size = sizeof needs;
  internal::check(plm_measure(context.handle(), handles.data(), handles.size(), &needs));
  outcome.floor_bytes = needs.floor_bytes;
  eval(program.values());
  for (const Tensor& value : program.values()) {
    outcome.numbers.push_back(value.to_vector<double>());
  }
  outcome.peak_bytes = context.memory().peak_bytes;
  return outcome;
}

void check_seed(std::uint32_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const Outcome loops = run(seed, true, PLM_NO_LIMIT), written = run(seed, false, PLM_NO_LIMIT);
  ASSERT_EQ(loops.numbers.size(), written.numbers.size());
  for (std::size_t i = 0; i < loops.numbers.size(); ++i) {
    ASSERT_EQ(loops.numbers[i].size(), written.numbers[i].size()) << i;
    double largest = 1;
    for (const double number : written.numbers[i]) largest = std::max(largest, std::abs(number));
    for (std::size_t k = 0; k < loops.numbers[i].size(); ++k) {
      ASSERT_NEAR(loops.numbers[i][k], written.numbers[i][k], 1e-9 * largest)
          << "value " << i << " element " << k;
    }
  }
  const Outcome least = run(seed, true, loops.floor_bytes);
  EXPECT_LE(least.peak_bytes, loops.floor_bytes);
  for (std::size_t i = 0; i < loops.numbers.size(); ++i) {
    EXPECT_EQ(std::memcmp(loops.numbers[i].data(), least.numbers[i].data(),
                          loops.numbers[i].size() * sizeof(double)),
              0)
        << "value " << i << " at the floor";
  }
}

TEST(RandomLoops, GiveWhatTheirRoundsWrittenOutDoAndTheSameBitsAtTheirFloor) {
  unsigned first = 4, count = 3;
  if (const char* text = std::getenv("RANDOM_LOOPS")) {
    ASSERT_EQ(std::sscanf(text, "%u,%u", &first, &count), 2) << text;
  }
  for (std::uint32_t seed = first; seed < first + count; ++seed) {
    check_seed(seed);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace plimsoll
