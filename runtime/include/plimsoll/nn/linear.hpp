// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/nn/initializer.hpp"
#include "plimsoll/nn/module.hpp"

namespace plimsoll::nn {

// x · weight + bias over the last dim; weight is [inputs, outputs].
class Linear : public Layer {
 public:
  Linear(std::int64_t inputs, std::int64_t outputs, Initializer& init, bool bias = true) {
    internal::check_size("Linear", "inputs", inputs);
    internal::check_size("Linear", "outputs", outputs);
    weight_ = add_parameter("weight", init.xavier_uniform({inputs, outputs}, inputs, outputs));
    if (bias) bias_ = add_parameter("bias", init.constant({outputs}, 0));
  }

  Tensor forward(const Tensor& x) override {
    const Tensor product = matmul(x, weight_);
    return bias_.defined() ? product + bias_ : product;
  }

 private:
  Tensor weight_;
  Tensor bias_;
};

}  // namespace plimsoll::nn
