// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/vhlo/bytes.h"

#include <bit>

namespace plimsoll::vhlo {

std::uint8_t Cursor::byte() {
  if (at_end()) {
    fail();
    return 0;
  }
  return static_cast<std::uint8_t>(bytes_[at_++]);
}

// Example: 0b...xxx100 is followed by two bytes; the value is all 24 bits without the low three.
std::uint64_t Cursor::varint() {
  const std::uint8_t first = byte();
  if ((first & 1U) != 0) return first >> 1U;
  const int more = first == 0 ? 8 : std::countr_zero(first);
  const std::string_view rest = take(static_cast<std::size_t>(more));
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(rest[i])) << (8 * i);
  }
  if (more == 8) return value;
  return (value << 8U | first) >> (more + 1);
}

std::int64_t Cursor::signed_varint() {
  const std::uint64_t value = varint();
  return static_cast<std::int64_t>(value >> 1U ^ (~(value & 1U) + 1U));
}

std::size_t Cursor::count() {
  const std::uint64_t value = varint();
  if (value > left()) {
    fail();
    return 0;
  }
  return static_cast<std::size_t>(value);
}

std::size_t Cursor::index(std::size_t size) {
  const std::uint64_t value = varint();
  if (value >= size) {
    fail();
    return 0;
  }
  return static_cast<std::size_t>(value);
}

std::string_view Cursor::take(std::size_t size) {
  if (size > left()) {
    fail();
    return {};
  }
  const std::string_view taken = bytes_.substr(at_, size);
  at_ += size;
  return taken;
}

std::string_view Cursor::text() {
  const std::size_t end = bytes_.find('\0', at_);
  if (end == std::string_view::npos) {
    fail();
    return {};
  }
  const std::string_view found = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return found;
}

void Cursor::align(std::size_t alignment) {
  constexpr std::uint8_t kPadding = 0xCB;
  if (alignment == 0 || !std::has_single_bit(alignment)) return fail();
  while (!is_bad_ && at_ % alignment != 0) {
    if (byte() != kPadding) fail();
  }
}

}  // namespace plimsoll::vhlo
