// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/optim/optimizer.hpp"

namespace plimsoll::optim {

struct SgdOptions {
  double learning_rate = 0.1;
  double momentum = 0;
  double weight_decay = 0;  // added to the gradient, times the parameter
  bool nesterov = false;
};

// v = momentum v + g;  p -= rate v   (Nesterov: p -= rate (g + momentum v))
class Sgd : public Optimizer {
 public:
  explicit Sgd(std::vector<Tensor> parameters, const SgdOptions& options = {})
      : Optimizer(std::move(parameters), options.learning_rate), options_(options) {
    if (options.momentum != 0) velocity_ = make_state();
  }

  std::vector<Tensor> state() const override { return velocity_; }

 protected:
  void update() override {
    const Tensor rate = Tensor::scalar_input(learning_rate());
    for (std::size_t i = 0; i < parameters().size(); ++i) {
      Tensor& parameter = mutable_parameters()[i];
      Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      if (options_.weight_decay != 0) gradient = gradient + parameter * options_.weight_decay;
      Tensor direction = gradient;
      if (options_.momentum != 0) {
        const Tensor velocity = velocity_[i] * options_.momentum + gradient;
        velocity_[i].assign(velocity);
        direction = options_.nesterov ? gradient + velocity * options_.momentum : velocity;
      }
      parameter.assign(parameter - direction * convert(rate, parameter.dtype()));
    }
  }

 private:
  SgdOptions options_;
  std::vector<Tensor> velocity_;
};

}  // namespace plimsoll::optim
