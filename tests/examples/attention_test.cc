// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "examples/train_text/language_model.h"
#include "plimsoll/plimsoll.hpp"

namespace plimsoll {
namespace {

using Floats = std::vector<float>;

// Sets a variable for as long as it lives.
class EnvironmentScope {
 public:
  EnvironmentScope(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~EnvironmentScope() { unsetenv(name_); }

 private:
  const char* name_;
};

struct Sizes {
  std::int64_t batch, heads, queries, keys, depth;
};

std::vector<double> made_up(std::int64_t count, unsigned seed) {
  HostRandom random(seed);
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>(2 * random.next_uniform() - 1));
  }
  return values;
}

// o, dq, dk, dv of sum(w * attention(q, k, v)), one after the other, in f64 by the definition.
std::vector<double> reference(const Sizes& s, bool causal, const std::vector<double>& q,
                              const std::vector<double>& k, const std::vector<double>& v,
                              const std::vector<double>& w) {
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::vector<double> o(q.size()), dq(q.size()), dk(k.size()), dv(v.size());
  const double scale = 1 / std::sqrt(static_cast<double>(s.depth));
  for (std::int64_t h = 0; h < s.batch * s.heads; ++h) {
    const std::int64_t rows = h * s.queries * s.depth, columns = h * s.keys * s.depth;
    for (std::int64_t i = 0; i < s.queries; ++i) {
      const std::int64_t seen = causal ? i + 1 + s.keys - s.queries : s.keys;
      std::vector<double> p(at(seen)), dp(at(seen));
      double greatest = -1e300, sum = 0, delta = 0;
      for (std::int64_t j = 0; j < seen; ++j) {
        double score = 0;
        for (std::int64_t c = 0; c < s.depth; ++c) {
          score += q[at(rows + i * s.depth + c)] * k[at(columns + j * s.depth + c)];
        }
        p[at(j)] = score * scale;
        greatest = std::max(greatest, p[at(j)]);
      }
      for (double& x : p) sum += x = std::exp(x - greatest);
      for (std::int64_t j = 0; j < seen; ++j) {
        p[at(j)] /= sum;
        for (std::int64_t c = 0; c < s.depth; ++c) {
          const std::size_t value = at(columns + j * s.depth + c), row = at(rows + i * s.depth + c);
          o[row] += p[at(j)] * v[value];
          dp[at(j)] += w[row] * v[value];
          dv[value] += p[at(j)] * w[row];
        }
        delta += p[at(j)] * dp[at(j)];
      }
      for (std::int64_t j = 0; j < seen; ++j) {
        const double slope = p[at(j)] * (dp[at(j)] - delta) * scale;
        for (std::int64_t c = 0; c < s.depth; ++c) {
          const std::size_t key = at(columns + j * s.depth + c), row = at(rows + i * s.depth + c);
          dq[row] += slope * k[key];
          dk[key] += slope * q[row];
        }
      }
    }
  }
  for (const auto* part : {&dq, &dk, &dv}) o.insert(o.end(), part->begin(), part->end());
  return o;
}

Tensor from_doubles(const std::vector<double>& values, const Dims& dims) {
  return Tensor::from_host(Floats(values.begin(), values.end()), dims);
}

struct Step {
  std::vector<double> values;  // o, dq, dk, dv
  std::int64_t peak_bytes = 0;
};

Step step(const Sizes& s, bool causal, const std::vector<double>& q, const std::vector<double>& k,
          const std::vector<double>& v, const std::vector<double>& w, DType dtype = DType::f32) {
  const Context context;
  const ContextScope scope(context);
  const Dims rows = {s.batch, s.heads, s.queries, s.depth};
  const Dims columns = {s.batch, s.heads, s.keys, s.depth};
  const Tensor query = convert(from_doubles(q, rows), dtype),
               key = convert(from_doubles(k, columns), dtype),
               value = convert(from_doubles(v, columns), dtype);
  const Tensor output = attention(query, key, value, {.causal = causal});
  std::vector<Tensor> all = {output};
  for (const Tensor& g :
       gradients(sum(convert(output * convert(from_doubles(w, rows), dtype), DType::f32)),
                 {query, key, value})) {
    all.push_back(g);
  }
  for (Tensor& x : all) x = convert(x, DType::f32);
  eval(all);
  Step result;
  for (const Tensor& x : all) {
    for (const float value : x.to_vector<float>()) result.values.push_back(value);
  }
  result.peak_bytes = context.memory().peak_bytes;
  return result;
}

double greatest_error(const std::vector<double>& expected, const std::vector<double>& got) {
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::max(error, std::abs(expected[i] - got[i]));
  }
  return error;
}

