// SPDX-License-Identifier: Apache-2.0
// One bit per element, the first in the lowest bit of the first byte.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/codecs/codecs.h"
#include "kernels/cpu/numeric.h"

namespace plimsoll::kernels {
namespace {

using ir::ComparisonDirection;

constexpr std::uint64_t kOnes = 0x0101010101010101u;

static_assert(std::endian::native == std::endian::little);

// The byte whose bit i is byte i of `bytes`, each 0 or 1. The factor has bits 7, 14, ... 56: byte i
// meets the one that takes it to bit 56 + i, and no two products meet.
std::uint8_t pack(std::uint64_t bytes) {
  return static_cast<std::uint8_t>((bytes * 0x0102040810204080u) >> 56);
}

constexpr std::array<std::uint64_t, 256> kSpread = [] {
  std::array<std::uint64_t, 256> table{};
  for (std::uint64_t bits = 0; bits < 256; ++bits) {
    for (std::uint64_t i = 0; i < 8; ++i) table[bits] |= ((bits >> i) & 1u) << (8 * i);
  }
  return table;
}();

// `count` bytes of 0 or 1 as bits; the bits past them are zero. False if a byte is neither.
bool pack_bytes(const std::uint8_t* bytes, std::uint8_t* bits, std::int64_t count) {
  std::uint64_t seen = 0;
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    std::uint64_t group;
    std::memcpy(&group, bytes + i, 8);
    seen |= group;
    bits[i / 8] = pack(group);
  }
  if (i < count) {
    std::uint64_t group = 0;
    std::memcpy(&group, bytes + i, static_cast<std::size_t>(count - i));
    seen |= group;
    bits[i / 8] = pack(group);
  }
  return (seen & ~kOnes) == 0;
}

void spread_bits(const std::uint8_t* bits, std::uint8_t* bytes, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) std::memcpy(bytes + i, &kSpread[bits[i / 8]], 8);
  if (i < count) std::memcpy(bytes + i, &kSpread[bits[i / 8]], static_cast<std::size_t>(count - i));
}

// Calls `f` with a function object that compares two values.
template <typename F>
decltype(auto) visit_direction(ComparisonDirection direction, F&& f) {
  switch (direction) {
    case ComparisonDirection::eq:
      return f([](auto a, auto b) { return a == b; });
    case ComparisonDirection::ne:
      return f([](auto a, auto b) { return a != b; });
    case ComparisonDirection::ge:
      return f([](auto a, auto b) { return a >= b; });
    case ComparisonDirection::gt:
      return f([](auto a, auto b) { return a > b; });
    case ComparisonDirection::le:
      return f([](auto a, auto b) { return a <= b; });
    case ComparisonDirection::lt:
      return f([](auto a, auto b) { return a < b; });
  }
  __builtin_unreachable();
}

// What a 16-bit float is compared as: an integer in the same order, both zeros equal. NaNs are
// outside of it.
template <typename T>
struct HalfKey {
  static constexpr int kInfinity = std::is_same_v<T, Float16> ? 0x7c00 : 0x7f80;
  static std::int16_t of(std::uint16_t bits) {
    const auto magnitude = static_cast<std::int16_t>(bits & 0x7fff);
    return (bits & 0x8000) != 0 ? static_cast<std::int16_t>(-magnitude) : magnitude;
  }
  static bool is_nan(std::uint16_t bits) { return (bits & 0x7fff) > kInfinity; }
};

template <typename T, typename Compare>
bool outcome(T value, T constant, Compare compare) {
  if constexpr (kIsHalf<T>) {
    return compare(static_cast<float>(value), static_cast<float>(constant));
  } else {
    return compare(value, constant);
  }
}

// The outcomes of a block as bytes. Plain loops that vectorize.
template <typename T, typename Compare>
PLIMSOLL_CLONES void compare_block(const T* values, T constant, std::uint8_t* bytes,
                                   std::int64_t count, Compare compare) {
  if constexpr (kIsHalf<T>) {
    using Key = HalfKey<T>;
    const bool with_nan = outcome(T(std::numeric_limits<float>::quiet_NaN()), constant, compare);
    if (Key::is_nan(constant.bits)) {
      std::memset(bytes, with_nan ? 1 : 0, static_cast<std::size_t>(count));
      return;
    }
    const std::int16_t key = Key::of(constant.bits);
    for (std::int64_t i = 0; i < count; ++i) {
      const bool is_nan = Key::is_nan(values[i].bits);
      const bool holds = compare(Key::of(values[i].bits), key);
      bytes[i] = static_cast<std::uint8_t>((holds & !is_nan) | (with_nan & is_nan));
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      bytes[i] = compare(values[i], constant) ? 1 : 0;
    }
  }
}

