// SPDX-License-Identifier: Apache-2.0
// Rounded to nearest, ties to even: relative error at most 2^-11; below 2^-14, where f16 is
// subnormal, absolute error at most 2^-25. Infinities stay; NaNs keep the top of their payload and
// become quiet.
#include <bit>
#include <cstdint>

#include "kernels/cpu/codecs/codec_sixteen_bits.h"
#include "kernels/cpu/codecs/half_bits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plimsoll::kernels {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000u;
constexpr std::uint32_t kBeyond = 0x477ff000u;  // 65520, the least that rounds to infinity

#if defined(__x86_64__)
__attribute__((target("avx2,f16c"))) std::int64_t encode_vectors(const float* from,
                                                                 std::uint16_t* to,
                                                                 std::int64_t count, bool& fine) {
  constexpr int kLanes = 8;
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  const __m256i below = _mm256_set1_epi32(static_cast<int>(kBeyond) - 1);
  const __m256i infinity = _mm256_set1_epi32(static_cast<int>(kInfinity));
  __m256i lost = _mm256_setzero_si256();
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256 values = _mm256_loadu_ps(from + i);
    const __m256i size = _mm256_and_si256(_mm256_castps_si256(values), magnitude);
    lost = _mm256_or_si256(lost, _mm256_and_si256(_mm256_cmpgt_epi32(size, below),
                                                  _mm256_cmpgt_epi32(infinity, size)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  fine = _mm256_testz_si256(lost, lost) != 0;
  return i;
}

__attribute__((target("avx2,f16c"))) std::int64_t decode_vectors(const std::uint16_t* from,
                                                                 float* to, std::int64_t count) {
  constexpr int kLanes = 8;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  return i;
}

bool has_vectors() {
  static const bool has =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
  return has;
}
#else
std::int64_t encode_vectors(const float*, std::uint16_t*, std::int64_t, bool&) { return 0; }
std::int64_t decode_vectors(const std::uint16_t*, float*, std::int64_t) { return 0; }
bool has_vectors() { return false; }
#endif

struct F16Format {
  static constexpr const char* kName = "float16";
  static constexpr const char* kDtype = "f16";

  // As plimsoll::Float16 does, with selects instead of branches.
  [[gnu::always_inline]] static std::uint16_t rounded(std::uint32_t bits) {
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const std::uint32_t normal =
        (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
    // Adding 0.5 places a subnormal's mantissa in the low bits, rounded by the adder.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    std::uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
    half = magnitude >= kBeyond ? 0x7c00u : half;
    half = magnitude > kInfinity ? nan : half;
    return static_cast<std::uint16_t>(sign | half);
  }

  [[gnu::always_inline]] static bool overflows(std::uint32_t bits) {
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    return (magnitude >= kBeyond) & (magnitude < kInfinity);
  }
  [[gnu::always_inline]] static float widened(std::uint16_t stored) { return from_half(stored); }
  static std::int64_t encode_vectors(const float* from, std::uint16_t* to, std::int64_t count,
                                     bool& fine) {
    return has_vectors() ? kernels::encode_vectors(from, to, count, fine) : 0;
  }
  static std::int64_t decode_vectors(const std::uint16_t* from, float* to, std::int64_t count) {
    return has_vectors() ? kernels::decode_vectors(from, to, count) : 0;
  }
};

}  // namespace

CodecResult make_float16(const ir::Codec& codec, const ir::Shape& shape) {
  return make_sixteen_bits<F16Format>(codec, shape);
}

}  // namespace plimsoll::kernels
