// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::ort {

// Appends the fields of one message in the wire format of protocol buffers
// (protobuf.dev/programming-guides/encoding).
class MessageWriter {
 public:
  void number(std::uint64_t field, std::int64_t value);
  void real(std::uint64_t field, float value);
  void bytes(std::uint64_t field, std::string_view value);
  void message(std::uint64_t field, const MessageWriter& value) { bytes(field, value.text_); }
  // The start of a field of so many bytes, which are appended next.
  void begin_bytes(std::uint64_t field, std::uint64_t size);
  void append(std::string_view raw) { text_.append(raw); }
  void reserve(std::uint64_t size) { text_.reserve(static_cast<std::size_t>(size)); }

  const std::string& text() const { return text_; }
  std::string take() && { return std::move(text_); }

  // Bytes of a field of so many bytes, with what stands before it.
  static std::uint64_t size_of_bytes(std::uint64_t field, std::uint64_t size);

 private:
  void varint(std::uint64_t value);

  std::string text_;
};

}  // namespace plimsoll::ort
