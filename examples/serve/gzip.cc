// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>

namespace plimsoll::examples::serve {

std::string gzip(std::string_view text) {
  z_stream stream{};
  constexpr int kWindow = 15 + 16;  // 16: gzip's head and end around it
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  const struct End {
    z_stream* stream;
    ~End() { deflateEnd(stream); }
  } end{&stream};
  std::string out;
  std::array<char, 65536> piece;
  int result = Z_OK;
  do {
    const std::size_t taken = std::min<std::size_t>(text.size(), std::numeric_limits<uInt>::max());
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(taken);
    text.remove_prefix(taken);
    do {
      stream.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream.avail_out = static_cast<uInt>(piece.size());
      result = deflate(&stream, text.empty() ? Z_FINISH : Z_NO_FLUSH);
      out.append(piece.data(), piece.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  } while (result != Z_STREAM_END && !text.empty());
  return out;
}

}  // namespace plimsoll::examples::serve
