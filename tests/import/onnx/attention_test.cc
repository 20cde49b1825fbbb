// SPDX-License-Identifier: Apache-2.0
// Attention of newer opsets, and what stands around it, beside formulas written out.
#include <cmath>
#include <functional>
#include <optional>

#include "tests/import/onnx/one_node.h"

namespace plimsoll::testing {
namespace {

constexpr int kBatch = 2, kQueries = 2, kKeys = 3, kDepth = 2;

std::vector<float> some(int count, float first) {
  std::vector<float> made;
  for (int i = 0; i < count; ++i) made.push_back(std::sin(first + 1.7F * static_cast<float>(i)));
  return made;
}

const std::vector<float> kQ = some(kBatch * kQueries * kDepth, 1);
const std::vector<float> kK = some(kBatch * kKeys * kDepth, 2);
const std::vector<float> kV = some(kBatch * kKeys * kDepth, 3);

OneNode attention_node() {
  OneNode made("Attention");
  made.input(array<float>({kBatch, 1, kQueries, kDepth}, kQ))
      .input(array<float>({kBatch, 1, kKeys, kDepth}, kK))
      .input(array<float>({kBatch, 1, kKeys, kDepth}, kV));
  return made;
}

// One head; `sees` of a batch, query and key; a query that sees nothing gets zeros.
std::vector<double> attended(const std::function<bool(int, int, int)>& sees,
                             std::optional<double> cap = std::nullopt) {
  std::vector<double> made;
  for (int b = 0; b < kBatch; ++b) {
    for (int q = 0; q < kQueries; ++q) {
      double sum = 0, values[kDepth] = {};
      for (int k = 0; k < kKeys; ++k) {
        if (!sees(b, q, k)) continue;
        double score = 0;
        for (int d = 0; d < kDepth; ++d) {
          score += double{kQ[static_cast<std::size_t>((b * kQueries + q) * kDepth + d)]} *
                   kK[static_cast<std::size_t>((b * kKeys + k) * kDepth + d)];
        }
        score /= std::sqrt(double{kDepth});
        if (cap) score = std::tanh(score / *cap) * *cap;
        sum += std::exp(score);
        for (int d = 0; d < kDepth; ++d) {
          values[d] += std::exp(score) * kV[static_cast<std::size_t>((b * kKeys + k) * kDepth + d)];
        }
      }
      for (const double value : values) made.push_back(sum == 0 ? 0 : value / sum);
    }
  }
  return made;
}

const ir::Dims kResult{kBatch, 1, kQueries, kDepth};

// tanh would make numbers of the mask's infinities.
TEST(OnnxAttention, CapsScoresBeforeTheyAreMasked) {
  OneNode causal = attention_node();
  causal.with(attribute("is_causal", 1)).with(real_attribute("softcap", 0.5F));
  expect_near(causal.result(ir::DType::f32), kResult,
              attended([](int, int q, int k) { return k <= q; }, 0.5), 1e-6);
  OneNode masked = attention_node();
  masked
      .input(ir::Literal::array<bool>({kQueries, kKeys},
                                      std::array{true, false, true, false, true, true}))
      .with(real_attribute("softcap", 0.5F));
  expect_near(masked.result(ir::DType::f32), kResult,
              attended([](int, int q, int k) { return q == 0 ? k != 1 : k != 0; }, 0.5), 1e-6);
}

TEST(OnnxAttention, AQueryThatSeesNoKeyGetsZeros) {
  OneNode masked = attention_node();
  masked.input(ir::Literal::array<bool>({kQueries, kKeys},
                                        std::array{false, false, false, false, true, true}));
  expect_near(masked.result(ir::DType::f32), kResult,
              attended([](int, int q, int k) { return q == 1 && k != 0; }), 1e-6);
  OneNode biased = attention_node();
  const float none = -HUGE_VALF;
  biased.input(array<float>({kQueries, kKeys}, {none, none, none, none, 0, 0}));
  expect_near(biased.result(ir::DType::f32), kResult,
              attended([](int, int q, int k) { return q == 1 && k != 0; }), 1e-6);
}

// Caches have lengths of their own, whose last rows the queries are.
TEST(OnnxAttention, LengthsHideWhatIsNotInTheCacheYet) {
  const auto lengths = array<std::int64_t>({kBatch}, {2, 3});
  OneNode open = attention_node();
  open.no_input().no_input().no_input().input(lengths);
  expect_near(open.result(ir::DType::f32), kResult,
              attended([](int b, int, int k) { return k < 2 + b; }), 1e-6);
  OneNode causal = attention_node();
  causal.no_input().no_input().no_input().input(lengths).with(attribute("is_causal", 1));
  expect_near(causal.result(ir::DType::f32), kResult,
              attended([](int b, int q, int k) { return k <= q + b; }), 1e-6);
}

TEST(OnnxAttention, WindowsAndShortMasksHideKeys) {
  OneNode window = attention_node();
  window.with(attribute("left_window_size", std::int64_t{0}))
      .with(attribute("right_window_size", std::int64_t{1}));
  expect_near(window.result(ir::DType::f32), kResult,
              attended([](int, int q, int k) { return k >= q && k <= q + 1; }), 1e-6);
  OneNode mask = attention_node();
  mask.input(ir::Literal::array<bool>({kQueries, 2}, std::array{true, true, false, true}));
  expect_near(mask.result(ir::DType::f32), kResult,
              attended([](int, int q, int k) { return k < 2 && k >= q; }), 1e-6);
}

TEST(OnnxAttention, RefusesArraysThatDoNotFit) {
  const auto x = [](const ir::Dims& dims) { return ir::Literal(ir::Shape(ir::DType::f32, dims)); };
  for (const auto& [keys, values] : {std::pair<ir::Dims, ir::Dims>{{2, 1, 3, 5}, {2, 1, 3, 2}},
                                     {{3, 1, 3, 2}, {2, 1, 3, 2}},
                                     {{2, 1, 3, 2}, {2, 1, 4, 2}},
                                     {{2, 1, 3}, {2, 1, 3, 2}}}) {
    OneNode made("Attention");
    made.input(x({2, 1, 2, 2})).input(x(keys)).input(x(values)).with(attribute("is_causal", 1));
    EXPECT_NE(made.error(ir::DType::f32), "");
  }
}

TEST(OnnxAttention, GivesTheScoresThatAreAskedFor) {
  for (const int mode : {0, 1, 2, 3}) {
    OneNode scores = attention_node();
    scores.with(attribute("is_causal", 1))
        .with(real_attribute("softcap", 0.25F))
        .with(attribute("qk_matmul_output_mode", std::int64_t{mode}));
    const auto got = scores.result(ir::DType::f32, 3);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    ASSERT_EQ(got->shape().dims(), (ir::Dims{kBatch, 1, kQueries, kKeys}));
    const double score =
        (double{kQ[0]} * kK[0] + double{kQ[1]} * kK[1]) / std::sqrt(double{kDepth});
    const double wanted[] = {score, std::tanh(score / 0.25) * 0.25, std::tanh(score / 0.25) * 0.25,
                             1.0};
    EXPECT_NEAR(got->at(0), wanted[mode], 1e-6) << mode;
    const bool is_masked = std::isinf(got->at(1));
    EXPECT_EQ(is_masked, mode == 2) << mode;
  }
  OneNode wrong = attention_node();
  wrong.with(attribute("qk_matmul_output_mode", std::int64_t{7}));
  EXPECT_NE(wrong.result(ir::DType::f32, 3).status().message().find("qk_matmul_output_mode"),
            std::string::npos);
}

// Columns 0 and 1 turn by the angle of the row's position; what is beyond stays.
TEST(OnnxAttention, RotatesByPositions) {
  const auto x = array<float>({1, 1, 2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const auto cosine = array<float>({3, 2}, {1, 1, 0.6F, 0, -1, 0.5F});
  const auto sine = array<float>({3, 2}, {0, 0, 0.8F, 1, 0, -0.5F});
  const auto positions = array<std::int64_t>({1, 2}, {2, 1});
  OneNode halves("RotaryEmbedding");
  halves.input(x).input(cosine).input(sine).input(positions).with(
      attribute("rotary_embedding_dim", std::int64_t{4}));
  expect_near(halves.result(ir::DType::f32), {1, 1, 2, 5},
              {-1, 2 * 0.5 + 4 * 0.5, -3, -2 * 0.5 + 4 * 0.5, 5,  //
               6 * 0.6 - 8 * 0.8, -9, 6 * 0.8 + 8 * 0.6, 7, 10},
              1e-6);
  OneNode pairs("RotaryEmbedding");
  pairs.input(x)
      .input(cosine)
      .input(sine)
      .input(positions)
      .with(attribute("rotary_embedding_dim", std::int64_t{4}))
      .with(attribute("interleaved", 1));
  expect_near(pairs.result(ir::DType::f32), {1, 1, 2, 5},
              {-1, -2, 3 * 0.5 + 4 * 0.5, -3 * 0.5 + 4 * 0.5, 5,  //
               6 * 0.6 - 7 * 0.8, 6 * 0.8 + 7 * 0.6, -9, 8, 10},
              1e-6);
  OneNode wrong("RotaryEmbedding");
  wrong.input(x).input(cosine).input(sine).input(positions);
  EXPECT_NE(wrong.error(ir::DType::f32).find("rotary_embedding_dim"), std::string::npos);
}

TEST(OnnxAttention, WritesIntoCachesAtPlacesOfTheirOwn) {
  const auto cache = array<float>({2, 3, 1}, {1, 2, 3, 4, 5, 6});
  const auto update = array<float>({2, 2, 1}, {10, 20, 30, 40});
  OneNode linear("TensorScatter");
  linear.input(cache).input(update).input(array<std::int64_t>({2}, {1, 0}));
  expect_near(linear.result(ir::DType::f32), {2, 3, 1}, {1, 10, 20, 30, 40, 6}, 0);
  OneNode ring("TensorScatter");
  ring.input(cache)
      .input(update)
      .input(array<std::int64_t>({2}, {2, 5}))
      .with(text_attribute("mode", "circular"));
  expect_near(ring.result(ir::DType::f32), {2, 3, 1}, {20, 2, 10, 40, 5, 30}, 0);
}

}  // namespace
}  // namespace plimsoll::testing
