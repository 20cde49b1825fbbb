// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/exact/instances.h"

#include <random>

#include "runtime/base/index.h"
#include "runtime/planner/problem/problem_builder.h"

namespace plimsoll::exact {
namespace {

using planner::Op;
using planner::Problem;
using planner::Value;
using planner::ValueId;

// Records a forward network and appends its backward one.
class Network {
 public:
  explicit Network(std::uint32_t seed) : rng_(seed) {}

  int draw(int n) { return static_cast<int>(rng_() % static_cast<unsigned>(n)); }

  int forward(std::vector<int> reads, std::int64_t bytes, double seconds) {
    std::vector<ValueId> operands;
    for (const int r : reads) operands.push_back(layers_[at(r)].result);
    Layer layer;
    layer.reads = std::move(reads);
    layer.bytes = bytes;
    layer.seconds = seconds;
    layer.result = append(operands, {bytes}, seconds)[0];
    layers_.push_back(layer);
    return static_cast<int>(layers_.size()) - 1;
  }

  Problem finish() {
    std::vector<std::vector<ValueId>> gradients(layers_.size());
    for (std::size_t i = layers_.size(); i-- > 0;) {
      const Layer& layer = layers_[i];
      std::vector<ValueId> operands = gradients[i];
      std::vector<std::int64_t> bytes;
      for (const int r : layer.reads) {
        operands.push_back(layers_[at(r)].result);
        bytes.push_back(layers_[at(r)].bytes);
      }
      if (i + 1 == layers_.size() || draw(3) == 0) operands.push_back(layer.result);
      if (bytes.empty()) bytes.push_back(1);
      const auto made = append(operands, bytes, layer.seconds * (1 + draw(2)));
      for (std::size_t k = 0; k < layer.reads.size(); ++k) {
        gradients[at(layer.reads[k])].push_back(made[k]);
      }
    }
    return builder_.finish();
  }

 private:
  struct Layer {
    std::vector<int> reads;
    std::int64_t bytes = 0;
    double seconds = 0;
    ValueId result;
  };

  std::vector<ValueId> append(const std::vector<ValueId>& operands,
                              const std::vector<std::int64_t>& bytes, double seconds) {
    std::vector<ValueId> made;
    for (const std::int64_t b : bytes) {
      Value value;
      value.bytes = b;
      value.producer = builder_.next_op();
      made.push_back(builder_.add_value(value));
    }
    Op op;
    op.seconds = seconds;
    op.recomputable = true;
    builder_.add_op(op, operands, operands, made);
    return made;
  }

  std::mt19937 rng_;
  std::vector<Layer> layers_;
  planner::ProblemBuilder builder_;
};

std::string name(const std::string& kind, int size, std::uint32_t seed) {
  return kind + "-" + std::to_string(size) + "-" + std::to_string(seed);
}

}  // namespace

Instance random_graph(int forward_ops, std::uint32_t seed) {
  Network net(seed);
  for (int i = 0; i < forward_ops; ++i) {
    std::vector<int> reads;
    if (i > 0) reads.push_back(i - 1);
    if (i > 1 && net.draw(3) == 0) reads.push_back(net.draw(i - 1));
    net.forward(std::move(reads), 1 + net.draw(8), 1 + net.draw(9));
  }
  return {name("random", forward_ops, seed), net.finish()};
}

Instance encoder_decoder(int levels, std::uint32_t seed) {
  Network net(seed);
  std::vector<int> skips;
  std::int64_t bytes = std::int64_t{4} << levels;
  int x = net.forward({}, bytes, 2 + net.draw(4));
  for (int i = 0; i < levels; ++i) {
    skips.push_back(x = net.forward({x}, bytes, 4 + net.draw(8)));
    bytes /= 2;
    x = net.forward({x}, bytes, 1 + net.draw(2));
  }
  for (int i = levels; i-- > 0;) {
    bytes *= 2;
    x = net.forward({x}, bytes, 1 + net.draw(2));
    x = net.forward({x, skips[at(i)]}, bytes, 4 + net.draw(8));
  }
  return {name("encoder-decoder", levels, seed), net.finish()};
}

Instance residual_network(int blocks, std::uint32_t seed) {
  Network net(seed);
  std::int64_t bytes = 8;
  int x = net.forward({}, bytes, 3 + net.draw(5));
  for (int i = 0; i < blocks; ++i) {
    const int a = net.forward({x}, bytes, 3 + net.draw(9));
    const int b = net.forward({a}, bytes, 1 + net.draw(2));
    x = net.forward({x, b}, bytes, 1);
  }
  return {name("residual", blocks, seed), net.finish()};
}

}  // namespace plimsoll::exact
