// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/data/idx.hpp"
#include "plimsoll/random.hpp"

namespace plimsoll::data {

// Grey images (count x height x width, one byte a pixel) and a class number for each.
struct LabeledImages {
  std::int64_t count = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;

  std::int64_t image_bytes() const { return height * width; }
  // Keeps the first `limit` images; 0 keeps all.
  void truncate(std::int64_t limit) {
    if (limit <= 0 || limit >= count) return;
    count = limit;
    pixels.resize(static_cast<std::size_t>(count * image_bytes()));
    labels.resize(static_cast<std::size_t>(count));
  }
};

// Reads `<folder>/<prefix>-images-idx3-ubyte[.gz]` and `<prefix>-labels-idx1-ubyte[.gz]`.
// Throws what read_idx throws, and data_loss when the two files don't belong together.
inline LabeledImages read_labeled_images(const std::filesystem::path& folder,
                                         const std::string& prefix) {
  const auto find = [&](const std::string& name) {
    std::error_code ignored;
    const std::filesystem::path plain = folder / name;
    return std::filesystem::exists(plain, ignored) ? plain : folder / (name + ".gz");
  };
  const std::filesystem::path images_path = find(prefix + "-images-idx3-ubyte");
  const std::filesystem::path labels_path = find(prefix + "-labels-idx1-ubyte");
  IdxArray images = read_idx(images_path);
  IdxArray labels = read_idx(labels_path);
  if (images.type != IdxType::u8 || images.dims.size() != 3) {
    throw internal::bad_idx(images_path, "expected bytes in 3 dimensions");
  }
  if (labels.type != IdxType::u8 || labels.dims.size() != 1) {
    throw internal::bad_idx(labels_path, "expected bytes in 1 dimension");
  }
  if (images.dims[0] != labels.dims[0]) {
    throw internal::bad_idx(labels_path, "it has " + std::to_string(labels.dims[0]) +
                                             " labels for " + std::to_string(images.dims[0]) +
                                             " images");
  }
  LabeledImages result;
  result.count = images.dims[0];
  result.height = images.dims[1];
  result.width = images.dims[2];
  result.pixels = std::move(images.bytes);
  result.labels = std::move(labels.bytes);
  return result;
}

// Random changes to training images; what an image becomes depends on (seed, epoch, image) alone.
struct Augmentation {
  bool flip = false;           // left-right, with probability 1/2
  std::int64_t max_shift = 0;  // moved by up to so many pixels each way; the border is zero
};

// Writes the chosen images as floats, (pixel - mean) / deviation with pixels in [0, 1], in NHWC
// with one channel, to `out` (indices.size() x height x width) and their labels to `labels_out`.
class ImageBatcher {
 public:
  ImageBatcher(const LabeledImages& images, float mean, float deviation)
      : images_(images), mean_(mean), deviation_(deviation) {}

  void write(std::span<const std::int64_t> indices, std::span<float> out,
             std::span<std::int32_t> labels_out) const {
    write(indices, out, labels_out, {}, 0, 0);
  }

  void write(std::span<const std::int64_t> indices, std::span<float> out,
             std::span<std::int32_t> labels_out, const Augmentation& augmentation,
             std::uint64_t seed, std::int64_t epoch) const {
    const std::int64_t size = images_.image_bytes();
    if (static_cast<std::int64_t>(out.size()) != size * std::ssize(indices) ||
        labels_out.size() != indices.size()) {
      throw Error(ErrorCode::invalid_argument,
                  "[ImageBatcher::write] the outputs don't have room for exactly " +
                      std::to_string(indices.size()) + " images");
    }
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::int64_t index = indices[i];
      if (index < 0 || index >= images_.count) {
        throw Error(ErrorCode::out_of_range, "[ImageBatcher::write] image " +
                                                 std::to_string(index) + " of " +
                                                 std::to_string(images_.count));
      }
      write_one(index, out.data() + static_cast<std::int64_t>(i) * size, augmentation, seed, epoch);
      labels_out[i] = images_.labels[static_cast<std::size_t>(index)];
    }
  }

 private:
  void write_one(std::int64_t index, float* out, const Augmentation& augmentation,
                 std::uint64_t seed, std::int64_t epoch) const {
    bool flip = false;
    std::int64_t dy = 0;
    std::int64_t dx = 0;
    if (augmentation.flip || augmentation.max_shift > 0) {
      HostRandom random(seed ^ 0x61756774u, static_cast<std::uint64_t>(epoch) << 32 |
                                                static_cast<std::uint64_t>(index));
      const std::int64_t span = 2 * augmentation.max_shift + 1;
      flip = augmentation.flip && (random.next_word() & 1u) != 0;
      dy = static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(span))) -
           augmentation.max_shift;
      dx = static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(span))) -
           augmentation.max_shift;
    }
    const std::uint8_t* pixels = images_.pixels.data() + index * images_.image_bytes();
    for (std::int64_t y = 0; y < images_.height; ++y) {
      for (std::int64_t x = 0; x < images_.width; ++x) {
        const std::int64_t from_y = y + dy;
        const std::int64_t from_x = (flip ? images_.width - 1 - x : x) + dx;
        const bool inside =
            from_y >= 0 && from_y < images_.height && from_x >= 0 && from_x < images_.width;
        const float value =
            inside ? static_cast<float>(pixels[from_y * images_.width + from_x]) / 255.0f : 0.0f;
        *out++ = (value - mean_) / deviation_;
      }
    }
  }

  const LabeledImages& images_;
  float mean_;
  float deviation_;
};

}  // namespace plimsoll::data
