// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll::examples {

enum class Normalization {
  batch,    // each channel, by the statistics of the batch
  channel,  // each position of each image, over its channels: no image has to do with another
};

// A 3x3 (or 1x1) convolution without bias, followed by normalization.
class NormalizedConvolution : public nn::Layer {
 public:
  NormalizedConvolution(std::int64_t inputs, std::int64_t outputs, std::int64_t size,
                        std::int64_t stride, Normalization normalization, nn::Initializer& init)
      : convolution_(inputs, outputs, size, init,
                     {.stride = stride, .padding = size / 2, .bias = false}) {
    if (normalization == Normalization::batch) {
      normalization_ = std::make_unique<nn::BatchNorm2d>(outputs, init);
    } else {
      normalization_ = std::make_unique<nn::LayerNorm>(outputs, init);
    }
    add_child("convolution", convolution_);
    add_child("normalization", *normalization_);
  }
  Tensor forward(const Tensor& x) override { return (*normalization_)(convolution_(x)); }

 private:
  nn::Conv2d convolution_;
  std::unique_ptr<nn::Layer> normalization_;
};

// The basic block of He et al., arXiv:1512.03385: two 3x3 convolutions beside a short cut, which is
// a 1x1 convolution where the shape changes.
class ResidualBlock : public nn::Layer {
 public:
  ResidualBlock(std::int64_t inputs, std::int64_t outputs, std::int64_t stride,
                Normalization normalization, nn::Initializer& init)
      : first_(inputs, outputs, 3, stride, normalization, init),
        second_(outputs, outputs, 3, 1, normalization, init) {
    add_child("first", first_);
    add_child("second", second_);
    if (stride != 1 || inputs != outputs) {
      short_cut_.emplace(inputs, outputs, 1, stride, normalization, init);
      add_child("short_cut", *short_cut_);
    }
  }
  Tensor forward(const Tensor& x) override {
    const Tensor beside = short_cut_ ? (*short_cut_)(x) : x;
    return relu(second_(relu(first_(x))) + beside);
  }

 private:
  NormalizedConvolution first_;
  NormalizedConvolution second_;
  std::optional<NormalizedConvolution> short_cut_;
};

struct ResidualNetworkOptions {
  std::int64_t stem_stride = 1;
  // Per stage; each stage after the first halves height and width.
  std::vector<std::int64_t> widths = {16, 32, 64};
  std::int64_t blocks_per_stage = 2;
  std::int64_t classes = 10;
  Normalization normalization = Normalization::batch;
};

// Grey NHWC images to class logits.
class ResidualNetwork : public nn::Layer {
 public:
  ResidualNetwork(const ResidualNetworkOptions& options, nn::Initializer& init)
      : stem_(1, options.widths.at(0), 3, options.stem_stride, options.normalization, init),
        head_(options.widths.back(), options.classes, init) {
    add_child("stem", stem_);
    std::int64_t inputs = options.widths[0];
    for (std::size_t stage = 0; stage < options.widths.size(); ++stage) {
      for (std::int64_t block = 0; block < options.blocks_per_stage; ++block) {
        const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
        blocks_.push_back(std::make_unique<ResidualBlock>(inputs, options.widths[stage], stride,
                                                          options.normalization, init));
        add_child("block" + std::to_string(blocks_.size()), *blocks_.back());
        inputs = options.widths[stage];
      }
    }
    add_child("head", head_);
  }
  Tensor forward(const Tensor& images) override {
    Tensor x = relu(stem_(images));
    for (const auto& block : blocks_) x = block->forward(x);
    return head_(mean(x, {1, 2}));
  }

 private:
  NormalizedConvolution stem_;
  std::vector<std::unique_ptr<ResidualBlock>> blocks_;
  nn::Linear head_;
};

}  // namespace plimsoll::examples
