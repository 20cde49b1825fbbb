// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <httplib.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "examples/serve/host_budget.h"
#include "examples/serve/http_server.h"
#include "examples/serve/statistics.h"

namespace plimsoll::examples::serve {

// A client's socket, with limits on what is read before it has been checked: bytes and time of the
// headers, time of the body and of the response. Keeps what came early for the next request. For
// one thread; closes nothing.
class Connection final : public httplib::Stream {
 public:
  Connection(int socket, const HttpOptions& options) : socket_(socket), options_(options) {}

  // True once a byte of a request is there, false where none came for `milliseconds` or the client
  // has closed.
  bool wait(std::int64_t milliseconds);
  bool is_closed() const { return is_closed_; }

  // The parts of a request, in their order.
  void begin_headers();
  void begin_body();
  void begin_reply();

  // Whether the headers were more than the limit.
  bool has_too_many_headers() const { return header_left_ == 0; }

  // What is known of the request under way.
  bool accepts_gzip = false;
  bool has_unread_body = false;  // bytes of it may be left: no other request can follow
  bool has_replied = false;
  HostBudget::Lease lease;  // of its bodies

  // Lets the client read the response before the connection is reset: reads away what it still
  // sends, for two seconds at most.
  void linger();

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* to, std::size_t size) override;
  ssize_t write(const char* from, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  // Whether the socket is ready for `events` before the deadline.
  bool poll_until(short events, Clock::time_point deadline) const;

  const int socket_;
  const HttpOptions& options_;
  Clock::time_point deadline_{};
  bool in_headers_ = false, is_closed_ = false;
  std::size_t header_left_ = 1;
  std::size_t single_bytes_ = 0;  // read one by one since the last longer read
  std::array<char, 16384> buffer_;
  std::size_t first_ = 0, end_ = 0;  // of the buffer's bytes that were not read
};

}  // namespace plimsoll::examples::serve
