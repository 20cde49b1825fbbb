// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/content_encoding.h"

#include <brotli/decode.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

#include "examples/serve/body_reader.h"
#include "examples/serve/http_error.h"

namespace plimsoll::examples::serve {
namespace {

constexpr std::size_t kPiece = 65536;
constexpr std::size_t kMostGzipGrowth = 1024;  // beside one byte in a thousand

HttpError not_encoded(const std::string& encoding) {
  return bad_request("the body is not encoded as its header says (" + encoding + ")");
}

void inflate_into(std::string_view body, const std::string& encoding, LeasedText& text) {
  z_stream stream{};
  constexpr int kAnyHead = 15 + 32;  // 32: gzip's or zlib's, as the bytes have it
  if (inflateInit2(&stream, kAnyHead) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  std::array<char, kPiece> piece;
  for (int result = Z_OK; result != Z_STREAM_END;) {
    if (stream.avail_in == 0) {
      const std::size_t taken =
          std::min<std::size_t>(body.size(), std::numeric_limits<uInt>::max());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
      stream.avail_in = static_cast<uInt>(taken);
      body.remove_prefix(taken);
    }
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    result = inflate(&stream, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END) throw not_encoded(encoding);
    text.append({piece.data(), piece.size() - stream.avail_out});
  }
  if (stream.avail_in != 0 || !body.empty()) throw not_encoded(encoding);
}

void unbrotli_into(std::string_view body, const std::string& encoding, LeasedText& text) {
  const std::unique_ptr<BrotliDecoderState, void (*)(BrotliDecoderState*)> state(
      BrotliDecoderCreateInstance(nullptr, nullptr, nullptr), BrotliDecoderDestroyInstance);
  if (state == nullptr) throw std::bad_alloc();
  std::array<char, kPiece> piece;
  std::size_t left = body.size();
  auto from = reinterpret_cast<const std::uint8_t*>(body.data());
  BrotliDecoderResult result = BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT;
  while (result == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT) {
    std::size_t room = piece.size();
    auto to = reinterpret_cast<std::uint8_t*>(piece.data());
    result = BrotliDecoderDecompressStream(state.get(), &left, &from, &room, &to, nullptr);
    text.append({piece.data(), piece.size() - room});
  }
  if (result != BROTLI_DECODER_RESULT_SUCCESS || left != 0) throw not_encoded(encoding);
}

}  // namespace

std::size_t most_gzip_bytes(std::size_t bytes) { return bytes + bytes / 1000 + kMostGzipGrowth; }

std::string gzip(std::string_view text) {
  z_stream stream{};
  constexpr int kWindow = 15 + 16;  // 16: gzip's head and end around it
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, deflateEnd);
  std::string out;
  out.reserve(most_gzip_bytes(text.size()));
  std::array<char, kPiece> piece;
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
  out.shrink_to_fit();
  return out;
}

std::string decode(std::string_view body, const std::string& encoding, std::size_t most_bytes,
                   HostBudget::Lease& lease) {
  HostBudget::Lease own = lease.another();
  LeasedText text(most_bytes, own);
  if (encoding == "br") {
    unbrotli_into(body, encoding, text);
  } else {
    inflate_into(body, encoding, text);
  }
  lease.take(std::move(own));
  return text.take();
}

}  // namespace plimsoll::examples::serve
