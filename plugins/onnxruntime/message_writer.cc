// SPDX-License-Identifier: Apache-2.0
#include "plugins/onnxruntime/message_writer.h"

#include <bit>

namespace plimsoll::ort {
namespace {

constexpr std::uint64_t kVarint = 0, kBytes = 2, kFourBytes = 5;

std::uint64_t varint_size(std::uint64_t value) {
  return (static_cast<std::uint64_t>(std::bit_width(value | 1)) + 6) / 7;
}

}  // namespace

void MessageWriter::varint(std::uint64_t value) {
  while (value >= 0x80) {
    text_.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  text_.push_back(static_cast<char>(value));
}

void MessageWriter::number(std::uint64_t field, std::int64_t value) {
  varint(field << 3 | kVarint);
  varint(static_cast<std::uint64_t>(value));
}

void MessageWriter::real(std::uint64_t field, float value) {
  varint(field << 3 | kFourBytes);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) text_.push_back(static_cast<char>(bits >> shift));
}

void MessageWriter::bytes(std::uint64_t field, std::string_view value) {
  begin_bytes(field, value.size());
  text_.append(value);
}

void MessageWriter::begin_bytes(std::uint64_t field, std::uint64_t size) {
  varint(field << 3 | kBytes);
  varint(size);
}

std::uint64_t MessageWriter::size_of_bytes(std::uint64_t field, std::uint64_t size) {
  return varint_size(field << 3) + varint_size(size) + size;
}

}  // namespace plimsoll::ort
