// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/answer.h"

#include <new>
#include <optional>
#include <string>
#include <utility>

#include "examples/serve/content_encoding.h"
#include "examples/serve/http_error.h"
#include "examples/serve/http_head.h"

namespace plimsoll::examples::serve {
namespace {

void compress(Answer& answer) {
  constexpr std::size_t kLeast = 1024;  // less is not worth it
  const std::size_t bytes = answer.reply.body.size();
  if (bytes < kLeast || !answer.lease.grow(most_gzip_bytes(bytes))) return;
  answer.reply.body = gzip(answer.reply.body);
  answer.encoding = "gzip";
}

}  // namespace

Answer answer_request(Service& service, std::uint64_t client, Connection::Request request,
                      Clock::time_point arrived, std::size_t most_body_bytes) {
  Answer answer;
  answer.client = client;
  answer.lease = std::move(request.lease);
  try {
    ServiceRequest asked{request.head.method, request.head.path, std::nullopt, {}, arrived};
    if (const std::string* bytes = request.head.find("inference-header-content-length");
        bytes != nullptr) {
      asked.json_bytes = parse_natural(*bytes);
      if (!asked.json_bytes) {
        throw bad_request("Inference-Header-Content-Length is no natural number");
      }
    }
    asked.body = std::move(request.body);
    if (!request.content.encoding.empty()) {
      const std::size_t encoded = answer.lease.bytes();
      asked.body = decode(asked.body, request.content.encoding, most_body_bytes, answer.lease);
      answer.lease.shrink(encoded);
    }
    answer.reply = service.answer(asked, answer.lease);
    std::string().swap(asked.body);
    answer.lease.shrink_to(answer.reply.body.capacity());
    if (request.head.accepts_gzip()) {
      compress(answer);
      answer.lease.shrink_to(answer.reply.body.capacity());
    }
  } catch (const HttpError& error) {
    answer.reply = error_reply(error.status(), error.what(), error.retry_after());
    answer.lease.shrink_to(0);
  } catch (const std::bad_alloc&) {
    answer.reply = error_reply(503, "no host memory for the request now", 1);
    answer.lease.shrink_to(0);
  }
  return answer;
}

}  // namespace plimsoll::examples::serve
