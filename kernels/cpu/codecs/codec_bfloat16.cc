// SPDX-License-Identifier: Apache-2.0
// Rounded to nearest, ties to even: relative error at most 2^-8; below 2^-126, where bf16 is
// subnormal, absolute error at most 2^-134. Infinities and NaNs stay what they are.
#include <bit>
#include <cstdint>

#include "kernels/cpu/codecs/codec_sixteen_bits.h"

namespace plimsoll::kernels {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000u;

struct BF16Format {
  static constexpr const char* kName = "bfloat16";
  static constexpr const char* kDtype = "bf16";

  [[gnu::always_inline]] static std::uint16_t rounded(std::uint32_t bits) {
    const auto near = static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    const auto nan = static_cast<std::uint16_t>((bits >> 16) | 0x40u);
    return (bits & 0x7fffffffu) > kInfinity ? nan : near;
  }
  [[gnu::always_inline]] static bool overflows(std::uint32_t bits) {
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    return (magnitude >= 0x7f7f8000u) & (magnitude < kInfinity);
  }
  [[gnu::always_inline]] static float widened(std::uint16_t stored) {
    return std::bit_cast<float>(std::uint32_t{stored} << 16);
  }
  // The processor's own conversion takes subnormal numbers for zero.
  static std::int64_t encode_vectors(const float*, std::uint16_t*, std::int64_t, bool&) {
    return 0;
  }
  static std::int64_t decode_vectors(const std::uint16_t*, float*, std::int64_t) { return 0; }
};

}  // namespace

CodecResult make_bfloat16(const ir::Codec& codec, const ir::Shape& shape) {
  return make_sixteen_bits<BF16Format>(codec, shape);
}

}  // namespace plimsoll::kernels
