// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace plimsoll::ir {

// The largest integer that is read.
inline constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int64_t>::max();

// A place in HLO text. Every reading function first skips blanks and comments (`//`, `/* */`; one
// without its end stays, and is what is found there).
// HLO's tokens depend on where they stand (`3x3`, `b01f_01io`, `all-reduce`), so the grammar reads
// characters and words rather than a stream of tokens. Does not own the text.
class Cursor {
 public:
  Cursor(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  std::string_view text() const { return text_; }
  // Byte offset of the next significant character.
  std::size_t position();
  // Byte offset just behind what was read last.
  std::size_t raw_position() const { return position_; }
  void rewind(std::size_t position) { position_ = position; }
  std::size_t remaining() const { return text_.size() - position_; }

  bool at_end();
  // The next significant character, or 0 at the end.
  char peek();
  // The very next character, blanks included, or 0 at the end.
  char peek_raw() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  bool take(char c);
  bool take(std::string_view punctuation);
  // Letters, digits, `_`, `.` and `-` (but not the `-` of `->`); empty when there are none.
  std::string_view take_word();
  std::string_view peek_word();
  // A number as it stands: sign, digits, letters, `.`; empty when there is none.
  std::string_view take_number();
  // Takes the word when it is exactly `keyword`.
  bool take_keyword(std::string_view keyword);

  Status expect(char c, std::string_view what);
  // A word, optionally behind `%`.
  Result<std::string_view> name(std::string_view what);
  Result<std::int64_t> integer(std::string_view what, std::int64_t least, std::int64_t most);
  // `true`, `false`, `0`, `1`.
  Result<bool> boolean(std::string_view what);
  // A double-quoted string with C escapes, unescaped.
  Result<std::string> quoted(std::string_view what);
  // `{1,2,3}`
  Result<std::vector<std::int64_t>> integer_list(std::string_view what, std::int64_t least,
                                                 std::int64_t most);
  // Text up to a `,`, blank or closing bracket that is outside of all brackets and strings.
  Result<std::string_view> verbatim(std::string_view what);

  // `SOURCE:LINE:COLUMN: message`.
  Status error_at(std::size_t position, std::string_view message) const;
  // At the next significant character: `expected WHAT, found ...`.
  Status expected(std::string_view what);

 private:
  void skip_blanks();
  std::string found() const;

  std::string_view text_;
  std::string source_;
  std::size_t position_ = 0;
};

bool is_word_character(char c);
// The text in double quotes, with C escapes.
std::string quote(std::string_view text);

}  // namespace plimsoll::ir
