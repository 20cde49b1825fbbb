// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/error.hpp"
#include "plimsoll/random.hpp"

namespace plimsoll::data {

// The whole file. Throws not_found when it cannot be opened.
inline std::string read_text(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw Error(ErrorCode::invalid_argument, "cannot open " + path.string() + ": it is a folder");
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw Error(ErrorCode::not_found, "cannot open " + path.string() + ": " + std::strerror(errno));
  }
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

// One token for each byte value that occurs in a text, numbered in byte order.
class ByteVocabulary {
 public:
  explicit ByteVocabulary(std::string_view text) {
    token_of_.fill(-1);
    for (const char c : text) token_of_[static_cast<unsigned char>(c)] = 0;
    for (std::size_t byte = 0; byte < token_of_.size(); ++byte) {
      if (token_of_[byte] < 0) continue;
      token_of_[byte] = static_cast<std::int32_t>(byte_of_.size());
      byte_of_.push_back(static_cast<char>(byte));
    }
  }

  std::int64_t size() const { return std::ssize(byte_of_); }

  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    for (const char c : text) {
      const std::int32_t token = token_of_[static_cast<unsigned char>(c)];
      if (token < 0) {
        throw Error(ErrorCode::invalid_argument, "[ByteVocabulary::encode] byte " +
                                                     std::to_string(static_cast<unsigned char>(c)) +
                                                     " is not in it");
      }
      tokens.push_back(token);
    }
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> tokens) const {
    std::string text;
    for (const std::int32_t token : tokens) text += byte_of_.at(static_cast<std::size_t>(token));
    return text;
  }

 private:
  std::array<std::int32_t, 256> token_of_{};
  std::string byte_of_;
};

// Draws windows of `length` tokens and, shifted by one, the tokens to predict.
class TokenWindows {
 public:
  TokenWindows(std::vector<std::int32_t> tokens, std::int64_t length, std::uint64_t seed)
      : tokens_(std::move(tokens)), length_(length), random_(seed, 0x746f6b656eu) {
    if (length <= 0 || std::ssize(tokens_) <= length) {
      throw Error(ErrorCode::invalid_argument, "[TokenWindows] a text of " +
                                                   std::to_string(tokens_.size()) +
                                                   " tokens is too short for windows of " +
                                                   std::to_string(length) + " and the token after");
    }
  }

  // Fills inputs and targets, each of `batch` x length.
  void next(std::int64_t batch, std::vector<std::int32_t>& inputs,
            std::vector<std::int32_t>& targets) {
    inputs.clear();
    targets.clear();
    for (std::int64_t i = 0; i < batch; ++i) {
      const auto starts = static_cast<std::uint64_t>(std::ssize(tokens_) - length_);
      const auto from = tokens_.begin() + static_cast<std::int64_t>(random_.next_below(starts));
      inputs.insert(inputs.end(), from, from + length_);
      targets.insert(targets.end(), from + 1, from + length_ + 1);
    }
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::int64_t length_;
  HostRandom random_;
};

}  // namespace plimsoll::data
