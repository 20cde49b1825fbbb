// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::testing {

// A message of protocol buffers, field by field.
class MessageWriter {
 public:
  MessageWriter& number(std::uint64_t id, std::uint64_t value) {
    varint(id << 3U);
    varint(value);
    return *this;
  }
  MessageWriter& text(std::uint64_t id, std::string_view value) {
    varint(id << 3U | 2U);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  MessageWriter& message(std::uint64_t id, const MessageWriter& inner) {
    return text(id, inner.bytes_);
  }
  MessageWriter& four_bytes(std::uint64_t id, std::string_view value) {
    varint(id << 3U | 5U);
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace plimsoll::testing
