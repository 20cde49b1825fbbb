// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "plimsoll/random.hpp"
#include "plimsoll/tensor.hpp"

namespace plimsoll::nn {

// Draws initial weights on the host: each tensor from a stream of its own, numbered in the order of
// the calls, so that a seed and a model give the same weights everywhere.
class Initializer {
 public:
  explicit Initializer(std::uint64_t seed) : seed_(seed) {}

  // Uniform in [-bound, bound).
  Tensor uniform(const Dims& dims, double bound) {
    return draw(dims, [bound](HostRandom& random) {
      return static_cast<float>(bound) * (2.0f * random.next_uniform() - 1.0f);
    });
  }
  Tensor normal(const Dims& dims, double deviation) {
    return draw(dims, [deviation](HostRandom& random) {
      return static_cast<float>(deviation) * random.next_normal();
    });
  }
  // Keeps the variance through a layer with ReLU (He et al., arXiv:1502.01852).
  Tensor kaiming_uniform(const Dims& dims, std::int64_t fan_in) {
    return uniform(dims, std::sqrt(6.0 / static_cast<double>(fan_in)));
  }
  // Keeps the variance forward and backward through a linear layer (Glorot and Bengio, 2010).
  Tensor xavier_uniform(const Dims& dims, std::int64_t fan_in, std::int64_t fan_out) {
    return uniform(dims, std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
  }
  // A vector or array of one value.
  Tensor constant(const Dims& dims, float value) {
    return draw(dims, [value](HostRandom&) { return value; });
  }

 private:
  template <typename F>
  Tensor draw(const Dims& dims, F next) {
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) count *= dim;
    HostRandom random(seed_, stream_++);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = next(random);
    return Tensor::from_host(values, dims);
  }

  std::uint64_t seed_;
  std::uint64_t stream_ = 0;
};

}  // namespace plimsoll::nn
