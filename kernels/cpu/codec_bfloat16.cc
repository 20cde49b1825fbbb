// SPDX-License-Identifier: Apache-2.0
// Rounded to nearest, ties to even: relative error at most 2^-8; below 2^-126, where bf16 is
// subnormal, absolute error at most 2^-134. Infinities and NaNs stay what they are.
#include <bit>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/codecs.h"
#include "kernels/cpu/round_to_odd.h"

namespace plimsoll::kernels {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000u;

// Rounds `bits` of an f32. Selects instead of branches, so that loops vectorize.
[[gnu::always_inline]] inline std::uint16_t rounded(std::uint32_t bits) {
  const auto near = static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  const auto nan = static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return (bits & 0x7fffffffu) > kInfinity ? nan : near;
}

[[gnu::always_inline]] inline bool overflows(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  return (magnitude >= 0x7f7f8000u) & (magnitude < kInfinity);
}

template <typename T>
PLIMSOLL_CLONES bool encode(const T* from, std::uint16_t* to, std::int64_t count) {
  unsigned lost = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    if constexpr (std::is_same_v<T, double>) {
      bits = round_to_odd(from[i]);
    } else {
      bits = std::bit_cast<std::uint32_t>(from[i]);
    }
    lost |= overflows(bits) ? 1u : 0u;
    to[i] = rounded(bits);
  }
  return lost == 0;
}

template <typename T>
PLIMSOLL_CLONES void decode(const std::uint16_t* from, T* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<T>(std::bit_cast<float>(std::uint32_t{from[i]} << 16));
  }
}

template <typename T>
CodecKernels bfloat16_of(std::int64_t count) {
  CodecKernels kernels;
  kernels.encode =
      make_codec_kernel("encode.bfloat16", count, "a finite value is beyond bf16's range",
                        [](const void* from, void* to, std::int64_t begin, std::int64_t end) {
                          return encode(static_cast<const T*>(from) + begin,
                                        static_cast<std::uint16_t*>(to) + begin, end - begin);
                        });
  kernels.decode =
      make_codec_kernel("decode.bfloat16", count, "",
                        [](const void* from, void* to, std::int64_t begin, std::int64_t end) {
                          decode(static_cast<const std::uint16_t*>(from) + begin,
                                 static_cast<T*>(to) + begin, end - begin);
                          return true;
                        });
  return kernels;
}

}  // namespace

CodecResult make_bfloat16(const planner::Codec& codec, const ir::Shape& shape) {
  if (shape.dtype() == ir::DType::f32) return bfloat16_of<float>(shape.element_count());
  if (shape.dtype() == ir::DType::f64) return bfloat16_of<double>(shape.element_count());
  return no_codec(codec, shape);
}

}  // namespace plimsoll::kernels
