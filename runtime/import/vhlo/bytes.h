// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plimsoll::vhlo {

// Reads the numbers of MLIR bytecode from a range of bytes, and nothing outside of it: what is
// wrong makes the cursor bad, for good, and everything read from there on zero or empty.
class Cursor {
 public:
  Cursor() = default;
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  bool is_bad() const { return is_bad_; }
  void fail() {
    is_bad_ = true;
    at_ = bytes_.size();
  }
  bool at_end() const { return at_ >= bytes_.size(); }
  std::size_t left() const { return bytes_.size() - at_; }

  std::uint8_t byte();
  // The low zero bits of the first byte tell how many bytes follow it.
  std::uint64_t varint();
  // Zigzag: the lowest bit is the sign.
  std::int64_t signed_varint();
  // A number of things of which each takes a byte or more: bad when there can't be so many.
  std::size_t count();
  // An index below `size`.
  std::size_t index(std::size_t size);
  std::string_view take(std::size_t size);
  // Up to a zero byte, which is passed over.
  std::string_view text();
  // Passes over padding up to a multiple of `alignment` from the start of the range.
  void align(std::size_t alignment);

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
  bool is_bad_ = false;
};

}  // namespace plimsoll::vhlo