TEST(Attention, IsNoLessAccurateThanItsComposition) {
  for (const bool causal : {false, true}) {
    const Sizes s = {1, 3, 130, 200, 32};
    const auto q = made_up(3 * 130 * 32, 1), k = made_up(3 * 200 * 32, 2),
               v = made_up(3 * 200 * 32, 3), w = made_up(3 * 130 * 32, 4);
    // The reference gets what the operands are in f32.
    const auto rounded = [](std::vector<double> x) {
      for (double& value : x) value = static_cast<double>(static_cast<float>(value));
      return x;
    };
    const auto expected = reference(s, causal, rounded(q), rounded(k), rounded(v), rounded(w));
    const Step in_one_kernel = step(s, causal, q, k, v, w);
    const double fused = greatest_error(expected, in_one_kernel.values);
    const EnvironmentScope composed_only("PLIMSOLL_ATTENTION", "composed");
    const Step as_written = step(s, causal, q, k, v, w);
    const double composed = greatest_error(expected, as_written.values);
    EXPECT_NE(as_written.values, in_one_kernel.values);  // the context has listened
    EXPECT_LT(fused, 1e-5);
    EXPECT_LT(fused, 1.5 * composed);
  }
}

TEST(Attention, OfBf16IsNoLessAccurateThanItsComposition) {
  const auto rounded = [](std::vector<double> x) {
    const Tensor narrow =
        convert(from_doubles(x, {static_cast<std::int64_t>(x.size())}), DType::bf16);
    const Floats values = convert(narrow, DType::f32).to_vector<float>();
    return std::vector<double>(values.begin(), values.end());
  };
  for (const bool causal : {false, true}) {
    const Sizes s = {1, 3, 130, 200, 32};
    const auto q = rounded(made_up(3 * 130 * 32, 1)), k = rounded(made_up(3 * 200 * 32, 2)),
               v = rounded(made_up(3 * 200 * 32, 3)), w = rounded(made_up(3 * 130 * 32, 4));
    const auto expected = reference(s, causal, q, k, v, w);
    const double fused = greatest_error(expected, step(s, causal, q, k, v, w, DType::bf16).values);
    const EnvironmentScope composed_only("PLIMSOLL_ATTENTION", "composed");
    const double composed =
        greatest_error(expected, step(s, causal, q, k, v, w, DType::bf16).values);
    EXPECT_LT(fused, 2e-2);
    EXPECT_LT(fused, 1.5 * composed);
  }
}

TEST(Attention, PeakOfATrainingStepGrowsWithLengthNotWithItsSquare) {
  const auto peak = [](std::int64_t length) {
    const Sizes s = {1, 2, length, length, 16};
    const auto x = made_up(2 * length * 16, 1);
    return step(s, true, x, x, x, x).peak_bytes;
  };
  const std::int64_t small = peak(512), large = peak(2048);
  EXPECT_LT(large, 5 * small);
  // The scores alone would take more than everything.
  EXPECT_LT(large, 2LL * 2048 * 2048 * 4);
}

// The gradient of four layers; throws what the smallest limit would be where there is no plan.
Floats deep_gradient(std::int64_t limit, std::int64_t& peak) {
  const Context context({.memory_limit_bytes = limit});
  const ContextScope scope(context);
  const Tensor x = from_doubles(made_up(2 * 96 * 32, 1), {1, 2, 96, 32});
  Tensor h = x;
  for (int i = 0; i < 4; ++i) h = h + tanh(attention(h, h, h, {.causal = true}));
  const std::vector<Tensor> slopes = gradients(sum(h * h), {x});
  h = Tensor();
  const Floats values = slopes[0].to_vector<float>();
  peak = context.memory().peak_bytes;
  return values;
}

TEST(Attention, SameBitsAtEveryLimit) {
  std::int64_t peak = 0, floor = 0, limited_peak = 0;
  const Floats free = deep_gradient(PLM_NO_LIMIT, peak);
  try {
    deep_gradient(1000, limited_peak);
  } catch (const Error& error) {
    floor = error.floor_bytes();
  }
  ASSERT_GT(floor, 0);
  ASSERT_LT(floor, peak);
  for (const std::int64_t limit : {floor, (floor + peak) / 2}) {
    EXPECT_EQ(deep_gradient(limit, limited_peak), free);
    EXPECT_LE(limited_peak, limit);
  }
}

// Kernels' launches by their names in the last step.
nlohmann::json kernels_of(const std::function<void()>& body, Context& context) {
  context.enable_profile(true);
  body();
  return nlohmann::json::parse(context.report()).at("kernels");
}

int launches(const nlohmann::json& kernels, const std::string& name) {
  int count = 0;
  for (const auto& kernel : kernels) {
    if (kernel.at("name") == name) count += kernel.at("launches").get<int>();
  }
  return count;
}

