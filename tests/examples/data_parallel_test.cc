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
  for (const Sharding sharding : {Sharding::optimizer, Sharding::gradients}) {
    const auto messages = run_participants(2, [&](std::int64_t self) {
      Line model;
      DataParallel parallel(model, {.sharding = sharding});
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
