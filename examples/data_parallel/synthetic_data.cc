// SPDX-License-Identifier: Apache-2.0
#include "examples/data_parallel/synthetic_data.h"

#include <vector>

#include "plimsoll/random.hpp"

namespace plimsoll::examples {

data::LabeledImages synthetic_images(std::int64_t count, std::uint64_t seed) {
  constexpr std::int64_t kSide = 28;
  data::LabeledImages images;
  images.count = count;
  images.height = images.width = kSide;
  HostRandom random(seed, 0x696d616765u);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::int64_t>(random.next_below(10));
    images.labels.push_back(static_cast<std::uint8_t>(label));
    const std::int64_t period = 4 + label % 5, phase = static_cast<std::int64_t>(random.next_below(
                                                   static_cast<std::uint64_t>(period)));
    for (std::int64_t y = 0; y < kSide; ++y) {
      for (std::int64_t x = 0; x < kSide; ++x) {
        const std::int64_t across = (label < 5 ? x : y) + phase;
        const bool is_bright = across % period < period / 2;
        const auto noise = static_cast<std::uint8_t>(random.next_below(96));
        images.pixels.push_back(is_bright ? static_cast<std::uint8_t>(150 + noise) : noise);
      }
    }
  }
  return images;
}

std::string synthetic_text(std::size_t bytes, std::uint64_t seed) {
  constexpr std::uint64_t kWords = 64, kFollowers = 4;
  HostRandom random(seed, 0x74657874u);
  std::vector<std::string> words;
  for (std::uint64_t i = 0; i < kWords; ++i) {
    std::string word;
    for (std::uint64_t length = 2 + random.next_below(6); length > 0; --length) {
      word += static_cast<char>('a' + random.next_below(26));
    }
    words.push_back(std::move(word));
  }
  std::string text;
  std::uint64_t last = 0;
  while (text.size() < bytes) {
    last = (last * kFollowers + random.next_below(kFollowers)) % kWords;
    text += words[last];
    text += random.next_below(10) == 0 ? ".\n" : " ";
  }
  text.resize(bytes);
  return text;
}

}  // namespace plimsoll::examples
