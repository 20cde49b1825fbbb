// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "examples/serve/body_reader.h"
#include "examples/serve/http_error.h"
#include "examples/serve/http_head.h"

namespace {

using namespace plimsoll::examples::serve;

constexpr std::size_t kMostBody = 4096;

struct Read {
  int error = 0;          // a status; 0: none
  bool complete = false;  // the body has come to its end
  std::size_t taken = 0;  // bytes of it
  std::string body;
  bool operator==(const Read&) const = default;
};

Read read_body(const HttpContent& content, std::string_view input, std::size_t piece) {
  HostBudget host(std::size_t{4} * kMostBody);
  Read read;
  {
    HostBudget::Lease lease(host);
    BodyReader reader(content, kMostBody, lease);
    try {
      while (!reader.is_complete() && read.taken < input.size()) {
        const std::string_view part = input.substr(read.taken, piece);
        const std::size_t taken = reader.take(part);
        if (taken > part.size() || (taken < part.size() && !reader.is_complete())) std::abort();
        read.taken += taken;
      }
      read.complete = reader.is_complete();
      read.body = reader.take_body();
      if (read.body.size() > kMostBody ||
          lease.bytes() < (read.body.size() > 15 ? read.body.size() : 0)) {
        std::abort();
      }
    } catch (const HttpError& error) {
      read.error = error.status();
      read.taken = 0;  // where it was found out depends on the pieces
    }
  }
  if (host.used() != 0) std::abort();
  return read;
}

}  // namespace

// A request as it comes over a connection. The first byte says in what pieces the body comes, which
// must make no difference.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t piece = std::max<std::size_t>(data[0], 1);
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::size_t end = text.find("\r\n\r\n");
  if (end == text.npos) return 0;
  try {
    const HttpHead head = parse_head(text.substr(0, end + 4));
    if (head.path.empty() || head.method.empty()) std::abort();
    [[maybe_unused]] static volatile bool sink;
    sink = head.keeps_alive() != head.accepts_gzip();
    const HttpContent content = check_content(head, kMostBody);
    if (content.length > kMostBody || (content.chunked && content.length != 0)) std::abort();
    const std::string_view rest = text.substr(end + 4);
    if (!(read_body(content, rest, piece) == read_body(content, rest, rest.size() + 1))) {
      std::abort();
    }
  } catch (const HttpError& error) {
    if (error.status() < 400 || error.status() > 501 || *error.what() == '\0') std::abort();
  }
  return 0;
}
