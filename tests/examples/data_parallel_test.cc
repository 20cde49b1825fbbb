// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/examples/participants.h"

namespace plimsoll::examples {
namespace {

using Floats = std::vector<float>;
using Ends = std::vector<std::size_t>;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Ends ends(const std::vector<std::int64_t>& mebibytes, std::int64_t bucket_bytes) {
  std::vector<Tensor> tensors;
  for (const std::int64_t size : mebibytes) tensors.push_back(zeros({size * kMiB / 4}));
  return internal::bucket_ends(tensors, bucket_bytes);
}

TEST(Buckets, AreFilledInOrderAndTheLastAreSmall) {
  EXPECT_EQ(ends({}, 4 * kMiB), Ends());
  EXPECT_EQ(ends({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 4 * kMiB), (Ends{4, 8, 10, 11, 12, 13}));
  EXPECT_EQ(ends({1, 1, 1}, 0), (Ends{1, 2, 3}));
  EXPECT_EQ(ends({9, 1, 9}, 4 * kMiB), (Ends{1, 2, 3}));
  const std::vector<Tensor> mixed = {zeros({2}), zeros({2}), zeros({2}, DType::f64), zeros({2})};
  EXPECT_EQ(internal::bucket_ends(mixed, 4 * kMiB), (Ends{2, 3, 4}));
  // Little is not cut.
  const std::vector<Tensor> little(20, zeros({8}));
  EXPECT_EQ(internal::bucket_ends(little, 4 * kMiB), (Ends{20}));
}

struct Slope : nn::Module {
  explicit Slope(double start)
      : a(add_parameter("a", full({2}, start))),
        b(add_parameter("b", full({}, start + 1))),
        seen(add_buffer("seen", full({}, start))) {}
  Tensor operator()(const Tensor& x) const { return x * a + b; }
  Tensor a, b, seen;
};

TEST(DataParallel, StartsAsTheFirstAndAveragesGradients) {
  const auto messages = run_participants(2, [](std::int64_t self) {
    Slope model(static_cast<double>(self * 10 + 1));
    DataParallel parallel(model);
    EXPECT_EQ(model.a.to_vector<float>(), (Floats{1, 1}));
    EXPECT_EQ(model.b.item<float>(), 2);
    EXPECT_EQ(model.seen.item<float>(), 1);
    // da = x summed, db = 2.
    const Tensor x = full({2}, static_cast<double>(self == 0 ? 3 : 5));
    sum(model(x)).backward();
    EXPECT_EQ(model.a.grad().to_vector<float>(), (Floats{4, 4}));
    EXPECT_EQ(model.b.grad().item<float>(), 2);
    // Without a step between them means add up.
    sum(model(x)).backward();
    EXPECT_EQ(model.a.grad().to_vector<float>(), (Floats{8, 8}));
    model.clear_gradients();
    EXPECT_EQ(parallel.mean(x).to_vector<float>(), (Floats{4, 4}));
    model.seen.assign(full({}, static_cast<double>(self + 7)));
    parallel.broadcast_buffers();
    EXPECT_EQ(model.seen.item<float>(), 7);
  });
  EXPECT_TRUE(ended_well(messages));
}

TEST(DataParallel, AveragesPartsOfABatchAtTheLast) {
  const auto messages = run_participants(2, [](std::int64_t self) {
    Slope model(1);
    DataParallel parallel(model);
    const Tensor x = full({2}, static_cast<double>(self == 0 ? 3 : 5));
    {
      const auto held = parallel.no_sync();
      sum(model(x)).backward();
    }
    EXPECT_EQ(model.a.grad().to_vector<float>(), (self == 0 ? Floats{3, 3} : Floats{5, 5}));
    // This part has no gradient of `a`, which is averaged all the same.
    square(model.b).backward();
    EXPECT_EQ(model.a.grad().to_vector<float>(), (Floats{4, 4}));
    EXPECT_EQ(model.b.grad().item<float>(), 6);
  });
  EXPECT_TRUE(ended_well(messages));
}

// Five elements among two participants: three and two, and a zero.
struct Line : nn::Module {
  Line() : a(add_parameter("a", ones({5}))), b(add_parameter("b", full({}, 2))) {}
  Tensor operator()(const Tensor& x) const { return sum(x * a) + b; }
  Tensor a, b;
};

TEST(DataParallel, GivesEachItsShareOfGradientsAndUpdates) {
  for (const Sharding sharding : {Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
    const auto messages = run_participants(2, [&](std::int64_t self) {
      Line model;
      DataParallel parallel(model, {.sharding = sharding, .whole_bytes = 0});
      ASSERT_EQ(parallel.parameters().size(), 2u);
      const Tensor share = parallel.parameters()[0];
      EXPECT_EQ(share.to_vector<float>(), (self == 0 ? Floats{1, 1, 1} : Floats{1, 1, 0}));
      const Tensor x =
          Tensor::from_host<float>({0, 2, 4, 6, 8}, {5}) + 2.0 * static_cast<double>(self);
      optim::Sgd optimizer(parallel.parameters(), {.learning_rate = 1});
      {
        const auto held = parallel.no_sync();
        model(x).backward();
      }
      EXPECT_TRUE(model.a.grad().defined());
      EXPECT_FALSE(share.grad().defined());
      model(x).backward();
      EXPECT_FALSE(model.a.grad().defined());
      EXPECT_EQ(share.grad().to_vector<float>(),
                (self == 0 ? Floats{2, 6, 10} : Floats{14, 18, 0}));
      model(x).backward();
      EXPECT_EQ(share.grad().to_vector<float>(),
                (self == 0 ? Floats{3, 9, 15} : Floats{21, 27, 0}));
      optimizer.step();
      EXPECT_EQ(model.a.to_vector<float>(), (Floats{-2, -8, -14, -20, -26}));
      EXPECT_EQ(model.b.item<float>(), -1);
      EXPECT_FALSE(share.grad().defined());
    });
    EXPECT_TRUE(ended_well(messages));
  }
}

TEST(DataParallel, ClipsByTheNormOfAllShares) {
  const auto messages = run_participants(2, [](std::int64_t self) {
    Line model;
    DataParallel parallel(model, {.sharding = Sharding::gradients});
    model(Tensor::from_host<float>({1, 1, 1, 2, 1}, {5})).backward();  // and 1 for b: a norm of 3
    const Tensor norm = parallel.clip_grad_norm(1.5);
    EXPECT_EQ(norm.item<float>(), 3);
    const Floats clipped = parallel.parameters()[0].grad().to_vector<float>();
    EXPECT_NEAR(clipped[0], self == 0 ? 0.5f : 1.0f, 1e-5);
  });
  EXPECT_TRUE(ended_well(messages));
}

// Layers whose sizes no number of participants divides; the first is read once more at the end.
struct Tower : nn::Module {
  explicit Tower(std::int64_t side) {
    HostRandom random(11, 3);
    for (int i = 0; i < 5; ++i) {
      std::vector<float> values;
      for (std::int64_t k = 0; k < side * side; ++k) values.push_back(random.next_uniform() - 0.5f);
      weights.push_back(add_parameter("w", Tensor::from_host(values, {side, side})));
      biases.push_back(add_parameter("b", zeros({side})));
    }
  }
  Tensor operator()(Tensor x) const {
    for (std::size_t i = 0; i < weights.size(); ++i) x = tanh(matmul(x, weights[i]) + biases[i]);
    return mean(square(matmul(x, transpose(weights[0]))));
  }
  std::vector<Tensor> weights, biases;
};

Tensor rows_of(std::int64_t participant, std::int64_t batch, std::int64_t side) {
  HostRandom random(5, static_cast<std::uint64_t>(participant + 100 * batch));
  std::vector<float> values;
  for (std::int64_t k = 0; k < 3 * side; ++k) values.push_back(random.next_uniform() - 0.5f);
  return Tensor::from_host(values, {3, side});
}

// The weights after three steps of two parts each, by three participants.
std::vector<Floats> train_tower(const DataParallelOptions& options, const std::string& planning) {
  constexpr std::int64_t kSide = 7;
  std::vector<Floats> weights;
  const auto messages = run_participants(
      3,
      [&](std::int64_t self) {
        Tower model(kSide);
        DataParallel parallel(model, options);
        optim::AdamW optimizer(parallel.parameters(), {.learning_rate = 0.01});
        for (std::int64_t step = 0; step < 3; ++step) {
          if (step < 2) {
            const auto held = parallel.no_sync();
            model(rows_of(self, 2 * step, kSide)).backward();
          }
          // Both are recorded before either is differentiated.
          const Tensor first = model(rows_of(self, 2 * step + 1, kSide));
          const Tensor second = model(rows_of(self, 2 * step + 2, kSide));
          first.backward();
          second.backward();
          parallel.clip_grad_norm(0.5);
          optimizer.step();
        }
        std::vector<Floats> own;
        for (const Tensor& parameter : model.parameters())
          own.push_back(parameter.to_vector<float>());
        if (self == 0) weights = own;
      },
      [&](std::int64_t self) {
        ContextOptions of_context;
        of_context.planning = "first";
        of_context.optimize = planning != "plain" || self != 1;
        of_context.planner = planning == "greedy" && self == 2 ? "greedy" : "";
        return of_context;
      });
  EXPECT_TRUE(ended_well(messages));
  return weights;
}

TEST(DataParallel, HasTheSameWeightsWhereParametersAreGatheredTwice) {
  // Norms of shares are added up in another order than those of whole gradients.
  const std::vector<Floats> expected = train_tower({.sharding = Sharding::gradients}, "");
  ASSERT_EQ(expected.size(), 10u);
  for (const auto& [planning, bucket] :
       {std::pair<std::string, std::int64_t>("greedy", 0), {"plain", kMiB}}) {
    EXPECT_EQ(
        train_tower({.bucket_bytes = bucket, .sharding = Sharding::parameters, .whole_bytes = 32},
                    planning),
        expected)
        << planning;
  }
}

// Of what is to be evaluated, as written: how many operations of a name there are.
int operations(const std::vector<Tensor>& tensors, const std::string& name) {
  std::vector<plm_tensor*> handles;
  for (const Tensor& tensor : tensors) handles.push_back(tensor.handle());
  const char* text = nullptr;
  internal::check(
      plm_trace_text(Context::current().handle(), handles.data(), handles.size(), &text));
  const std::string trace = text;
  int count = 0;
  for (std::size_t at = 0; (at = trace.find(" " + name + "(", at)) != std::string::npos; ++at) {
    ++count;
  }
  return count;
}

struct Stack : nn::Module {
  Stack(int layers, std::int64_t side) {
    for (int i = 0; i < layers; ++i) {
      weights.push_back(add_parameter("w", full({side, side}, 0.01 * (i + 1))));
    }
  }
  Tensor operator()(Tensor x) const {
    for (const Tensor& weight : weights) x = tanh(matmul(x, weight));
    return mean(square(x));
  }
  std::vector<Tensor> weights;
};

TEST(DataParallel, GathersParametersForForwardAndForBackward) {
  constexpr int kLayers = 6;
  constexpr std::int64_t kSide = 128, kBytes = kSide * kSide * 4;
  std::vector<std::int64_t> peaks;
  for (const Sharding sharding : {Sharding::gradients, Sharding::parameters}) {
    std::int64_t peak = 0;
    const auto messages = run_participants(4, [&](std::int64_t self) {
      Stack model(kLayers, kSide);
      DataParallel parallel(model, {.bucket_bytes = 0, .sharding = sharding, .whole_bytes = 0});
      optim::Sgd optimizer(parallel.parameters(), {.learning_rate = 1});
      Context::current().wait();
      if (sharding == Sharding::parameters) {
        EXPECT_LT(Context::current().memory().used_bytes, kLayers * kBytes / 3);
        // One each forwards. Backwards neither the first layer's, which data come into, nor the
        // last one's, which is there still.
        const Tensor loss = model(ones({2, kSide}));
        EXPECT_EQ(operations({loss}, "all-gather"), kLayers);
        loss.backward();
        std::vector<Tensor> gradients;
        for (const Tensor& share : parallel.parameters()) gradients.push_back(share.grad());
        EXPECT_EQ(operations(gradients, "all-gather"), 2 * kLayers - 2);
        EXPECT_EQ(operations(gradients, "reduce-scatter"), kLayers);
        for (Tensor share : parallel.parameters()) share.clear_grad();
      }
      for (int step = 0; step < 2; ++step) {
        model(full({2, kSide}, 0.1 * static_cast<double>(self + 1))).backward();
        Context::current().reset_peak();
        optimizer.step();
        Context::current().wait();
      }
      if (self == 0) peak = Context::current().memory().peak_bytes;
    });
    EXPECT_TRUE(ended_well(messages));
    peaks.push_back(peak);
  }
  // All parameters and a share of each, against the shares, a layer and its gradient, and another
  // layer that has come before the first is gone.
  EXPECT_GT(peaks[0], kLayers * kBytes);
  EXPECT_LT(peaks[1], kLayers * kBytes / 4 + 4 * kBytes);
}

TEST(DataParallel, DifferentiatesGradientsOfGatheredParameters) {
  const auto messages = run_participants(2, [](std::int64_t self) {
    const auto penalty = [](const Tensor& loss, const std::vector<Tensor>& of) {
      return sum(square(gradients(loss, {of[0]})[0])) + sum(square(gradients(loss, {of[1]})[0]));
    };
    Stack plain(3, 8), shared(3, 8);
    DataParallel parallel(shared, {.sharding = Sharding::parameters, .whole_bytes = 0});
    const Tensor x = full({2, 8}, 0.5 * static_cast<double>(self + 1));
    const std::vector<Tensor> expected = gradients(penalty(plain(x), plain.weights), plain.weights);
    const std::vector<Tensor> found = gradients(penalty(shared(x), shared.weights), shared.weights);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found[i].to_vector<float>(), expected[i].to_vector<float>()) << i;
      EXPECT_NE(expected[i].to_vector<float>()[0], 0);
    }
  });
  EXPECT_TRUE(ended_well(messages));
}

TEST(DataParallel, RefusesAnOptimizerThatWouldUpdateNothing) {
  const auto messages = run_participants(2, [](std::int64_t) {
    Line model;
    DataParallel parallel(model, {.sharding = Sharding::optimizer});
    optim::Sgd optimizer(model.parameters(), {.learning_rate = 1});
    model(ones({5})).backward();
    optimizer.step();
  });
  EXPECT_TRUE(contains(messages[0], "make it of DataParallel::parameters()"));
}

TEST(DataParallel, AloneChangesNothing) {
  const Context context;
  const ContextScope scope(context);
  Slope model(1);
  DataParallel parallel(model);
  sum(model(ones({2}))).backward();
  EXPECT_EQ(model.a.grad().to_vector<float>(), (Floats{1, 1}));
  parallel.broadcast_buffers();
  EXPECT_EQ(parallel.participants(), 1);
}

TEST(DataParallel, EndsWithTheObject) {
  const auto messages = run_participants(2, [](std::int64_t self) {
    Slope model(1);
    {
      const DataParallel parallel(model);
    }
    sum(model(full({2}, static_cast<double>(self)))).backward();
    const auto own = static_cast<float>(self);
    EXPECT_EQ(model.a.grad().to_vector<float>(), (Floats{own, own}));
  });
  EXPECT_TRUE(ended_well(messages));
}

}  // namespace
}  // namespace plimsoll::examples
