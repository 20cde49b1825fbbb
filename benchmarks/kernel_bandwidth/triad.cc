// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/kernel_bandwidth/triad.h"

#include <immintrin.h>

#include "runtime/device/cpu/parallel.h"

namespace plimsoll::benchmarks {
namespace {

constexpr std::int64_t kVector = 16;   // floats of one cache line
constexpr std::int64_t kGrain = 4096;  // vectors of a piece: 256 KiB of each array

using Piece = void (*)(float* c, const float* a, const float* b, std::int64_t begin,
                       std::int64_t end);

template <bool kStreaming>
[[gnu::target("avx512f")]] void piece_avx512(float* c, const float* a, const float* b,
                                             std::int64_t begin, std::int64_t end) {
  const __m512 three = _mm512_set1_ps(3);
  for (std::int64_t i = begin; i < end; i += kVector) {
    const __m512 x =
        _mm512_add_ps(_mm512_load_ps(a + i), _mm512_mul_ps(three, _mm512_load_ps(b + i)));
    if constexpr (kStreaming) {
      _mm512_stream_ps(c + i, x);
    } else {
      _mm512_store_ps(c + i, x);
    }
  }
  if constexpr (kStreaming) _mm_sfence();
}

template <bool kStreaming>
void piece_sse(float* c, const float* a, const float* b, std::int64_t begin, std::int64_t end) {
  const __m128 three = _mm_set1_ps(3);
  for (std::int64_t i = begin; i < end; i += 4) {
    const __m128 x = _mm_add_ps(_mm_load_ps(a + i), _mm_mul_ps(three, _mm_load_ps(b + i)));
    if constexpr (kStreaming) {
      _mm_stream_ps(c + i, x);
    } else {
      _mm_store_ps(c + i, x);
    }
  }
  if constexpr (kStreaming) _mm_sfence();
}

Piece piece_of(TriadStores stores) {
  const bool wide = __builtin_cpu_supports("avx512f");
  if (stores == TriadStores::streaming) return wide ? piece_avx512<true> : piece_sse<true>;
  return wide ? piece_avx512<false> : piece_sse<false>;
}

}  // namespace

void run_triad(float* c, const float* a, const float* b, std::int64_t count, TriadStores stores) {
  const Piece piece = piece_of(stores);
  device::parallel_for(count / kVector, kGrain, [&](std::int64_t begin, std::int64_t end) {
    piece(c, a, b, begin * kVector, end * kVector);
  });
  for (std::int64_t i = count / kVector * kVector; i < count; ++i) c[i] = a[i] + 3 * b[i];
}

}  // namespace plimsoll::benchmarks
