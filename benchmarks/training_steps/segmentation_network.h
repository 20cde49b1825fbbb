// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll::benchmarks {

// Two 3x3 convolutions, each with batch normalization and ReLU.
class ConvolutionPair : public nn::Layer {
 public:
  ConvolutionPair(std::int64_t inputs, std::int64_t outputs, nn::Initializer& init)
      : first_(inputs, outputs, 3, init, {.padding = 1, .bias = false}),
        first_norm_(outputs, init),
        second_(outputs, outputs, 3, init, {.padding = 1, .bias = false}),
        second_norm_(outputs, init) {
    add_child("first", first_);
    add_child("first_norm", first_norm_);
    add_child("second", second_);
    add_child("second_norm", second_norm_);
  }
  Tensor forward(const Tensor& x) override {
    return relu(second_norm_(second_(relu(first_norm_(first_(x))))));
  }

 private:
  nn::Conv2d first_;
  nn::BatchNorm2d first_norm_;
  nn::Conv2d second_;
  nn::BatchNorm2d second_norm_;
};

// Every pixel twice in both directions; NHWC.
inline Tensor upsample(const Tensor& x) {
  const std::int64_t batch = x.dim(0), height = x.dim(1), width = x.dim(2), channels = x.dim(3);
  const Tensor pixels = reshape(x, {batch, height, 1, width, 1, channels});
  return reshape(broadcast_to(pixels, {batch, height, 2, width, 2, channels}),
                 {batch, 2 * height, 2 * width, channels});
}

struct SegmentationNetworkOptions {
  std::int64_t inputs = 3;
  std::int64_t classes = 4;
  std::vector<std::int64_t> widths = {16, 32, 64, 128};  // per level; each halves the image
};

// A U-Net (Ronneberger et al., arXiv:1505.04597): down, and up again beside the kept activations of
// each level. NHWC images to logits per pixel.
class SegmentationNetwork : public nn::Layer {
 public:
  SegmentationNetwork(const SegmentationNetworkOptions& options, nn::Initializer& init)
      : head_(options.widths.at(0), options.classes, 1, init) {
    std::int64_t inputs = options.inputs;
    for (const std::int64_t width : options.widths) {
      down_.push_back(std::make_unique<ConvolutionPair>(inputs, width, init));
      add_child("down" + std::to_string(down_.size()), *down_.back());
      inputs = width;
    }
    for (std::size_t level = options.widths.size() - 1; level-- > 0;) {
      const std::int64_t width = options.widths[level];
      up_.push_back(std::make_unique<ConvolutionPair>(inputs + width, width, init));
      add_child("up" + std::to_string(up_.size()), *up_.back());
      inputs = width;
    }
    add_child("head", head_);
  }

  Tensor forward(const Tensor& images) override {
    std::vector<Tensor> beside;
    Tensor x = images;
    for (std::size_t level = 0; level < down_.size(); ++level) {
      if (level > 0) x = max_pool2d(x, {.size = 2, .stride = 2});
      x = (*down_[level])(x);
      beside.push_back(x);
    }
    for (std::size_t i = 0; i < up_.size(); ++i) {
      x = (*up_[i])(concatenate({upsample(x), beside[up_.size() - 1 - i]}, -1));
    }
    return head_(x);
  }

 private:
  std::vector<std::unique_ptr<ConvolutionPair>> down_;
  std::vector<std::unique_ptr<ConvolutionPair>> up_;
  nn::Conv2d head_;
};

}  // namespace plimsoll::benchmarks
