// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

namespace plimsoll::examples::serve {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kLongestPath = 1024;
constexpr std::size_t kMostBeforeBody = 16 << 10;  // read at once while headers are
constexpr std::int64_t kLingerMilliseconds = 2000;

bool is_passing(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    default:
      return "Error";
  }
}

std::string head_text(const ServiceReply& reply, const char* encoding, bool closes) {
  std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " " + reason_of(reply.status) +
                     "\r\nContent-Type: " + reply.content_type +
                     "\r\nContent-Length: " + std::to_string(reply.body.size()) + "\r\n";
  if (reply.json_bytes != 0) {
    text += "Inference-Header-Content-Length: " + std::to_string(reply.json_bytes) + "\r\n";
  }
  if (reply.retry_after != 0) text += "Retry-After: " + std::to_string(reply.retry_after) + "\r\n";
  if (encoding != nullptr) text += std::string("Content-Encoding: ") + encoding + "\r\n";
  return text + (closes ? "Connection: close\r\n\r\n" : "Connection: keep-alive\r\n\r\n");
}

}  // namespace

Connection::Connection(int socket, const HttpOptions& options, Service& service)
    : socket_(socket), options_(options), service_(service) {
  enter(State::idle, options.header_milliseconds);
}

Connection::~Connection() {
  ::shutdown(socket_, SHUT_RDWR);
  ::close(socket_);
}

void Connection::enter(State state, std::int64_t wait) {
  state_ = state;
  const auto now = Clock::now();
  if (state == State::idle) since_ = now;
  deadline_ = std::min(now + milliseconds(wait), latest_);
}

void Connection::move_on(std::size_t bytes) {
  const auto earned = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
      static_cast<double>(bytes) / static_cast<double>(options_.least_bytes_per_second)));
  deadline_ = std::min(
      {deadline_ + earned, Clock::now() + milliseconds(options_.body_milliseconds), latest_});
}

void Connection::end_by(Clock::time_point latest) {
  latest_ = latest;
  deadline_ = std::min(deadline_, latest);
}

Connection::Step Connection::read(std::span<char> scratch) {
  const std::size_t size =
      state_ == State::body ? scratch.size() : std::min(scratch.size(), kMostBeforeBody);
  const ssize_t got = ::recv(socket_, scratch.data(), size, MSG_DONTWAIT);
  if (got < 0) return is_passing(errno) ? Step::waits : Step::closed;
  if (got == 0) return end_of_input();
  if (state_ == State::lingering) return Step::waits;
  const std::string_view fresh(scratch.data(), static_cast<std::size_t>(got));
  try {
    if (!input_.empty()) {
      input_.append(fresh);
      return consume_kept();
    }
    std::size_t taken = 0;
    const Step step = consume(fresh, taken);
    if (state_ != State::lingering) input_.assign(fresh.substr(taken));
    return step;
  } catch (const std::bad_alloc&) {
    return Step::closed;
  }
}

Connection::Step Connection::consume_kept() {
  std::string input;
  input.swap(input_);
  std::size_t taken = 0;
  const Step step = consume(input, taken);
  if (state_ == State::lingering || taken == input.size()) return step;
  if (taken == 0) {
    input_.swap(input);
  } else {
    input_.assign(input, taken);
  }
  return step;
}

Connection::Step Connection::consume(std::string_view input, std::size_t& taken) {
  while (taken < input.size()) {
    try {
      if (state_ == State::body) {
        const std::size_t part = reader_->take(input.substr(taken));
        taken += part;
        move_on(part);
        if (!reader_->is_complete()) return Step::waits;
        has_unread_body_ = false;
        enter(State::working, 0);
        return Step::request;
      }
      if (state_ == State::idle) {
        enter(State::head, options_.header_milliseconds);
        request_.head = {};
        searched_ = 0;
      }
      if (state_ != State::head) return Step::waits;
      constexpr std::string_view kEnd = "\r\n\r\n";
      const std::string_view text = input.substr(taken);
      const std::size_t end = text.find(kEnd, searched_);
      const std::size_t bytes = end == text.npos ? text.size() : end + kEnd.size();
      if (bytes > options_.most_header_bytes) throw HttpError(431, "the headers are too long");
      if (end == text.npos) {
        searched_ = text.size() - std::min(text.size(), kEnd.size() - 1);
        return Step::waits;
      }
      taken += bytes;
      has_unread_body_ = true;  // until the headers say otherwise
      request_.head = parse_head(text.substr(0, bytes));
      has_unread_body_ = request_.head.has_content();
      if (const Step step = begin_body(); step != Step::waits || state_ != State::body) return step;
    } catch (const HttpError& error) {
      if (state_ == State::head) has_unread_body_ = true;
      return fail(error);
    } catch (const std::bad_alloc&) {
      return fail(busy("no host memory for the request now"));
    }
  }
  return Step::waits;
}

