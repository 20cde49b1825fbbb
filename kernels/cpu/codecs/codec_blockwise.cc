// SPDX-License-Identifier: Apache-2.0
// int8, int4 and int2: a block of kQuantizedBlock elements is a scale s and a multiple of it per
// element, of magnitude at most 127 (7, 1), rounded up or down at random: x becomes floor(x / s) or
// the next integer, the latter with the probability of the fraction (stochastic rounding; Connolly,
// Higham and Mary, "Stochastic rounding and its probabilistic backward error analysis", SIAM J.
// Sci. Comput. 43, 2021). The random numbers are those of Philox whose key is the codec's seed: 16
// bits per element, by its index alone.
//
// s is the least bf16 number that reaches the greatest magnitude: few bits, so that every multiple
// is exact, and x / s is never above 127. A quotient is an integer or at least an ulp from one, and
// is rounded by half an ulp at most: the error is less than s, to the bit. -0 comes back as +0.
//
// Encoded: the scales (bf16), then the multiples, one, two or four to a byte (Packed).
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/codecs/codecs.h"
#include "kernels/cpu/vector_loops.h"
#include "runtime/base/philox.h"

namespace plimsoll::kernels {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::int64_t kBlock = ir::kQuantizedBlock;
constexpr std::int64_t kDrawsPerCounter = 8;
static_assert(kBlock % kDrawsPerCounter == 0);

// A finite block may still have none.
constexpr float kNoScale = -1;

template <typename T>
float scale_of(T greatest, int most) {
  if (!(greatest <= std::numeric_limits<T>::max())) return kNoScale;
  const auto limit = static_cast<T>(most);
  const auto near = static_cast<float>(greatest / limit);
  if (!std::isfinite(near)) return kNoScale;
  std::uint32_t bits = (std::bit_cast<std::uint32_t>(near) + 0xffffu) & 0xffff0000u;
  // The quotient may have been rounded down.
  if (static_cast<T>(std::bit_cast<float>(bits)) * limit < greatest) bits += 0x10000u;
  const auto scale = std::bit_cast<float>(bits);
  return std::isfinite(static_cast<T>(scale) * limit) && std::isfinite(scale) ? scale : kNoScale;
}

// The greatest magnitude of a block; a NaN if it has one.
template <typename T>
[[gnu::always_inline]] inline T greatest_of(const T* x) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  Bits most = 0;
  for (std::int64_t i = 0; i < kBlock; ++i) {
    const Bits bits = std::bit_cast<Bits>(x[i]) & std::numeric_limits<Bits>::max();
    most = bits > most ? bits : most;
  }
  return std::bit_cast<T>(most);
}

template <typename T>
[[gnu::always_inline]] inline void round_block(const T* x, T scale, const std::uint16_t* draws,
                                               std::int8_t* multiples) {
  for (std::int64_t i = 0; i < kBlock; ++i) {
    const T quotient = x[i] / scale;
    const auto toward_zero = static_cast<std::int32_t>(quotient);
    const std::int32_t below = toward_zero - (quotient < static_cast<T>(toward_zero) ? 1 : 0);
    const T fraction = quotient - static_cast<T>(below);
    const T draw = (static_cast<T>(std::int32_t{draws[i]}) + T(0.5)) * T(0x1p-16);
    multiples[i] = static_cast<std::int8_t>(below + (draw < fraction ? 1 : 0));
  }
}

// False if a block has no scale. `x` holds whole blocks.
template <typename T, int most>
PLIMSOLL_CLONES bool quantize(const T* x, const std::uint16_t* draws, std::uint16_t* scales,
                              std::int8_t* multiples, std::int64_t blocks) {
  bool fine = true;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const float scale = scale_of(greatest_of(x + b * kBlock), most);
    fine = fine && scale >= 0;
    // Zeros are multiples of whatever scale.
    const T divisor = scale > 0 ? static_cast<T>(scale) : T(1);
    scales[b] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(scale) >> 16);
    if (scale >= 0) {
      round_block(x + b * kBlock, divisor, draws + b * kBlock, multiples + b * kBlock);
    }
  }
  return fine;
}

