// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll::nn {
namespace {

using Floats = std::vector<float>;

// Compares backward() with central differences of `loss` in some elements of every parameter. The
// loss is called anew each time; `reset` puts state back that the call changes.
void check_gradients(Module& module, const std::function<Tensor()>& loss, float step = 1e-2f,
                     float tolerance = 2e-2f) {
  module.clear_gradients();
  loss().backward();
  std::vector<Floats> gradients;
  for (const Tensor& parameter : module.parameters()) {
    ASSERT_TRUE(parameter.grad().defined());
    gradients.push_back(parameter.grad().to_vector<float>());
  }
  module.clear_gradients();
  std::size_t index = 0;
  for (auto& [name, parameter] : module.named_parameters()) {
    const Floats values = parameter.to_vector<float>();
    const Dims dims(parameter.dims().begin(), parameter.dims().end());
    const std::size_t stride = std::max<std::size_t>(1, values.size() / 3);
    for (std::size_t i = 0; i < values.size(); i += stride) {
      const auto at = [&](float offset) {
        Floats moved = values;
        moved[i] += offset;
        parameter.assign(Tensor::from_host(moved, dims));
        return loss().item<float>();
      };
      const float difference = (at(step) - at(-step)) / (2 * step);
      EXPECT_NEAR(gradients[index][i], difference,
                  tolerance * std::max(1.0f, std::fabs(difference)))
          << name << " element " << i;
    }
    parameter.assign(Tensor::from_host(values, dims));
    ++index;
  }
}

Tensor input(const Dims& dims, std::uint64_t seed = 11) {
  return Initializer(seed).uniform(dims, 1.0);
}

// A loss with a different weight for every element, so that no error cancels out.
Tensor weighted_sum(const Tensor& x) {
  return sum(x * input(Dims(x.dims().begin(), x.dims().end()), 77));
}

TEST(Linear, ComputesAndHasTheRightGradients) {
  Initializer init(1);
  Linear layer(2, 3, init);
  layer.parameters()[0].assign(Tensor::from_host<float>({1, 2, 3, 4, 5, 6}, {2, 3}));
  layer.parameters()[1].assign(Tensor::from_host<float>({10, 20, 30}, {3}));
  EXPECT_EQ(layer(Tensor::from_host<float>({1, 1}, {1, 2})).to_vector<float>(),
            (Floats{15, 27, 39}));
  const Tensor x = input({4, 5, 2});
  check_gradients(layer, [&] { return weighted_sum(tanh(layer(x))); });
}

TEST(Conv2d, HasTheRightGradients) {
  Initializer init(2);
  Conv2d layer(2, 3, 3, init, {.stride = 2, .padding = 1});
  const Tensor x = input({2, 5, 4, 2});
  EXPECT_EQ(layer(x).shape_text(), "f32[2,3,2,3]");
  check_gradients(layer, [&] { return weighted_sum(tanh(layer(x))); });
}

TEST(BatchNorm2d, NormalizesByTheBatchAndKeepsRunningStatistics) {
  Initializer init(3);
  BatchNorm2d layer(1, init);
  const Tensor x = Tensor::from_host<float>({1, 2, 3, 6}, {1, 2, 2, 1});
  const Floats y = layer(x).to_vector<float>();
  const float deviation = std::sqrt(3.5f + 1e-5f);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(y[i], (Floats{1, 2, 3, 6}[i] - 3) / deviation, 1e-5f);
  }
  EXPECT_NEAR(layer.running_mean().item<float>(), 0.3f, 1e-6f);
  EXPECT_NEAR(layer.running_variance().item<float>(), 0.9f + 0.1f * 14.0f / 3, 1e-5f);

  layer.train(false);
  const Floats z = layer(x).to_vector<float>();
  EXPECT_NEAR(z[3], (6 - 0.3f) / std::sqrt(0.9f + 0.1f * 14.0f / 3 + 1e-5f), 1e-5f);
  EXPECT_NEAR(layer.running_mean().item<float>(), 0.3f, 1e-6f);
}

