// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/nn/initializer.hpp"
#include "plimsoll/nn/module.hpp"

namespace plimsoll::nn {

struct Conv2dLayerOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

// A square convolution of NHWC activations with an HWIO weight.
class Conv2d : public Layer {
 public:
  Conv2d(std::int64_t inputs, std::int64_t outputs, std::int64_t size, Initializer& init,
         const Conv2dLayerOptions& options = {})
      : options_{options.stride, options.padding, options.dilation, options.groups} {
    internal::check_size("Conv2d", "inputs", inputs);
    internal::check_size("Conv2d", "outputs", outputs);
    internal::check_size("Conv2d", "size", size);
    internal::check_size("Conv2d", "stride", options.stride);
    internal::check_size("Conv2d", "dilation", options.dilation);
    internal::check_size("Conv2d", "groups", options.groups);
    if (inputs % options.groups != 0 || outputs % options.groups != 0) {
      throw Error(ErrorCode::invalid_argument,
                  "[Conv2d] " + std::to_string(inputs) + " inputs and " + std::to_string(outputs) +
                      " outputs do not divide into " + std::to_string(options.groups) + " groups");
    }
    const std::int64_t group_inputs = inputs / options.groups;
    weight_ = add_parameter("weight", init.kaiming_uniform({size, size, group_inputs, outputs},
                                                           size * size * group_inputs));
    if (options.bias) bias_ = add_parameter("bias", init.constant({outputs}, 0));
  }

  Tensor forward(const Tensor& x) override {
    const Tensor product = conv2d(x, weight_, options_);
    return bias_.defined() ? product + bias_ : product;
  }

 private:
  Conv2dOptions options_;
  Tensor weight_;
  Tensor bias_;
};

}  // namespace plimsoll::nn