template <typename T>
PLIMSOLL_CLONES void multiply(const std::int8_t* multiples, const std::uint16_t* scales, T* x,
                              std::int64_t blocks) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    const T scale = std::bit_cast<float>(std::uint32_t{scales[b]} << 16);
    for (std::int64_t i = b * kBlock; i < (b + 1) * kBlock; ++i) {
      x[i] = static_cast<T>(std::int32_t{multiples[i]}) * scale;
    }
  }
}

// Several multiples to a byte, each with a bias added that makes it a number from 0 up.
template <int per_byte>
struct Packed {
  static constexpr int kBits = 8 / per_byte;
  static constexpr int kBias = 1 << (kBits - 1);
  static constexpr int kMask = (1 << kBits) - 1;
  static constexpr std::int64_t kPart = kBlock / per_byte;
};

// `count` multiples from the start of a block on, and back. Byte i of a block of n bytes holds
// those of the elements i, n + i, 2n + i, ..., from its lowest bits up.
template <int per_byte>
PLIMSOLL_CLONES void pack(const std::int8_t* __restrict multiples, std::uint8_t* __restrict bytes,
                          std::int64_t count) {
  using P = Packed<per_byte>;
  for (; count >= kBlock; count -= kBlock, multiples += kBlock, bytes += P::kPart) {
    for (std::int64_t i = 0; i < P::kPart; ++i) {
      int byte = 0;
      for (int k = 0; k < per_byte; ++k) {
        byte |= (multiples[k * P::kPart + i] + P::kBias) << (k * P::kBits);
      }
      bytes[i] = static_cast<std::uint8_t>(byte);
    }
  }
  const std::int64_t part = (count + per_byte - 1) / per_byte;
  for (std::int64_t i = 0; i < part; ++i) {
    int byte = 0;
    for (int k = 0; k < per_byte && k * part + i < count; ++k) {
      byte |= (multiples[k * part + i] + P::kBias) << (k * P::kBits);
    }
    bytes[i] = static_cast<std::uint8_t>(byte);
  }
}

template <int per_byte>
PLIMSOLL_CLONES void spread(const std::uint8_t* __restrict bytes, std::int8_t* __restrict multiples,
                            std::int64_t count) {
  using P = Packed<per_byte>;
  const auto multiple = [](std::uint8_t byte, int k) {
    return static_cast<std::int8_t>(((byte >> (k * P::kBits)) & P::kMask) - P::kBias);
  };
  for (; count >= kBlock; count -= kBlock, multiples += kBlock, bytes += P::kPart) {
    for (std::int64_t i = 0; i < P::kPart; ++i) {
      for (int k = 0; k < per_byte; ++k) multiples[k * P::kPart + i] = multiple(bytes[i], k);
    }
  }
  const std::int64_t part = (count + per_byte - 1) / per_byte;
  for (std::int64_t i = 0; i < part; ++i) {
    for (int k = 0; k < per_byte && k * part + i < count; ++k) {
      multiples[k * part + i] = multiple(bytes[i], k);
    }
  }
}

struct Layout {
  std::int64_t count;  // elements of the value
  int per_byte;
  std::int64_t blocks() const { return (count + kBlock - 1) / kBlock; }
  // Of the multiples of the elements from `begin` on, `begin` at the start of a block.
  std::int64_t offset(std::int64_t begin) const { return 2 * blocks() + begin / per_byte; }
};

