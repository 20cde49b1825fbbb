// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/codecs/codecs.h"
#include "kernels/cpu/codecs/round_to_odd.h"

namespace plimsoll::kernels {

// f32 and f64 stored as another float of 16 bits, rounded to nearest, ties to even. `Format` says
// which, a class of the source that uses it, in static functions that are always inlined and select
// instead of branch, so that loops vectorize:
//   kName, kDtype             for kernels, for messages
//   rounded(bits)             an f32's bits as the format's
//   overflows(bits)           whether that makes a finite value infinite
//   widened(stored)           back, exactly, as a float
//   encode_vectors(from, to, count, fine), decode_vectors(from, to, count)
//                             the same for as many of `count` f32 as the processor's own
//                             conversions take, from the first; how many
template <typename Format, typename T>
PLIMSOLL_CLONES bool encode_sixteen_bits(const T* from, std::uint16_t* to, std::int64_t count) {
  unsigned lost = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    if constexpr (std::is_same_v<T, double>) {
      bits = round_to_odd(from[i]);
    } else {
      bits = std::bit_cast<std::uint32_t>(from[i]);
    }
    lost |= Format::overflows(bits) ? 1u : 0u;
    to[i] = Format::rounded(bits);
  }
  return lost == 0;
}

template <typename Format, typename T>
PLIMSOLL_CLONES void decode_sixteen_bits(const std::uint16_t* from, T* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(Format::widened(from[i]));
}

template <typename Format, typename T>
CodecKernels sixteen_bits_of(std::int64_t count) {
  const std::string name = Format::kName;
  CodecKernels kernels;
  kernels.encode = make_codec_kernel(
      "encode." + name, count,
      std::string("a finite value is beyond ") + Format::kDtype + "'s range",
      [](const void* from, void* to, std::int64_t begin, std::int64_t end) {
        const T* values = static_cast<const T*>(from) + begin;
        std::uint16_t* stored = static_cast<std::uint16_t*>(to) + begin;
        bool fine = true;
        std::int64_t done = 0;
        if constexpr (std::is_same_v<T, float>) {
          done = Format::encode_vectors(values, stored, end - begin, fine);
        }
        return encode_sixteen_bits<Format>(values + done, stored + done, end - begin - done) &&
               fine;
      });
  kernels.decode = make_codec_kernel(
      "decode." + name, count, "",
      [](const void* from, void* to, std::int64_t begin, std::int64_t end) {
        const std::uint16_t* stored = static_cast<const std::uint16_t*>(from) + begin;
        T* values = static_cast<T*>(to) + begin;
        std::int64_t done = 0;
        if constexpr (std::is_same_v<T, float>) {
          done = Format::decode_vectors(stored, values, end - begin);
        }
        decode_sixteen_bits<Format>(stored + done, values + done, end - begin - done);
        return true;
      });
  return kernels;
}

template <typename Format>
CodecResult make_sixteen_bits(const ir::Codec& codec, const ir::Shape& shape) {
  if (shape.dtype() == ir::DType::f32) return sixteen_bits_of<Format, float>(shape.element_count());
  if (shape.dtype() == ir::DType::f64) {
    return sixteen_bits_of<Format, double>(shape.element_count());
  }
  return no_codec(codec, shape);
}

}  // namespace plimsoll::kernels