TEST(BatchNorm2d, HasTheRightGradientsThroughTheStatistics) {
  Initializer init(4);
  Sequential net;
  net.add<Conv2d>(1, 2, 3, init);
  net.add<BatchNorm2d>(2, init);
  const Tensor x = input({3, 4, 4, 1});
  check_gradients(net, [&] { return weighted_sum(tanh(net(x))); });
}

TEST(LayerNorm, HasTheRightGradients) {
  Initializer init(5);
  Sequential net;
  net.add<Linear>(3, 4, init);
  net.add<LayerNorm>(4, init);
  const Tensor x = input({5, 3});
  check_gradients(net, [&] { return weighted_sum(gelu(net(x))); });
}

TEST(Embedding, GathersRowsAndAddsUpGradientsOfRepeatedOnes) {
  Initializer init(6);
  Embedding layer(4, 2, init, 1.0);
  const Tensor indices = Tensor::from_host<std::int32_t>({3, 1, 3}, {3});
  const Floats table = layer.weight().to_vector<float>();
  EXPECT_EQ(layer(indices).to_vector<float>(),
            (Floats{table[6], table[7], table[2], table[3], table[6], table[7]}));
  sum(layer(indices)).backward();
  EXPECT_EQ(layer.parameters()[0].grad().to_vector<float>(), (Floats{0, 0, 1, 1, 0, 0, 2, 2}));
}

TEST(Pooling, HasTheRightGradients) {
  Initializer init(7);
  Sequential net;
  net.add<Conv2d>(1, 2, 1, init);
  net.add<MaxPool2d>(Pool2dOptions{.size = 3, .stride = 2});
  net.add<AvgPool2d>(Pool2dOptions{.size = 2});
  const Tensor x = input({2, 9, 9, 1});
  check_gradients(net, [&] { return weighted_sum(net(x)); });
}

TEST(Dropout, DropsTheRightShareOnlyInTrainingAndScalesTheRest) {
  Dropout layer(0.25);
  const Tensor x = ones({100, 100});
  const Floats first = layer(x).to_vector<float>();
  const Floats second = layer(x).to_vector<float>();
  double dropped = 0;
  for (const float value : first) {
    if (value == 0) ++dropped;
    EXPECT_TRUE(value == 0 || std::fabs(value - 4.0f / 3) < 1e-6f);
  }
  EXPECT_NEAR(dropped / 1e4, 0.25, 0.02);
  EXPECT_NE(first, second);
  layer.train(false);
  EXPECT_EQ(layer(x).to_vector<float>(), Floats(10000, 1.0f));
  EXPECT_THROW(Dropout(1.0), Error);
}

