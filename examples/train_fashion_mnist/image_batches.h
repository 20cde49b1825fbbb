// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plimsoll/data.hpp"
#include "plimsoll/plimsoll.hpp"

namespace plimsoll::examples {

// Of the training images' pixels.
inline constexpr float kPixelMean = 0.2860f;
inline constexpr float kPixelDeviation = 0.3530f;

// Batches of images as tensors of the current context.
class ImageBatches {
 public:
  explicit ImageBatches(const data::LabeledImages& images)
      : images_(images), batcher_(images, kPixelMean, kPixelDeviation) {}

  // The images (NHWC) and labels of a batch.
  std::pair<Tensor, Tensor> make(std::span<const std::int64_t> indices) {
    pixels_.resize(indices.size() * static_cast<std::size_t>(images_.image_bytes()));
    labels_.resize(indices.size());
    batcher_.write(indices, pixels_, labels_);
    return {Tensor::from_host(pixels_, {std::ssize(indices), images_.height, images_.width, 1}),
            Tensor::from_host(labels_, {std::ssize(indices)})};
  }

 private:
  const data::LabeledImages& images_;
  data::ImageBatcher batcher_;
  std::vector<float> pixels_;
  std::vector<std::int32_t> labels_;
};

}  // namespace plimsoll::examples
