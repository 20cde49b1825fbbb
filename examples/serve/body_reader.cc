// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/body_reader.h"

#include <algorithm>

#include "examples/serve/http_error.h"

namespace plimsoll::examples::serve {
namespace {

constexpr std::size_t kLongestLine = 1024;  // between chunks
constexpr std::size_t kMostTrailers = 8192;

}  // namespace

void LeasedText::append(std::string_view bytes) {
  if (bytes.size() > most_bytes_ - text_.size()) {
    throw HttpError(413, "a body of more than " + std::to_string(most_bytes_) + " bytes");
  }
  const std::size_t needed = text_.size() + bytes.size();
  if (needed > text_.capacity()) {
    constexpr std::size_t kLeast = 1024;
    const std::size_t before = lease_.bytes();
    std::string grown;
    const std::size_t capacity =
        std::min(most_bytes_, std::max({kLeast, needed, 2 * text_.size()}));
    if (!lease_.grow(capacity)) throw busy("no host memory for the request now");
    grown.reserve(capacity);
    grown.append(text_);
    text_.swap(grown);
    lease_.shrink(before);
  }
  text_.append(bytes);
}

BodyReader::BodyReader(const HttpContent& content, std::size_t most_bytes, HostBudget::Lease& lease)
    : text_(content.chunked ? most_bytes : content.length, lease),
      state_(content.chunked       ? State::chunk_size
             : content.length == 0 ? State::end
                                   : State::data),
      left_(content.length) {}

bool BodyReader::take_line(char c) {
  line_ += c;
  if (line_.size() > kLongestLine) throw bad_request("a line between chunks that does not end");
  if (c != '\n') return false;
  if (line_.size() < 2 || line_[line_.size() - 2] != '\r') {
    throw bad_request("the body is not in chunks as its header says");
  }
  line_.resize(line_.size() - 2);
  return true;
}

void BodyReader::end_line() {
  if (state_ == State::trailers) {
    trailer_bytes_ += line_.size();
    if (trailer_bytes_ > kMostTrailers) throw bad_request("the trailers are too long");
    if (line_.empty()) state_ = State::end;
  } else if (state_ == State::chunk_end) {
    if (!line_.empty()) throw bad_request("a chunk is longer than it says");
    state_ = State::chunk_size;
  } else {
    // What stands behind the size are extensions, of which none is known.
    std::string_view size = std::string_view(line_).substr(0, line_.find(';'));
    while (!size.empty() && (size.back() == ' ' || size.back() == '\t')) size.remove_suffix(1);
    const auto number = parse_natural(size, 16);
    if (!number) throw bad_request("the size of a chunk is no number");
    left_ = *number;
    state_ = left_ == 0 ? State::trailers : State::chunk_data;
  }
  line_.clear();
}

std::size_t BodyReader::take(std::string_view input) {
  std::size_t at = 0;
  while (at < input.size() && state_ != State::end) {
    if (state_ == State::data || state_ == State::chunk_data) {
      const std::string_view piece = input.substr(at, left_);
      text_.append(piece);
      at += piece.size();
      left_ -= piece.size();
      if (left_ == 0) state_ = state_ == State::data ? State::end : State::chunk_end;
    } else if (take_line(input[at++])) {
      end_line();
    }
  }
  return at;
}

}  // namespace plimsoll::examples::serve
