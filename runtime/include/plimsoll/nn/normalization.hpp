// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/nn/initializer.hpp"
#include "plimsoll/nn/module.hpp"

namespace plimsoll::nn {

// Normalizes each channel of an NHWC tensor (Ioffe and Szegedy, arXiv:1502.03167). In training mode
// by the batch's statistics, which also update the running ones in the same trace; else by the
// running ones.
class BatchNorm2d : public Layer {
 public:
  BatchNorm2d(std::int64_t channels, Initializer& init, double epsilon = 1e-5,
              double momentum = 0.1)
      : epsilon_(epsilon), momentum_(momentum) {
    internal::check_size("BatchNorm2d", "channels", channels);
    weight_ = add_parameter("weight", init.constant({channels}, 1));
    bias_ = add_parameter("bias", init.constant({channels}, 0));
    running_mean_ = add_buffer("running_mean", init.constant({channels}, 0));
    running_variance_ = add_buffer("running_variance", init.constant({channels}, 1));
  }

  Tensor forward(const Tensor& x) override {
    if (!is_training()) return apply(x, running_mean_, running_variance_);
    const Dims axes = {0, 1, 2};
    const Tensor batch_mean = mean(x, axes);
    const Tensor batch_variance = mean(square(x - batch_mean), axes);
    const double count = plimsoll::internal::element_count(x, axes);
    update(running_mean_, batch_mean, 1.0);
    update(running_variance_, batch_variance, count > 1 ? count / (count - 1) : 1.0);
    return apply(x, batch_mean, batch_variance);
  }

  const Tensor& running_mean() const { return running_mean_; }
  const Tensor& running_variance() const { return running_variance_; }

 private:
  // One multiplication and one addition per element; the rest is per channel.
  Tensor apply(const Tensor& x, const Tensor& center, const Tensor& spread) const {
    const Tensor scale = weight_ * rsqrt(spread + epsilon_);
    return x * scale + (bias_ - center * scale);
  }
  void update(Tensor& running, const Tensor& batch, double correction) const {
    running.assign(running * (1.0 - momentum_) + stop_gradient(batch) * (momentum_ * correction));
  }

  double epsilon_;
  double momentum_;
  Tensor weight_;
  Tensor bias_;
  Tensor running_mean_;
  Tensor running_variance_;
};

// Normalizes the last dim (Ba et al., arXiv:1607.06450).
class LayerNorm : public Layer {
 public:
  LayerNorm(std::int64_t width, Initializer& init, double epsilon = 1e-5) : epsilon_(epsilon) {
    internal::check_size("LayerNorm", "width", width);
    weight_ = add_parameter("weight", init.constant({width}, 1));
    bias_ = add_parameter("bias", init.constant({width}, 0));
  }

  Tensor forward(const Tensor& x) override {
    const Tensor centered = x - mean(x, {-1}, true);
    const Tensor spread = mean(square(centered), {-1}, true);
    return centered * rsqrt(spread + epsilon_) * weight_ + bias_;
  }

 private:
  double epsilon_;
  Tensor weight_;
  Tensor bias_;
};

}  // namespace plimsoll::nn
