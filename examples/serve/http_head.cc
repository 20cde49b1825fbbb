// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/http_head.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "examples/serve/http_error.h"

namespace plimsoll::examples::serve {
namespace {

constexpr std::string_view kBlanks = " \t";

HttpError no_http() { return bad_request("this is no HTTP request as this server knows it"); }

char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// RFC 9110, 5.6.2.
bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    const char lower = to_lower(c);
    return (lower >= 'a' && lower <= 'z') || is_digit(c) || kMarks.find(c) != kMarks.npos;
  });
}

std::string_view strip(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool equal_words(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return to_lower(x) == to_lower(y); });
}

// Calls `take` with each element of a list until it returns true, and says whether it did.
template <typename Take>
bool any_of_list(std::string_view list, Take&& take) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (take(strip(list.substr(0, end)))) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

// The next line, which ends with CR and LF; a LF alone ends none.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find("\r\n");
  if (end == text.npos) throw no_http();
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 2);
  const bool is_text = std::all_of(line.begin(), line.end(), [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= ' ' && c != 127);
  });
  if (!is_text) throw no_http();
  return line;
}

std::string decode_path(std::string_view target) {
  // A proxy's form of it: scheme and host first.
  constexpr std::string_view kScheme = "http://";
  if (equal_words(target.substr(0, kScheme.size()), kScheme)) {
    target.remove_prefix(std::min(target.find('/', kScheme.size()), target.size()));
    if (target.empty()) return "/";
  }
  if (target.empty() || target.front() != '/') throw no_http();
  target = target.substr(0, target.find_first_of("?#"));
  std::string path;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    const auto code =
        target.size() - i > 2 ? parse_natural(target.substr(i + 1, 2), 16) : std::nullopt;
    if (!code) throw bad_request("the path has '%' without two digits behind it");
    path += static_cast<char>(*code);
    i += 2;
  }
  return path;
}

void parse_request_line(std::string_view line, HttpHead& head) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == line.npos || first == last) throw no_http();
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(method) || target.find_first_of(kBlanks) != target.npos) throw no_http();
  if (version != "HTTP/1.1" && version != "HTTP/1.0") throw no_http();
  head.method = method;
  head.minor = version.back() - '0';
  head.path = decode_path(target);
}

}  // namespace

std::optional<std::size_t> parse_natural(std::string_view text, int base) {
  std::size_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

const std::string* HttpHead::find(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const Header& header) { return header.name == name; });
  return found == headers.end() ? nullptr : &found->value;
}

std::size_t HttpHead::count(std::string_view name) const {
  return static_cast<std::size_t>(std::count_if(
      headers.begin(), headers.end(), [&](const Header& header) { return header.name == name; }));
}

bool HttpHead::lists(std::string_view name, std::string_view word) const {
  return std::any_of(headers.begin(), headers.end(), [&](const Header& header) {
    return header.name == name &&
           any_of_list(header.value, [&](std::string_view one) { return equal_words(one, word); });
  });
}

bool HttpHead::keeps_alive() const {
  if (lists("connection", "close")) return false;
  return minor == 1 || lists("connection", "keep-alive");
}

bool HttpHead::accepts_gzip() const {
  const std::string* list = find("accept-encoding");
  return list != nullptr && any_of_list(*list, [](std::string_view one) {
           const std::size_t end = std::min(one.find(';'), one.size());
           const std::string_view name = strip(one.substr(0, end));
           std::string quality(one.substr(end));
           std::erase_if(quality, [](char c) { return c == ' ' || c == '\t'; });
           const bool refused = quality.rfind(";q=", 0) == 0 &&
                                quality.find_first_not_of("0.", 3) == std::string::npos;
           return (equal_words(name, "gzip") || name == "*") && !refused;
         });
}

bool HttpHead::has_content() const {
  if (find("transfer-encoding") != nullptr) return true;
  const std::string* length = find("content-length");
  return length != nullptr && (*length != "0" || count("content-length") != 1);
}

HttpHead parse_head(std::string_view text) {
  HttpHead head;
  parse_request_line(next_line(text), head);
  for (std::string_view line = next_line(text); !line.empty(); line = next_line(text)) {
    const std::size_t colon = line.find(':');
    // A name with a blank behind it, and a line that begins with one, are no tokens.
    if (colon == line.npos || !is_token(line.substr(0, colon))) throw no_http();
    HttpHead::Header header{std::string(line.substr(0, colon)),
                            std::string(strip(line.substr(colon + 1)))};
    std::transform(header.name.begin(), header.name.end(), header.name.begin(), to_lower);
    head.headers.push_back(std::move(header));
  }
  return head;
}

HttpContent check_content(const HttpHead& head, std::size_t most_bytes) {
  HttpContent content;
  const std::string* length = head.find("content-length");
  if (const std::string* transfer = head.find("transfer-encoding"); transfer != nullptr) {
    // Both, or a length twice: this server and a proxy before it could disagree on where it ends.
    if (length != nullptr) throw bad_request("both Content-Length and Transfer-Encoding");
    if (!equal_words(*transfer, "chunked") || head.count("transfer-encoding") != 1) {
      throw HttpError(501, "Transfer-Encoding " + in_quotes(*transfer) + " is not known here");
    }
    content.chunked = true;
  }
  if (length != nullptr) {
    const auto number = parse_natural(*length);
    if (!number || head.count("content-length") != 1) {
      throw bad_request("Content-Length is no natural number");
    }
    content.length = *number;
    if (*number > most_bytes) {
      throw HttpError(
          413, "a body of " + *length + " bytes (at most " + std::to_string(most_bytes) + ")");
    }
  }
  if (const std::string* encoding = head.find("content-encoding"); encoding != nullptr) {
    constexpr std::string_view kEncodings[] = {"", "identity", "gzip", "deflate", "br"};
    if (std::find(std::begin(kEncodings), std::end(kEncodings), *encoding) ==
            std::end(kEncodings) ||
        head.count("content-encoding") != 1) {
      throw HttpError(415, "Content-Encoding " + in_quotes(*encoding) +
                               " is not known here (gzip, deflate and br are)");
    }
    if (*encoding != "identity") content.encoding = *encoding;
  }
  constexpr std::string_view kForm = "multipart/form-data";
  const std::string* type = head.find("content-type");
  if (type != nullptr && equal_words(std::string_view(*type).substr(0, kForm.size()), kForm)) {
    throw HttpError(415, "forms are not known here (application/json and octet-stream are)");
  }
  return content;
}

}  // namespace plimsoll::examples::serve
