// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "plimsoll/error.hpp"

// The reader of the IDX format (the MNIST family's), plain or gzipped. Needs zlib at link time.
namespace plimsoll::data {

// The element types of IDX, by their codes in the file.
enum class IdxType : std::uint8_t {
  u8 = 0x08,
  s8 = 0x09,
  s16 = 0x0B,
  s32 = 0x0C,
  f32 = 0x0D,
  f64 = 0x0E,
};

// Bytes of one element; 0 for a code that IDX doesn't know.
inline std::int64_t idx_element_size(IdxType type) {
  switch (type) {
    case IdxType::u8:
    case IdxType::s8:
      return 1;
    case IdxType::s16:
      return 2;
    case IdxType::s32:
    case IdxType::f32:
      return 4;
    case IdxType::f64:
      return 8;
  }
  return 0;
}

// A dense row-major array; elements are in this machine's byte order.
struct IdxArray {
  IdxType type = IdxType::u8;
  std::vector<std::int64_t> dims;
  std::vector<std::uint8_t> bytes;
};

namespace internal {

struct GzipCloser {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<std::remove_pointer_t<gzFile>, GzipCloser>;

inline Error bad_idx(const std::filesystem::path& path, const std::string& what) {
  return Error(ErrorCode::data_loss, "cannot read " + path.string() + ": " + what);
}

// Appends up to `count` bytes to `bytes`; returns how many there were.
inline std::size_t read_some(gzFile file, const std::filesystem::path& path, std::size_t count,
                             std::vector<std::uint8_t>& bytes) {
  // The header is not to be trusted with one big allocation: memory grows with what really comes.
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  std::size_t done = 0;
  while (done < count) {
    const std::size_t want = std::min(kChunk, count - done);
    const std::size_t before = bytes.size();
    bytes.resize(before + want);
    const int got = gzread(file, bytes.data() + before, static_cast<unsigned>(want));
    bytes.resize(before + static_cast<std::size_t>(std::max(got, 0)));
    int code = Z_OK;
    const char* message = gzerror(file, &code);
    if (got < 0 || (code != Z_OK && code != Z_BUF_ERROR)) {
      throw bad_idx(path, std::string("broken gzip stream (") + message + ")");
    }
    done += static_cast<std::size_t>(got);
    if (static_cast<std::size_t>(got) < want) break;
  }
  return done;
}

}  // namespace internal

// Reads one array. Throws not_found when the file cannot be opened and data_loss when it isn't a
// complete IDX file.
inline IdxArray read_idx(const std::filesystem::path& path) {
  errno = 0;
  internal::GzipFile file(gzopen(path.c_str(), "rb"));
  if (!file) {
    const std::string reason = errno == 0 ? "out of memory" : std::strerror(errno);
    throw Error(ErrorCode::not_found, "cannot open " + path.string() + ": " + reason);
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw Error(ErrorCode::invalid_argument, "cannot open " + path.string() + ": it is a folder");
  }

  std::vector<std::uint8_t> header;
  if (internal::read_some(file.get(), path, 4, header) < 4) {
    throw internal::bad_idx(path, "it ends inside the 4-byte IDX header");
  }
  IdxArray array;
  array.type = static_cast<IdxType>(header[2]);
  const std::int64_t element_size = idx_element_size(array.type);
  if (header[0] != 0 || header[1] != 0 || element_size == 0) {
    throw internal::bad_idx(path, "it doesn't begin with an IDX header (00 00 TYPE RANK)");
  }
  const std::size_t rank = header[3];
  if (internal::read_some(file.get(), path, 4 * rank, header) < 4 * rank) {
    throw internal::bad_idx(path,
                            "it ends inside the " + std::to_string(rank) + " dimension sizes");
  }
  std::int64_t total = element_size;
  for (std::size_t i = 0; i < rank; ++i) {
    std::int64_t dim = 0;
    for (std::size_t j = 0; j < 4; ++j) dim = (dim << 8) | header[4 + 4 * i + j];
    array.dims.push_back(dim);
    if (__builtin_mul_overflow(total, dim, &total)) {
      throw internal::bad_idx(path, "its dimensions overflow 64 bits");
    }
  }
  const std::size_t expected = static_cast<std::size_t>(total);
  const std::size_t got = internal::read_some(file.get(), path, expected, array.bytes);
  if (got < expected) {
    throw internal::bad_idx(path, "it holds " + std::to_string(got) + " bytes of data, but its " +
                                      "header promises " + std::to_string(expected));
  }
  std::vector<std::uint8_t> rest;
  if (internal::read_some(file.get(), path, 1, rest) != 0) {
    throw internal::bad_idx(
        path, "more data follows the " + std::to_string(expected) + " bytes its header promises");
  }
  if constexpr (std::endian::native == std::endian::little) {
    for (auto at = array.bytes.begin(); element_size > 1 && at != array.bytes.end();
         at += element_size) {
      std::reverse(at, at + element_size);
    }
  }
  return array;
}

}  // namespace plimsoll::data
