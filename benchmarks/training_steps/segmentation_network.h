// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll::benchmarks {

// 3x3 convolutions, each with batch normalization and ReLU.
class ConvolutionStack : public nn::Layer {
 public:
  ConvolutionStack(std::int64_t inputs, std::int64_t outputs, std::int64_t depth,
                   nn::Initializer& init) {
    for (std::int64_t i = 0; i < depth; ++i) {
      layers_.push_back(std::make_unique<Normalized>(i == 0 ? inputs : outputs, outputs, init));
      add_child("convolution" + std::to_string(i + 1), layers_.back()->convolution);
      add_child("normalization" + std::to_string(i + 1), layers_.back()->normalization);
    }
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (const auto& layer : layers_) y = relu(layer->normalization(layer->convolution(y)));
    return y;
  }

 private:
  struct Normalized {
    Normalized(std::int64_t inputs, std::int64_t outputs, nn::Initializer& init)
        : convolution(inputs, outputs, 3, init, {.padding = 1, .bias = false}),
          normalization(outputs, init) {}
    nn::Conv2d convolution;
    nn::BatchNorm2d normalization;
  };
  std::vector<std::unique_ptr<Normalized>> layers_;
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
  std::int64_t depth = 3;                              // convolutions per level and direction
  std::vector<std::int64_t> widths = {8, 16, 32, 64};  // per level; each halves the image
};

// A U-Net (Ronneberger et al., arXiv:1505.04597): down, and up again beside the kept activations of
// each level. NHWC images to logits per pixel.
class SegmentationNetwork : public nn::Layer {
 public:
  SegmentationNetwork(const SegmentationNetworkOptions& options, nn::Initializer& init)
      : head_(options.widths.at(0), options.classes, 1, init) {
    std::int64_t inputs = options.inputs;
    for (const std::int64_t width : options.widths) {
      down_.push_back(std::make_unique<ConvolutionStack>(inputs, width, options.depth, init));
      add_child("down" + std::to_string(down_.size()), *down_.back());
      inputs = width;
    }
    for (std::size_t level = options.widths.size() - 1; level-- > 0;) {
      const std::int64_t width = options.widths[level];
      up_.push_back(std::make_unique<ConvolutionStack>(inputs + width, width, options.depth, init));
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
  std::vector<std::unique_ptr<ConvolutionStack>> down_;
  std::vector<std::unique_ptr<ConvolutionStack>> up_;
  nn::Conv2d head_;
};

}  // namespace plimsoll::benchmarks