Connection::Step Connection::begin_body() {
  const HttpHead& head = request_.head;
  if (head.path.size() > kLongestPath) {
    throw HttpError(414, "a path of " + std::to_string(head.path.size()) + " bytes (at most " +
                             std::to_string(kLongestPath) + ")");
  }
  request_.content = {};
  request_.lease = HostBudget::Lease(service_.host());
  reader_.reset();
  if (head.method == "POST") {
    request_.content = check_content(head, options_.most_body_bytes);
    reader_.emplace(request_.content, options_.most_body_bytes, request_.lease);
  }
  // What nobody will read of another request ends the connection behind the response.
  if (!reader_ || reader_->is_complete()) {
    enter(State::working, 0);
    return Step::request;
  }
  if (head.find("expect") != nullptr && head.minor == 1) {
    if (!head.lists("expect", "100-continue"))
      throw HttpError(417, "Expect: 100-continue is known");
    constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
    // All responses before it have left, so there is room for so few bytes.
    const ssize_t sent = ::send(socket_, kGoOn.data(), kGoOn.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != static_cast<ssize_t>(kGoOn.size())) return Step::closed;
  }
  enter(State::body, options_.body_milliseconds);
  return Step::waits;
}

Connection::Step Connection::fail(const HttpError& error) {
  reader_.reset();
  HostBudget::Lease none;
  request_.lease = std::move(none);
  return reply(error_reply(error.status(), error.what(), error.retry_after()), {}, nullptr, false);
}

Connection::Step Connection::end_of_input() {
  if (state_ != State::head && state_ != State::body) return Step::closed;
  return fail(
      bad_request(state_ == State::head ? "the headers end too early" : "the body ends too early"));
}

Connection::Step Connection::time_out() {
  if (state_ == State::head) return fail(HttpError(408, "the headers took too long to come"));
  if (state_ == State::body) return fail(HttpError(408, "the body comes too slowly"));
  return Step::closed;
}

Connection::Request Connection::take_request() {
  if (reader_) request_.body = reader_->take_body();
  reader_.reset();
  Request taken;
  std::swap(taken, request_);
  request_.head.method = taken.head.method;  // a response to HEAD has no body
  closes_ = !taken.head.keeps_alive();
  return taken;
}

Connection::Step Connection::reply(ServiceReply reply, HostBudget::Lease lease,
                                   const char* encoding, bool keep_alive) {
  service_.count(reply.status);
  closes_ = closes_ || !keep_alive || has_unread_body_;
  out_head_ = head_text(reply, encoding, closes_);
  out_body_ = request_.head.method == "HEAD" ? std::string() : std::move(reply.body);
  lease_ = std::move(lease);
  sent_ = 0;
  enter(State::writing, options_.body_milliseconds);
  return write();
}

Connection::Step Connection::write() {
  const std::size_t all = out_head_.size() + out_body_.size();
  while (sent_ < all) {
    const std::size_t of_head = std::min(sent_, out_head_.size());
    const std::size_t of_body = sent_ - of_head;
    iovec parts[] = {{out_head_.data() + of_head, out_head_.size() - of_head},
                     {out_body_.data() + of_body, out_body_.size() - of_body}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = ::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return is_passing(errno) ? Step::waits : Step::closed;
    }
    sent_ += static_cast<std::size_t>(sent);
    move_on(static_cast<std::size_t>(sent));
  }
  std::string().swap(out_head_);
  std::string().swap(out_body_);
  HostBudget::Lease none;
  lease_ = std::move(none);
  if (closes_) {
    if (!has_unread_body_ && input_.empty()) return Step::closed;
    std::string().swap(input_);
    ::shutdown(socket_, SHUT_WR);
    enter(State::lingering, kLingerMilliseconds);
    return Step::waits;
  }
  has_served_ = true;
  enter(State::idle, options_.keep_alive_milliseconds);
  return input_.empty() ? Step::waits : consume_kept();
}

}  // namespace plimsoll::examples::serve
