// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/eager_loops/programs.h"

#include <cmath>
#include <memory>
#include <random>
#include <utility>

namespace plimsoll::benchmarks {
namespace {

// A matrix of made-up numbers between -scale and scale, on the device.
Tensor matrix(std::int64_t rows, std::int64_t columns, float scale, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> number(-scale, scale);
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (float& value : values) value = number(random);
  return Tensor::from_host(values, {rows, columns}).eval();
}

void append(std::vector<float>& results, const Tensor& tensor) {
  const std::vector<float> values = tensor.to_vector<float>();
  results.insert(results.end(), values.begin(), values.end());
}

struct Tree {
  std::unique_ptr<Tree> left, right;  // both or none
};

std::unique_ptr<Tree> random_tree(int leaves, std::mt19937& random) {
  auto tree = std::make_unique<Tree>();
  if (leaves > 1) {
    const int left = std::uniform_int_distribution<int>(1, leaves - 1)(random);
    tree->left = random_tree(left, random);
    tree->right = random_tree(leaves - left, random);
  }
  return tree;
}

struct State {
  Tensor hidden, cell;
};

class TreeLstm {
 public:
  TreeLstm(const EagerSize& size, std::mt19937& random)
      : size_(size), random_(random), scale_(1 / std::sqrt(static_cast<float>(size.width))) {
    for (std::uint32_t gate = 0; gate < 5; ++gate) {
      left_.push_back(matrix(size.width, size.width, scale_, 10 + gate));
      right_.push_back(matrix(size.width, size.width, scale_, 20 + gate));
    }
    embedding_ = matrix(kWords, size.width, 1, 30);
  }

  State run(const Tree& tree) {
    State state;
    if (tree.left == nullptr) {
      // A word for each row of the batch, by its share of a few.
      std::vector<float> shares(static_cast<std::size_t>(size_.batch * kWords));
      for (float& share : shares) share = static_cast<float>(random_() % 7) / 7;
      state.cell = matmul(Tensor::from_host(shares, {size_.batch, kWords}), embedding_).eval();
    } else {
      const State a = run(*tree.left), b = run(*tree.right);
      const auto gate = [&](std::size_t i) {
        const Tensor from_left = matmul(a.hidden, left_[i]).eval();
        const Tensor from_right = matmul(b.hidden, right_[i]).eval();
        return (from_left + from_right).eval();
      };
      const Tensor in = sigmoid(gate(0)).eval(), forget_a = sigmoid(gate(1)).eval();
      const Tensor forget_b = sigmoid(gate(2)).eval(), update = tanh(gate(4)).eval();
      const Tensor kept = (forget_a * a.cell).eval() + (forget_b * b.cell).eval();
      state.cell = (kept + in * update).eval();
      const Tensor out = sigmoid(gate(3)).eval();
      state.hidden = (out * tanh(state.cell)).eval();
      states.push_back(state);
      return state;
    }
    state.hidden = tanh(state.cell).eval();
    states.push_back(state);
    return state;
  }

  std::vector<State> states;

 private:
  static constexpr std::int64_t kWords = 4;
  const EagerSize& size_;
  std::mt19937& random_;
  const float scale_;
  std::vector<Tensor> left_, right_;
  Tensor embedding_;
};

}  // namespace

std::vector<float> train_dense_chain(const EagerSize& size) {
  const float scale = 1 / std::sqrt(static_cast<float>(size.width));
  std::vector<Tensor> weights;
  for (int i = 0; i < size.depth; ++i) {
    weights.push_back(matrix(size.width, size.width, scale, static_cast<std::uint32_t>(i)));
  }
  const Tensor inputs = matrix(size.batch, size.width, 1, 1000);
  const Tensor targets = matrix(size.batch, size.width, 1, 1001);
  std::vector<float> results;
  for (int step = 0; step < size.repeats; ++step) {
    std::vector<Tensor> activations{inputs};
    for (const Tensor& weight : weights) {
      const Tensor sums = matmul(activations.back(), weight).eval();
      activations.push_back(tanh(sums).eval());
    }
    Tensor error = (activations.back() - targets).eval();
    append(results, mean(square(error)));
    std::vector<Tensor> gradients(weights.size());
    for (std::size_t i = weights.size(); i-- > 0;) {
      const Tensor slope = (1.0F - square(activations.back())).eval();
      const Tensor delta = (error * slope).eval();
      activations.pop_back();
      gradients[i] = matmul(transpose(activations.back()), delta).eval();
      error = matmul(delta, transpose(weights[i])).eval();
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] = (weights[i] - 0.01F * gradients[i]).eval();
    }
  }
  for (const Tensor& weight : weights) append(results, weight);
  return results;
}

std::vector<float> run_tree_lstm(const EagerSize& size) {
  std::mt19937 random(7);
  TreeLstm network(size, random);
  std::vector<float> results;
  for (int i = 0; i < size.repeats; ++i) {
    const auto tree = random_tree(2 * size.depth, random);
    append(results, network.run(*tree).hidden);
    // All of them, the latest first.
    Tensor total = zeros({size.batch, size.width}).eval();
    while (!network.states.empty()) {
      total = (total * 0.5F + network.states.back().hidden * network.states.back().cell).eval();
      network.states.pop_back();
    }
    append(results, total);
  }
  return results;
}

std::vector<float> run_fixed_point(const EagerSize& size) {
  const float scale = 1 / std::sqrt(static_cast<float>(size.width));
  std::vector<float> results;
  for (int repeat = 0; repeat < size.repeats; ++repeat) {
    const auto seed = static_cast<std::uint32_t>(repeat);
    const Tensor weight = matrix(size.width, size.width, 1.2F * scale, 40 + seed);
    const Tensor offset = matrix(size.batch, size.width, 0.3F, 50 + seed);
    std::vector<Tensor> history{matrix(size.batch, size.width, 1, 60 + seed)};
    float change = 1;
    while (change > 1e-4F && static_cast<int>(history.size()) < 3 * size.depth) {
      const Tensor product = matmul(history.back(), weight).eval();
      history.push_back(tanh(product + offset).eval());
      change = mean(abs(history.back() - history[history.size() - 2])).item<float>();
      results.push_back(change);
    }
    Tensor blend = history.back();
    for (std::size_t i = history.size(); i-- > 0;) {
      blend = (0.75F * blend + 0.25F * history[i]).eval();
      if (i % 7 == 0) results.push_back(max(blend).item<float>());
    }
    append(results, blend);
  }
  return results;
}

}  // namespace plimsoll::benchmarks