template <typename T>
PLIMSOLL_CLONES void select_block(const std::uint8_t* bytes, T yes, T no, T* values,
                                  std::int64_t count) {
  if constexpr (kIsHalf<T>) {
    select_block(bytes, yes.bits, no.bits, reinterpret_cast<std::uint16_t*>(values), count);
  } else {
    for (std::int64_t i = 0; i < count; ++i) values[i] = bytes[i] != 0 ? yes : no;
  }
}

// `number` in T, if T has it.
template <typename T>
std::optional<T> exactly(double number) {
  if constexpr (kIsHalf<T>) {
    const T value{static_cast<float>(number)};
    const double back = static_cast<float>(value);
    if (back == number || (std::isnan(back) && std::isnan(number))) return value;
    return std::nullopt;
  } else if constexpr (std::is_floating_point_v<T>) {
    const auto value = static_cast<T>(number);
    if (static_cast<double>(value) == number || std::isnan(number)) return value;
    return std::nullopt;
  } else {
    // The largest values of 64-bit integers round up as a double: compare below that.
    const bool inside = number >= static_cast<double>(std::numeric_limits<T>::min()) &&
                        number < std::ldexp(1.0, std::numeric_limits<T>::digits) &&
                        std::trunc(number) == number;
    return inside ? std::optional<T>(static_cast<T>(number)) : std::nullopt;
  }
}

template <typename T>
using CompareBlock = void (*)(const T* values, T constant, std::uint8_t* bytes, std::int64_t count);

template <typename T>
CompareBlock<T> compare_block_of(ComparisonDirection direction) {
  return visit_direction(direction, [](auto compare) -> CompareBlock<T> {
    return [](const T* values, T constant, std::uint8_t* bytes, std::int64_t count) {
      compare_block(values, constant, bytes, count, decltype(compare)());
    };
  });
}

template <typename T>
CodecResult compare_mask_of(const ir::Codec& codec, const ir::Shape& shape) {
  const std::optional<T> constant = exactly<T>(codec.constant);
  if (!constant) return no_codec(codec, shape);
  const std::int64_t count = shape.element_count();
  const std::string name = ir::to_string(codec);
  const T held = *constant;
  CodecKernels kernels;
  kernels.encode =
      make_codec_kernel("encode." + name, count, "",
                        [held, compare = compare_block_of<T>(codec.direction)](
                            const void* from, void* to, std::int64_t begin, std::int64_t end) {
                          std::array<std::uint8_t, kCodecBlock> bytes;
                          for (std::int64_t at = begin; at < end; at += kCodecBlock) {
                            const std::int64_t size = std::min(kCodecBlock, end - at);
                            compare(static_cast<const T*>(from) + at, held, bytes.data(), size);
                            pack_bytes(bytes.data(), static_cast<std::uint8_t*>(to) + at / 8, size);
                          }
                          return true;
                        });
  const ir::Outcomes values = ir::representatives(codec, shape.dtype());
  const T yes = exactly<T>(values.yes).value_or(held), no = exactly<T>(values.no).value_or(held);
  kernels.decode = make_codec_kernel(
      "decode." + name, count, "",
      [yes, no](const void* from, void* to, std::int64_t begin, std::int64_t end) {
        std::array<std::uint8_t, kCodecBlock> bytes;
        for (std::int64_t at = begin; at < end; at += kCodecBlock) {
          const std::int64_t size = std::min(kCodecBlock, end - at);
          spread_bits(static_cast<const std::uint8_t*>(from) + at / 8, bytes.data(), size);
          select_block(bytes.data(), yes, no, static_cast<T*>(to) + at, size);
        }
        return true;
      });
  return kernels;
}

}  // namespace

CodecResult make_bit_mask(const ir::Codec& codec, const ir::Shape& shape) {
  if (shape.dtype() != ir::DType::pred) return no_codec(codec, shape);
  const std::int64_t count = shape.element_count();
  CodecKernels kernels;
  kernels.encode = make_codec_kernel(
      "encode.bit-mask", count, "a pred is neither 0 nor 1",
      [](const void* from, void* to, std::int64_t begin, std::int64_t end) {
        return pack_bytes(static_cast<const std::uint8_t*>(from) + begin,
                          static_cast<std::uint8_t*>(to) + begin / 8, end - begin);
      });
  kernels.decode =
      make_codec_kernel("decode.bit-mask", count, "",
                        [](const void* from, void* to, std::int64_t begin, std::int64_t end) {
                          spread_bits(static_cast<const std::uint8_t*>(from) + begin / 8,
                                      static_cast<std::uint8_t*>(to) + begin, end - begin);
                          return true;
                        });
  return kernels;
}

CodecResult make_compare_mask(const ir::Codec& codec, const ir::Shape& shape) {
  if (shape.dtype() == ir::DType::pred) return no_codec(codec, shape);
  return ir::visit_dtype(shape.dtype(), [&](auto zero) -> CodecResult {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      return no_codec(codec, shape);
    } else {
      return compare_mask_of<T>(codec, shape);
    }
  });
}

}  // namespace plimsoll::kernels
