// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace plimsoll::examples::serve {

using std::chrono::milliseconds;

bool Connection::poll_until(short events, Clock::time_point deadline) const {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
    if (left < 0) return false;
    pollfd one{socket_, events, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

bool Connection::wait(std::int64_t wait_milliseconds) {
  if (first_ < end_) return true;
  if (!poll_until(POLLIN, Clock::now() + milliseconds(wait_milliseconds))) return false;
  char byte;
  is_closed_ = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 1;
  return !is_closed_;
}

void Connection::begin_headers() {
  in_headers_ = true;
  header_left_ = options_.most_header_bytes;
  single_bytes_ = 0;
  deadline_ = Clock::now() + milliseconds(options_.header_milliseconds);
  accepts_gzip = has_replied = false;
  has_unread_body = true;  // until the headers say otherwise
}

void Connection::begin_body() {
  in_headers_ = false;
  single_bytes_ = 0;
  deadline_ = Clock::now() + milliseconds(options_.body_milliseconds);
}

void Connection::begin_reply() {
  in_headers_ = false;
  has_replied = true;
  deadline_ = Clock::now() + milliseconds(options_.body_milliseconds);
}

bool Connection::is_readable() const { return first_ < end_ || poll_until(POLLIN, deadline_); }

bool Connection::is_writable() const { return poll_until(POLLOUT, deadline_); }

ssize_t Connection::read(char* to, std::size_t size) {
  // Lines are read byte by byte, and kept until they end: those between chunks of a body are as
  // limited as headers.
  constexpr std::size_t kMostSingle = 64 << 10;
  single_bytes_ = size == 1 ? single_bytes_ + 1 : 0;
  if (!in_headers_ && single_bytes_ > kMostSingle) return -1;
  if (in_headers_) {
    if (header_left_ == 0) return -1;
    size = std::min(size, header_left_);
  }
  while (first_ == end_) {
    if (!poll_until(POLLIN, deadline_)) return -1;
    const ssize_t got = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return got;
    first_ = 0;
    end_ = static_cast<std::size_t>(got);
  }
  const std::size_t taken = std::min(size, end_ - first_);
  std::memcpy(to, buffer_.data() + first_, taken);
  first_ += taken;
  if (in_headers_) header_left_ -= taken;
  return static_cast<ssize_t>(taken);
}

ssize_t Connection::write(const char* from, std::size_t size) {
  if (!poll_until(POLLOUT, deadline_)) return -1;
  const ssize_t sent = ::send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : sent;
}

void Connection::linger() {
  ::shutdown(socket_, SHUT_WR);
  const auto end = Clock::now() + std::chrono::seconds(2);
  while (poll_until(POLLIN, end)) {
    if (::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT) <= 0) return;
  }
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

}  // namespace plimsoll::examples::serve
