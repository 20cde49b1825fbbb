// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/text/cursor.h"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>

namespace plimsoll::ir {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool is_word_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
         c == '-';
}

void Cursor::skip_blanks() {
  while (position_ < text_.size()) {
    if (is_blank(text_[position_])) {
      ++position_;
    } else if (text_.substr(position_, 2) == "//") {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (text_.substr(position_, 2) == "/*") {
      const std::size_t end = text_.find("*/", position_ + 2);
      if (end == std::string_view::npos) return;  // an error: it may be one that was cut off
      position_ = end + 2;
    } else {
      return;
    }
  }
}

std::size_t Cursor::position() {
  skip_blanks();
  return position_;
}

bool Cursor::at_end() { return position() == text_.size(); }

char Cursor::peek() {
  skip_blanks();
  return peek_raw();
}

bool Cursor::take(char c) {
  if (at_end() || text_[position_] != c) return false;
  ++position_;
  return true;
}

bool Cursor::take(std::string_view punctuation) {
  skip_blanks();
  if (text_.substr(position_, punctuation.size()) != punctuation) return false;
  position_ += punctuation.size();
  return true;
}

std::string_view Cursor::peek_word() {
  skip_blanks();
  std::size_t end = position_;
  while (end < text_.size() && is_word_character(text_[end]) && text_.substr(end, 2) != "->") ++end;
  return text_.substr(position_, end - position_);
}

std::string_view Cursor::take_word() {
  const std::string_view word = peek_word();
  position_ += word.size();
  return word;
}

std::string_view Cursor::take_number() {
  skip_blanks();
  std::size_t end = position_;
  while (end < text_.size() && (is_word_character(text_[end]) || text_[end] == '+')) ++end;
  const std::string_view number = text_.substr(position_, end - position_);
  position_ = end;
  return number;
}

bool Cursor::take_keyword(std::string_view keyword) {
  if (peek_word() != keyword) return false;
  position_ += keyword.size();
  return true;
}

Status Cursor::expect(char c, std::string_view what) {
  if (take(c)) return ok_status();
  return expected(std::string("'") + c + "' " + std::string(what));
}

Result<std::string_view> Cursor::name(std::string_view what) {
  take('%');
  const std::string_view word = peek_word();
  if (word.empty()) return expected(what);
  position_ += word.size();
  return word;
}

Result<std::int64_t> Cursor::integer(std::string_view what, std::int64_t least, std::int64_t most) {
  skip_blanks();
  std::int64_t value = 0;
  const char* const begin = text_.data() + position_;
  const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (code == std::errc::invalid_argument) return expected(what);
  if (code != std::errc() || value < least || value > most) {
    return error_at(position_, fmt::format("{} is out of range: {:.40} (from {} to {})", what,
                                           std::string_view(begin, end), least, most));
  }
  position_ += static_cast<std::size_t>(end - begin);
  return value;
}

Result<bool> Cursor::boolean(std::string_view what) {
  const std::string_view word = peek_word();
  if (word != "true" && word != "false" && word != "0" && word != "1") {
    return expected(std::string(what) + " (true or false)");
  }
  position_ += word.size();
  return word == "true" || word == "1";
}

Result<std::string> Cursor::quoted(std::string_view what) {
  const std::size_t start = position();
  if (!take('"')) return expected(std::string(what) + " in double quotes");
  std::string value;
  while (position_ < text_.size() && text_[position_] != '"') {
    char c = text_[position_++];
    if (c != '\\' || position_ == text_.size()) {
      value += c;
      continue;
    }
    c = text_[position_++];
    if (c >= '0' && c <= '7') {
      int code = c - '0';
      for (int i = 0; i < 2 && peek_raw() >= '0' && peek_raw() <= '7'; ++i) {
        code = code * 8 + (text_[position_++] - '0');
      }
      value += static_cast<char>(code);
    } else if (c == 'x' && hex_digit(peek_raw()) >= 0) {
      int code = 0;
      for (int i = 0; i < 2 && hex_digit(peek_raw()) >= 0; ++i) {
        code = code * 16 + hex_digit(text_[position_++]);
      }
      value += static_cast<char>(code);
    } else {
      value += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
  }
  if (position_ == text_.size()) return error_at(start, "this string has no closing '\"'");
  ++position_;
  return value;
}

Result<std::vector<std::int64_t>> Cursor::integer_list(std::string_view what, std::int64_t least,
                                                       std::int64_t most) {
  PLIMSOLL_RETURN_IF_ERROR(expect('{', "before " + std::string(what)));
  std::vector<std::int64_t> values;
  if (take('}')) return values;
  do {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t value, integer(what, least, most));
    values.push_back(value);
  } while (take(','));
  PLIMSOLL_RETURN_IF_ERROR(expect('}', "after " + std::string(what)));
  return values;
}

Result<std::string_view> Cursor::verbatim(std::string_view what) {
  const std::size_t start = position();
  std::string closers;
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '"') {
      ++position_;
      while (position_ < text_.size() && text_[position_] != '"') {
        position_ += text_[position_] == '\\' ? 2u : 1u;
      }
      if (position_ >= text_.size()) {
        position_ = text_.size();
        return error_at(start, std::string(what) + " has a string without a closing '\"'");
      }
    } else if (c == '{' || c == '[' || c == '(') {
      closers += c == '{' ? '}' : c == '[' ? ']' : ')';
    } else if (c == '}' || c == ']' || c == ')') {
      if (closers.empty()) break;
      if (closers.back() != c) {
        return error_at(position_, std::string("expected '") + closers.back() + "' in " +
                                       std::string(what) + ", found '" + c + "'");
      }
      closers.pop_back();
    } else if (closers.empty() && (c == ',' || is_blank(c))) {
      break;
    }
    ++position_;
  }
  if (!closers.empty()) {
    return error_at(start, std::string(what) + " has no closing '" + closers.back() + "'");
  }
  if (position_ == start) return expected(what);
  return text_.substr(start, position_ - start);
}

std::string Cursor::found() const {
  if (position_ >= text_.size()) return "the end of the text";
  if (text_.substr(position_, 2) == "/*") return "a comment without a closing '*/'";
  std::size_t end = position_;
  while (end < text_.size() && is_word_character(text_[end]) && end - position_ < 40) ++end;
  if (end > position_) return "'" + std::string(text_.substr(position_, end - position_)) + "'";
  const auto c = static_cast<unsigned char>(text_[position_]);
  if (c >= 0x20 && c < 0x7f) return std::string("'") + text_[position_] + "'";
  return fmt::format("byte 0x{:02x}", c);
}

Status Cursor::error_at(std::size_t position, std::string_view message) const {
  const std::string_view before = text_.substr(0, position);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return invalid_argument(fmt::format("{}:{}:{}: {}", source_, line, column, message));
}

Status Cursor::expected(std::string_view what) {
  skip_blanks();
  return error_at(position_, "expected " + std::string(what) + ", found " + found());
}

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (c == '\r') {
      result += "\\r";
    } else if (code < 0x20 || code >= 0x7f) {
      result += fmt::format("\\{:03o}", code);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

}  // namespace plimsoll::ir
