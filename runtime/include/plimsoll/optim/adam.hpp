// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "plimsoll/optim/optimizer.hpp"

namespace plimsoll::optim {

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

// Kingma and Ba, arXiv:1412.6980. The decay is added to the gradient, times the parameter.
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& options = {})
      : Adam(std::move(parameters), options, false) {}

  std::vector<Tensor> state() const override {
    std::vector<Tensor> all = first_;
    all.insert(all.end(), second_.begin(), second_.end());
    return all;
  }

 protected:
  Adam(std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled)
      : Optimizer(std::move(parameters), options.learning_rate),
        options_(options),
        decoupled_(decoupled),
        first_(make_state()),
        second_(make_state()) {}

  void update() override {
    const double correction1 = 1 - std::pow(options_.beta1, static_cast<double>(step_count()));
    const double correction2 = 1 - std::pow(options_.beta2, static_cast<double>(step_count()));
    const Tensor rate = Tensor::scalar_input(learning_rate() / correction1);
    const Tensor second_scale = Tensor::scalar_input(1 / correction2);
    const bool decays = options_.weight_decay != 0;
    const Tensor keep = decays && decoupled_
                            ? Tensor::scalar_input(1 - learning_rate() * options_.weight_decay)
                            : Tensor();
    for (std::size_t i = 0; i < parameters().size(); ++i) {
      Tensor& parameter = mutable_parameters()[i];
      Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      const DType dtype = parameter.dtype();
      if (decays && !decoupled_) gradient = gradient + parameter * options_.weight_decay;
      const Tensor first = first_[i] * options_.beta1 + gradient * (1 - options_.beta1);
      const Tensor second = second_[i] * options_.beta2 + square(gradient) * (1 - options_.beta2);
      const Tensor deviation = sqrt(second * convert(second_scale, dtype)) + options_.epsilon;
      const Tensor kept = keep.defined() ? parameter * convert(keep, dtype) : parameter;
      parameter.assign(kept - first * convert(rate, dtype) / deviation);
      first_[i].assign(first);
      second_[i].assign(second);
    }
  }

 private:
  AdamOptions options_;
  bool decoupled_;
  std::vector<Tensor> first_;
  std::vector<Tensor> second_;
};

// Loshchilov and Hutter, arXiv:1711.05101: the decay shrinks the parameter directly.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters,
                 const AdamOptions& options = {1e-3, 0.9, 0.999, 1e-8, 1e-2})
      : Adam(std::move(parameters), options, true) {}
};

}  // namespace plimsoll::optim
