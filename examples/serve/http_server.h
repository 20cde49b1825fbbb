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
  int port = 8000;                            // 0: any
  int connections = 1024;                     // at once
  int workers = 256;                          // infer requests at once; as many more wait, then 503
  std::size_t most_header_bytes = 32 << 10;   // request line and headers together
  std::size_t most_body_bytes = 256 << 20;    // after decompression, and before
  std::int64_t header_milliseconds = 10'000;  // for all of them to arrive
  std::int64_t keep_alive_milliseconds = 30'000;  // that a connection may be idle
  // How long a body, or a response that the client reads, may lag behind this many bytes a second.
  std::int64_t body_milliseconds = 10'000;
  std::int64_t least_bytes_per_second = 16 << 10;
};

// HTTP/1.1 over TCP in front of a service. One thread watches all connections and reads and writes
// what their sockets have room for, so that a slow client holds a socket and no thread; requests
// that are whole go to a pool of threads, and `/v2/health/live` is answered where it is read. When
// there are as many connections as may be, one that can be spared is closed for a new one: without
// a request yet, else slow, else idle; where all move on the new one gets 503.
// Bodies may be compressed (gzip, deflate, br), responses are where the client accepts gzip.
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
  // Accepts no more connections and closes those without a whole head of a request. Any thread; not
  // in a signal handler.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::examples::serve