TEST(Attention, LanguageModelTrainsWithTwoKernelsALayer) {
  Context context;
  const ContextScope scope(context);
  examples::LanguageModelOptions options;
  options.vocabulary = 11;
  options.context = 48;
  options.width = 32;
  options.heads = 2;
  options.layers = 2;
  for (const double dropout : {0.0, 0.1}) {
    options.dropout = dropout;
    nn::Initializer init(1);
    examples::LanguageModel model(options, init);
    model.materialize();
    optim::Sgd optimizer(model.parameters(), {.learning_rate = 1e-2});
    std::vector<std::int32_t> tokens(4 * 48);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i % 11);
    const Tensor inputs = Tensor::from_host(tokens, {4, 48});
    const auto kernels = kernels_of(
        [&] {
          {
            const Tensor loss = nn::cross_entropy(model(inputs), inputs);
            loss.backward();
          }
          optimizer.step();
        },
        context);
    // Dropped-out probabilities are computed one by one.
    const int expected = dropout == 0 ? 2 : 0;
    EXPECT_EQ(launches(kernels, "attention.forward"), expected) << kernels.dump();
    EXPECT_EQ(launches(kernels, "attention.backward"), expected) << kernels.dump();
  }
}

TEST(Attention, MaskAndBiasBroadcastAndRowsWithoutKeysGetTheMean) {
  const Tensor q = ones({2, 3, 4}), k = ones({2, 5, 4});
  const Tensor v = reshape(iota({10}, 0, DType::f32), {2, 5, 1});
  // The first batch sees key 3 only, the second none.
  Tensor mask = Tensor::from_host<bool>(
      {false, false, false, true, false, false, false, false, false, false}, {2, 1, 5});
  const Floats masked = attention(q, k, v, {.mask = mask}).to_vector<float>();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(masked[i], 3);
  for (std::size_t i = 3; i < 6; ++i) EXPECT_FLOAT_EQ(masked[i], 7);
  const Tensor bias = Tensor::from_host<float>({0, 0, 100, 0, 0}, {5});
  const Floats biased = attention(q, k, v, {.bias = bias}).to_vector<float>();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(biased[i], 2);
}

TEST(Attention, BiasHasAGradient) {
  const Tensor x = from_doubles(made_up(2 * 6 * 4, 1), {2, 6, 4});
  const Tensor w = from_doubles(made_up(2 * 6 * 4, 2), {2, 6, 4});
  const std::vector<double> values = made_up(36, 3);
  const auto loss = [&](const Tensor& bias) { return sum(attention(x, x, x, {.bias = bias}) * w); };
  const Tensor bias = from_doubles(values, {6, 6});
  const Floats slopes = gradients(loss(bias), std::vector<Tensor>{bias})[0].to_vector<float>();
  for (const std::size_t i : {0u, 7u, 35u}) {
    const auto at = [&](double offset) {
      std::vector<double> moved = values;
      moved[i] += offset;
      return static_cast<double>(loss(from_doubles(moved, {6, 6})).item<float>());
    };
    EXPECT_NEAR(slopes[i], (at(1e-2) - at(-1e-2)) / 2e-2, 2e-3) << i;
  }
}

TEST(Attention, SaysWhatDoesNotFit) {
  const auto message = [](const std::function<void()>& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message([] {
              attention(ones({2, 3, 4}), ones({2, 5, 6}), ones({2, 5, 4}));
            }).find("queries f32[2,3,4], keys f32[2,5,6] and values f32[2,5,4]"),
            std::string::npos);
  EXPECT_NE(message([] {
              attention(ones({3, 4}), ones({5, 4}), ones({5, 4}), {.mask = ones({5})});
            }).find("the mask is f32[5], must be pred"),
            std::string::npos);
  EXPECT_NE(message([] {
              attention(ones({3, 4}), ones({5, 4}), ones({5, 4}), {.bias = ones({4})});
            }).find("the bias is f32[4], must be floating and broadcast to f32[3,5]"),
            std::string::npos);
  EXPECT_NE(message([] {
              attention(ones({3, 0}), ones({5, 0}), ones({5, 4}));
            }).find("f32[3,0] have depth 0, for which the scale 1 / sqrt(depth) is infinite"),
            std::string::npos);
}

TEST(Attention, WithoutDepthIsTheMeanOfWhatIsSeen) {
  const Tensor values = Tensor::from_host<float>({1, 10, 3, 30}, {2, 2});
  const Tensor no_depth = ones({2, 0});
  EXPECT_EQ(attention(no_depth, no_depth, values, {.scale = 1}).to_vector<float>(),
            (Floats{2, 20, 2, 20}));
  EXPECT_EQ(attention(no_depth, no_depth, values, {.scale = 1, .causal = true}).to_vector<float>(),
            (Floats{1, 10, 2, 20}));
}

}  // namespace
}  // namespace plimsoll
