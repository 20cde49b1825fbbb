// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::examples::serve {

// The first line and the headers of a request, HTTP/1.0 or 1.1 (RFC 9112), read strictly: what two
// readers could take for two different things is refused.
struct HttpHead {
  struct Header {
    std::string name;  // in lower case
    std::string value;
  };
  std::string method;
  std::string path;  // decoded, without a query
  int minor = 1;     // of the version
  std::vector<Header> headers;

  // The first of that name, in lower case; null where there is none.
  const std::string* find(std::string_view name) const;
  std::size_t count(std::string_view name) const;
  // Whether a list of words, with commas between, has the word.
  bool lists(std::string_view name, std::string_view word) const;
  bool keeps_alive() const;
  bool accepts_gzip() const;
  // Whether bytes of a body follow.
  bool has_content() const;
};

// `text` ends with the empty line behind the headers. Throws HttpError 400.
HttpHead parse_head(std::string_view text);

// How a body is sent.
struct HttpContent {
  bool chunked = false;
  std::size_t length = 0;  // without chunks
  std::string encoding;    // "gzip", "deflate", "br"; "": plain
};

// What the headers say of a body that may have `most_bytes`. Throws HttpError where its end is in
// doubt, where it is too long, or is sent in a way that is not known here.
HttpContent check_content(const HttpHead& head, std::size_t most_bytes);

// The digits of a natural number, and nothing else.
std::optional<std::size_t> parse_natural(std::string_view text, int base = 10);

}  // namespace plimsoll::examples::serve
