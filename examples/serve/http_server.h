// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "examples/serve/service.h"

namespace plimsoll::examples::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;                                // 0: any
  int connections = 256;                          // served at once; at most 900
  std::size_t most_header_bytes = 32 << 10;       // request line and headers together
  std::size_t most_body_bytes = 256 << 20;        // after decompression
  std::int64_t header_milliseconds = 10'000;      // for all of them to arrive
  std::int64_t body_milliseconds = 60'000;        // for a body to arrive, and a response to leave
  std::int64_t keep_alive_milliseconds = 30'000;  // that a connection may be idle
};

// HTTP/1.1 over TCP in front of a service (cpp-httplib, with streams and limits of our own): every
// connection has a thread of a pool; others wait to be accepted. Bodies may be compressed (gzip,
// deflate, br), responses are where the client accepts gzip.
class HttpServer {
 public:
  HttpServer(Service& service, const HttpOptions& options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Returns the port. Throws std::runtime_error where the address can't be had.
  int bind();
  // Serves until stop() and returns when all requests under way have been answered.
  void serve();
  // Accepts no more connections and closes those that are idle. Any thread; not in a signal
  // handler.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::examples::serve
