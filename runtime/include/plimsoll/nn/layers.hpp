// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/nn/module.hpp"

// Layers without weights.
namespace plimsoll::nn {

// In training mode sets each element to zero with probability `rate` and scales the others by
// 1 / (1 - rate). The mask comes from the context's counter-based states: it is pure in the trace,
// so the planner may recompute it rather than keep it.
class Dropout : public Layer {
 public:
  explicit Dropout(double rate) : rate_(rate) {
    if (!(rate >= 0 && rate < 1)) {
      throw Error(ErrorCode::invalid_argument,
                  "[Dropout] rate " + std::to_string(rate) + " is not in [0, 1)");
    }
  }

  Tensor forward(const Tensor& x) override {
    if (!is_training() || rate_ == 0) return x;
    const Tensor bits = random_bits(Dims(x.dims().begin(), x.dims().end()));
    const Tensor kept = bits >= std::floor(rate_ * 0x1p32);
    return where(kept, x * (1.0 / (1.0 - rate_)), 0.0);
  }

 private:
  double rate_;
};

class MaxPool2d : public Layer {
 public:
  explicit MaxPool2d(const Pool2dOptions& options = {}) : options_(options) {}
  Tensor forward(const Tensor& x) override { return max_pool2d(x, options_); }

 private:
  Pool2dOptions options_;
};

class AvgPool2d : public Layer {
 public:
  explicit AvgPool2d(const Pool2dOptions& options = {}) : options_(options) {}
  Tensor forward(const Tensor& x) override { return avg_pool2d(x, options_); }

 private:
  Pool2dOptions options_;
};

// Any function of one tensor, e.g. Function(relu).
class Function : public Layer {
 public:
  explicit Function(std::function<Tensor(const Tensor&)> function)
      : function_(std::move(function)) {}
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};

// Layers one after the other; their names are their numbers.
class Sequential : public Layer {
 public:
  Sequential() = default;

  template <typename L, typename... Arguments>
  L& add(Arguments&&... arguments) {
    auto layer = std::make_unique<L>(std::forward<Arguments>(arguments)...);
    L& result = *layer;
    add_child(std::to_string(layers_.size()), result);
    layers_.push_back(std::move(layer));
    return result;
  }

  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (const auto& layer : layers_) y = layer->forward(y);
    return y;
  }

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace plimsoll::nn
