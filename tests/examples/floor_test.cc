// SPDX-License-Identifier: Apache-2.0
// The smallest limit that is reported is the smallest that does, however kernels are merged.
#include <gtest/gtest.h>

#include "benchmarks/training_steps/segmentation_network.h"
#include "plimsoll/plimsoll.hpp"

namespace plimsoll {
namespace {

using benchmarks::SegmentationNetwork;

// One step of training on made-up images; gives the loss.
float train_step(std::int64_t limit, MemoryNeeds* needs = nullptr) {
  Context context;
  const ContextScope scope(context);
  nn::Initializer init(1);
  SegmentationNetwork network({.depth = 2, .widths = {4, 8}}, init);
  network.materialize();
  optim::Sgd optimizer(network.parameters(), {.learning_rate = 1e-2});
  const Tensor pixels = reshape(iota({2 * 16 * 16 * 3}, 0, DType::f32), {2, 16, 16, 3});
  const Tensor images = (sin(pixels) * 2.0f).eval();
  const Tensor labels =
      convert(reshape(iota({2 * 16 * 16}, 0, DType::f32), {2, 16, 16}) * 0.0f, DType::s32).eval();
  context.wait();
  Tensor loss = nn::cross_entropy(network(images), labels);
  loss.backward();
  optimizer.record_step();
  if (needs != nullptr) *needs = context.measure_step();
  context.set_limit(limit);
  context.step();
  context.wait();
  EXPECT_LE(context.memory().peak_bytes, limit);
  context.remove_limit();
  return loss.item<float>();
}

TEST(Floor, OfAUNetIsTheSmallestLimitThatDoes) {
  MemoryNeeds needs;
  const float loss = train_step(PLM_NO_LIMIT, &needs);
  ASSERT_GT(needs.floor_bytes, 0);
  ASSERT_LT(needs.floor_bytes, needs.unlimited_peak_bytes);
  EXPECT_EQ(train_step(needs.floor_bytes), loss);
  try {
    train_step(needs.floor_bytes - 1);
    ADD_FAILURE() << "a byte below the floor was planned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted);
    EXPECT_EQ(error.floor_bytes(), needs.floor_bytes);
    EXPECT_NE(std::string(error.what()).find(std::to_string(needs.floor_bytes)), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace plimsoll