TEST(Dropout, DrawsTheSameMasksInTheSameProgram) {
  const auto draw = [](std::uint64_t seed) {
    const ContextScope scope{Context({.seed = seed})};
    return Dropout(0.5).forward(ones({64})).to_vector<float>();
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(CrossEntropy, IsTheMeanNegativeLogLikelihood) {
  const Tensor logits = Tensor::from_host<float>({0, std::log(3.0f), 1000, 0}, {2, 2});
  const Tensor labels = Tensor::from_host<std::int32_t>({1, 0}, {2});
  EXPECT_NEAR(cross_entropy(logits, labels).item<float>(), 0.5f * std::log(4.0f / 3), 1e-6f);

  Tensor parameter = Tensor::parameter(logits);
  cross_entropy(parameter, labels).backward();
  const Floats gradient = parameter.grad().to_vector<float>();
  const Floats expected = {0.125f, -0.125f, 0, 0};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(gradient[i], expected[i], 1e-6f);
}

template <typename F>
std::string refusal_of(F function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return error.message();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(CrossEntropy, RefusesLabelsThatAreNone) {
  const Tensor logits = ones({2, 3});
  const auto with = [&](const Tensor& labels) {
    return refusal_of([&] { cross_entropy(logits, labels); });
  };
  EXPECT_NE(with(Tensor::from_host<std::int32_t>({0, 1, 2}, {3})).find("labels are s32[3]"),
            std::string::npos);
  EXPECT_NE(with(Tensor::from_host<std::int32_t>({0, 1}, {2, 1})).find("labels are s32[2,1]"),
            std::string::npos);
  EXPECT_NE(with(ones({2})).find("must be integers"), std::string::npos);
  refusal_of([] { cross_entropy(Tensor::scalar(1), Tensor::scalar(1, DType::s32)); });
}

TEST(CrossEntropy, IsNanWhereALabelNamesNoClass) {
  for (const std::int32_t label : {-1, 3, 1000}) {
    Tensor logits = Tensor::parameter(ones({2, 3}));
    const Tensor loss = cross_entropy(logits, Tensor::from_host<std::int32_t>({0, label}, {2}));
    loss.backward();
    eval({loss, logits.grad()});
    EXPECT_TRUE(std::isnan(loss.item<float>())) << label;
    const Floats gradient = logits.grad().to_vector<float>();
    EXPECT_NEAR(gradient[0], -1.0f / 3, 1e-6f);
    for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(gradient[i], 0) << label;
  }
}

TEST(MeanSquaredError, RefusesOtherShapes) {
  EXPECT_NE(refusal_of([] { mean_squared_error(ones({4, 1}), ones({4})); }).find("same shape"),
            std::string::npos);
  EXPECT_EQ(mean_squared_error(ones({4}), zeros({4})).item<float>(), 1);
}

TEST(Layers, RefuseSizesThatAreNone) {
  Initializer init(1);
  EXPECT_NE(refusal_of([&] { Linear(-5, 3, init); }).find("[Linear] inputs is -5"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] { Linear(5, 0, init); }).find("[Linear] outputs is 0"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] { Embedding(0, 3, init); }).find("[Embedding] count"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] { LayerNorm(0, init); }).find("[LayerNorm] width"), std::string::npos);
  EXPECT_NE(refusal_of([&] { BatchNorm2d(-1, init); }).find("[BatchNorm2d] channels"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] { Conv2d(3, 4, 3, init, {.groups = 0}); }).find("groups is 0"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] { Conv2d(3, 4, 3, init, {.groups = 2}); }).find("into 2 groups"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] { Conv2d(3, 4, 3, init, {.stride = 0}); }).find("stride is 0"),
            std::string::npos);
}

TEST(Module, NamesParametersAndBuffersByTheirPlace) {
  Initializer init(8);
  Sequential net;
  net.add<Conv2d>(1, 2, 3, init, Conv2dLayerOptions{.bias = false});
  net.add<BatchNorm2d>(2, init);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : net.named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"0.weight", "1.weight", "1.bias"}));
  EXPECT_EQ(net.named_buffers().at(1).first, "1.running_variance");
  EXPECT_EQ(net.parameter_count(), 9 * 2 + 2 + 2);
}

TEST(Initializer, IsDeterministicAndBounded) {
  const Floats a = Initializer(9).kaiming_uniform({100, 6}, 6).to_vector<float>();
  EXPECT_EQ(a, Initializer(9).kaiming_uniform({100, 6}, 6).to_vector<float>());
  EXPECT_NE(a, Initializer(10).kaiming_uniform({100, 6}, 6).to_vector<float>());
  double square_sum = 0;
  for (const float value : a) {
    EXPECT_LE(std::fabs(value), 1.0f);
    square_sum += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(square_sum / 600, 1.0 / 3, 0.05);
  Initializer init(9);
  EXPECT_NE(init.uniform({8}, 1).to_vector<float>(), init.uniform({8}, 1).to_vector<float>());
}

}  // namespace
}  // namespace plimsoll::nn