template <typename T, int most>
bool encode_piece(const T* from, std::byte* to, const Layout& layout, std::uint64_t seed,
                  std::int64_t begin, std::int64_t end) {
  std::array<std::uint16_t, kCodecBlock> draws;
  std::array<std::int8_t, kCodecBlock> multiples;
  std::array<std::uint16_t, kCodecBlock / kBlock> scales;
  std::array<T, kBlock> rest{};
  bool fine = true;
  for (std::int64_t at = begin; at < end; at += kCodecBlock) {
    const std::int64_t size = std::min(kCodecBlock, end - at);
    const std::int64_t whole = size / kBlock, blocks = (size + kBlock - 1) / kBlock;
    const philox::State state{seed, static_cast<std::uint64_t>(at / kDrawsPerCounter), 0};
    philox_words(state, blocks * (kBlock / kDrawsPerCounter), draws.data());
    fine =
        quantize<T, most>(from + at, draws.data(), scales.data(), multiples.data(), whole) && fine;
    if (whole < blocks) {
      const std::int64_t done = whole * kBlock;
      std::copy(from + at + done, from + at + size, rest.begin());
      fine = quantize<T, most>(rest.data(), draws.data() + done, scales.data() + whole,
                               multiples.data() + done, 1) &&
             fine;
    }
    std::memcpy(to + 2 * (at / kBlock), scales.data(), static_cast<std::size_t>(2 * blocks));
    std::byte* const out = to + layout.offset(at);
    auto* const codes = reinterpret_cast<std::uint8_t*>(out);
    if (layout.per_byte == 1) std::memcpy(out, multiples.data(), static_cast<std::size_t>(size));
    if (layout.per_byte == 2) pack<2>(multiples.data(), codes, size);
    if (layout.per_byte == 4) pack<4>(multiples.data(), codes, size);
  }
  return fine;
}

template <typename T>
void decode_piece(const std::byte* from, T* to, const Layout& layout, std::int64_t begin,
                  std::int64_t end) {
  std::array<std::int8_t, kCodecBlock> multiples{};
  std::array<std::uint16_t, kCodecBlock / kBlock> scales;
  std::array<T, kBlock> rest;
  for (std::int64_t at = begin; at < end; at += kCodecBlock) {
    const std::int64_t size = std::min(kCodecBlock, end - at);
    const std::int64_t whole = size / kBlock, blocks = (size + kBlock - 1) / kBlock;
    std::memcpy(scales.data(), from + 2 * (at / kBlock), static_cast<std::size_t>(2 * blocks));
    const std::byte* const in = from + layout.offset(at);
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(in);
    if (layout.per_byte == 1) std::memcpy(multiples.data(), in, static_cast<std::size_t>(size));
    if (layout.per_byte == 2) spread<2>(codes, multiples.data(), size);
    if (layout.per_byte == 4) spread<4>(codes, multiples.data(), size);
    multiply(multiples.data(), scales.data(), to + at, whole);
    if (whole < blocks) {
      multiply(multiples.data() + whole * kBlock, scales.data() + whole, rest.data(), 1);
      std::copy_n(rest.begin(), size - whole * kBlock, to + at + whole * kBlock);
    }
  }
}

template <typename T, int most>
CodecKernels blockwise_of(const ir::Codec& codec, std::int64_t count) {
  const Layout layout{count, most == 127 ? 1 : most == 7 ? 2 : 4};
  const std::string name(ir::to_string(codec.kind));
  CodecKernels kernels;
  kernels.encode = make_codec_kernel(
      "encode." + name, count, "a value is infinite, NaN or too large for a scale",
      [layout, seed = codec.seed](const void* from, void* to, std::int64_t begin,
                                  std::int64_t end) {
        return encode_piece<T, most>(static_cast<const T*>(from), static_cast<std::byte*>(to),
                                     layout, seed, begin, end);
      });
  kernels.decode = make_codec_kernel(
      "decode." + name, count, "",
      [layout](const void* from, void* to, std::int64_t begin, std::int64_t end) {
        decode_piece(static_cast<const std::byte*>(from), static_cast<T*>(to), layout, begin, end);
        return true;
      });
  return kernels;
}

template <int most>
CodecResult make_blockwise(const ir::Codec& codec, const ir::Shape& shape) {
  if (shape.dtype() == ir::DType::f32) {
    return blockwise_of<float, most>(codec, shape.element_count());
  }
  if (shape.dtype() == ir::DType::f64) {
    return blockwise_of<double, most>(codec, shape.element_count());
  }
  return no_codec(codec, shape);
}

}  // namespace

CodecResult make_int8(const ir::Codec& codec, const ir::Shape& shape) {
  return make_blockwise<127>(codec, shape);
}

CodecResult make_int4(const ir::Codec& codec, const ir::Shape& shape) {
  return make_blockwise<7>(codec, shape);
}

CodecResult make_int2(const ir::Codec& codec, const ir::Shape& shape) {
  return make_blockwise<1>(codec, shape);
}

}  // namespace plimsoll::kernels
