// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace plimsoll::jit {

// Numbers and strings one behind the other, as kernels lie on disk.
class ArchiveWriter {
 public:
  void number(std::int64_t value) { text_.append(reinterpret_cast<const char*>(&value), 8); }
  void number(double value) { number(std::bit_cast<std::int64_t>(value)); }
  void string(std::string_view value) {
    number(static_cast<std::int64_t>(value.size()));
    text_ += value;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// After the first thing that is not there, `ok` is false and everything is zero or empty.
class ArchiveReader {
 public:
  explicit ArchiveReader(std::string_view text) : text_(text) {}
  std::int64_t number() {
    std::int64_t value = 0;
    const std::string_view bytes = take(8);
    if (ok) std::memcpy(&value, bytes.data(), 8);
    return value;
  }
  std::string_view string() { return take(number()); }
  bool at_end() const { return ok && text_.empty(); }
  bool ok = true;

 private:
  std::string_view take(std::int64_t count) {
    ok = ok && count >= 0 && static_cast<std::uint64_t>(count) <= text_.size();
    if (!ok) return {};
    const std::string_view taken = text_.substr(0, static_cast<std::size_t>(count));
    text_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view text_;
};

}  // namespace plimsoll::jit
