// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/math_functions/vector_libm.h"

#include <immintrin.h>

#include <cmath>

// libmvec's functions, under the names of the x86-64 vector function ABI.
extern "C" {
#define DECLARE(name)                 \
  __m512 _ZGVeN16v_##name##f(__m512); \
  __m512d _ZGVeN8v_##name(__m512d);
DECLARE(exp)
DECLARE(expm1)
DECLARE(log)
DECLARE(log1p)
DECLARE(tanh)
DECLARE(sin)
DECLARE(cos)
DECLARE(tan)
DECLARE(erf)
DECLARE(cbrt)
#undef DECLARE
__m512 _ZGVeN16vv_powf(__m512, __m512);
__m512d _ZGVeN8vv_pow(__m512d, __m512d);
__m512 _ZGVeN16vv_atan2f(__m512, __m512);
__m512d _ZGVeN8vv_atan2(__m512d, __m512d);
}

namespace plimsoll::benchmarks {
namespace {

template <__m512 (*F)(__m512)>
void vectors32(const float* x, const float*, float* result, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 16) {
    _mm512_storeu_ps(result + i, F(_mm512_loadu_ps(x + i)));
  }
}
template <__m512 (*F)(__m512, __m512)>
void vectors32(const float* x, const float* y, float* result, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 16) {
    _mm512_storeu_ps(result + i, F(_mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i)));
  }
}
template <__m512d (*F)(__m512d)>
void vectors64(const double* x, const double*, double* result, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 8) {
    _mm512_storeu_pd(result + i, F(_mm512_loadu_pd(x + i)));
  }
}
template <__m512d (*F)(__m512d, __m512d)>
void vectors64(const double* x, const double* y, double* result, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 8) {
    _mm512_storeu_pd(result + i, F(_mm512_loadu_pd(x + i), _mm512_loadu_pd(y + i)));
  }
}

template <typename T, T (*F)(T, T)>
void scalars(const T* x, const T* y, T* result, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) result[i] = F(x[i], y[i]);
}

struct Row {
  std::string_view name;
  ArrayFunction<float> vectors32;
  ArrayFunction<double> vectors64;
  ArrayFunction<float> scalars32;
  ArrayFunction<double> scalars64;
};

template <typename T>
T logistic(T x, T) {
  return 1 / (1 + std::exp(-x));
}
template <typename T>
T rsqrt(T x, T) {
  return 1 / std::sqrt(x);
}

#define UNARY(name)                                                      \
  {#name, vectors32<_ZGVeN16v_##name##f>, vectors64<_ZGVeN8v_##name>,    \
   scalars<float, [](float x, float) -> float { return std::name(x); }>, \
   scalars<double, [](double x, double) -> double { return std::name(x); }>}
#define BINARY(name)                                                          \
  {#name, vectors32<_ZGVeN16vv_##name##f>, vectors64<_ZGVeN8vv_##name>,       \
   scalars<float, [](float x, float y) -> float { return std::name(x, y); }>, \
   scalars<double, [](double x, double y) -> double { return std::name(x, y); }>}
const Row kRows[] = {
    UNARY(exp),
    UNARY(expm1),
    UNARY(log),
    UNARY(log1p),
    UNARY(tanh),
    UNARY(sin),
    UNARY(cos),
    UNARY(tan),
    UNARY(erf),
    UNARY(cbrt),
    BINARY(pow),
    BINARY(atan2),
    {"logistic", nullptr, nullptr, scalars<float, logistic>, scalars<double, logistic>},
    {"rsqrt", nullptr, nullptr, scalars<float, rsqrt>, scalars<double, rsqrt>},
};
#undef UNARY
#undef BINARY

const Row* find(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

bool has_wide_vectors() { return __builtin_cpu_supports("avx512f") != 0; }

}  // namespace

Peer<float> peer32(std::string_view name) {
  const Row* row = find(name);
  if (row == nullptr) return {};
  if (row->vectors32 != nullptr && has_wide_vectors()) return {"libmvec", row->vectors32};
  return {"libm", row->scalars32};
}

Peer<double> peer64(std::string_view name) {
  const Row* row = find(name);
  if (row == nullptr) return {};
  if (row->vectors64 != nullptr && has_wide_vectors()) return {"libmvec", row->vectors64};
  return {"libm", row->scalars64};
}

}  // namespace plimsoll::benchmarks
