// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "examples/serve/host_budget.h"
#include "examples/serve/http_head.h"

namespace plimsoll::examples::serve {

// Appends to a text whose bytes are leased. A text that grows is there twice for a moment, which
// the lease holds, too. For one thread.
class LeasedText {
 public:
  // `most_bytes` may come; both outlive it.
  LeasedText(std::size_t most_bytes, HostBudget::Lease& lease)
      : most_bytes_(most_bytes), lease_(lease) {}
  // Throws HttpError: 413 for more than may come, 503 where there is no room for it.
  void append(std::string_view bytes);
  std::size_t size() const { return text_.size(); }
  std::string take() { return std::move(text_); }

 private:
  const std::size_t most_bytes_;
  HostBudget::Lease& lease_;
  std::string text_;
};

// Puts one body together from the pieces in which it comes. What is leased is at most twice what
// has come, whatever the headers say will. For one thread.
class BodyReader {
 public:
  BodyReader(const HttpContent& content, std::size_t most_bytes, HostBudget::Lease& lease);

  // Takes the body's bytes off the front of the input and says how many they were. Throws
  // HttpError.
  std::size_t take(std::string_view input);
  bool is_complete() const { return state_ == State::end; }
  // Still encoded.
  std::string take_body() { return text_.take(); }

 private:
  enum class State : std::uint8_t { data, chunk_size, chunk_data, chunk_end, trailers, end };
  // Adds to the line; true, with the line's end left out, once it has come to its end.
  bool take_line(char c);
  void end_line();

  LeasedText text_;
  State state_;
  std::size_t left_ = 0;  // of the body or the chunk
  std::string line_;      // of those between chunks
  std::size_t trailer_bytes_ = 0;
};

}  // namespace plimsoll::examples::serve
