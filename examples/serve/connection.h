// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "examples/serve/body_reader.h"
#include "examples/serve/host_budget.h"
#include "examples/serve/http_error.h"
#include "examples/serve/http_head.h"
#include "examples/serve/http_server.h"
#include "examples/serve/service.h"
#include "examples/serve/statistics.h"

namespace plimsoll::examples::serve {

// A client's socket and how far its request or its response has come. Nothing here waits: what is
// there is read, what the socket takes is written. Bytes before a request is whole are limited, and
// so is the time: headers by a deadline, bodies and responses by how slowly they may move on. For
// the thread of the event loop.
class Connection {
 public:
  enum class State : std::uint8_t {
    idle,       // between requests, or before the first
    head,       // reads headers
    body,       // reads a body
    working,    // a whole request is being answered: nothing is read
    writing,    // writes the response
    lingering,  // the response was written; what the client still sends is read away, so that it
                // isn't reset before it has read that
  };
  enum class Step : std::uint8_t { waits, request, closed };

  // Owns the socket, which does not block. The others outlive it.
  Connection(int socket, const HttpOptions& options, Service& service);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int socket() const { return socket_; }
  State state() const { return state_; }
  bool wants_input() const { return state_ != State::working && state_ != State::writing; }
  bool wants_output() const { return state_ == State::writing; }

  // When the socket has bytes; `scratch` holds them for the call.
  Step read(std::span<char> scratch);
  // When the socket takes bytes.
  Step write();
  // When the deadline has passed.
  Step time_out();

  // Precondition: a step gave a request.
  struct Request {
    HttpHead head;
    HttpContent content;
    std::string body;
    HostBudget::Lease lease;  // of the body
  };
  Request take_request();
  // Answers it; `lease` holds the response's bytes until they have left. Counts it.
  Step reply(ServiceReply reply, HostBudget::Lease lease, const char* encoding, bool keep_alive);

  // For the choice of one that makes room for others.
  Clock::time_point since() const { return since_; }  // the last response, or it connected
  Clock::time_point deadline() const { return deadline_; }
  bool has_served() const { return has_served_; }
  // At most until then, however it moves on.
  void end_by(Clock::time_point latest);

 private:
  Step consume(std::string_view input, std::size_t& taken);
  Step consume_kept();
  Step begin_body();
  Step fail(const HttpError& error);
  Step end_of_input();
  void enter(State state, std::int64_t milliseconds);
  // Bytes have moved: the deadline, which it came nearer to meanwhile, moves away again.
  void move_on(std::size_t bytes);

  const int socket_;
  const HttpOptions& options_;
  Service& service_;
  State state_ = State::idle;
  Clock::time_point since_{}, deadline_{};
  Clock::time_point latest_ = Clock::time_point::max();
  bool has_served_ = false;
  std::string input_;         // read, and of no request that was given out
  std::size_t searched_ = 0;  // of it, for the end of the headers
  Request request_;
  std::optional<BodyReader> reader_;
  bool has_unread_body_ = false;  // bytes of it may come: no other request can follow
  bool closes_ = false;           // after the response
  std::string out_head_, out_body_;
  std::size_t sent_ = 0;
  HostBudget::Lease lease_;  // of the response
};

}  // namespace plimsoll::examples::serve
