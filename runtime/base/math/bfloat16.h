// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/small_parts.h"

// Functions of f32 value types (scalar.h, binary.h) that hold bf16 numbers, for readers that round
// the result to bf16: they get what the function of the same name gives (transcendental.h), for
// less work.
namespace plimsoll::math::bf16 {

inline constexpr float kTanh[4][16] = {
    {0, 0x1.695d2cp-10f, -0x1.ac1956p-6f, -0x1.b0e926p-5f, 0x1.4068f4p-1f, 0x1.1f7ffep-2f,
     -0x1.e5e43cp-2f, 0x1.03e1acp1f, 0x1.12c708p2f, 0x1.bb3334p-1f, -0x1.0ec3fcp2f, 0x1.0aaf08p6f,
     0x1.fb1d32p5f, 0x1.fep-1f, -0x1.2fc2ecp7f, 0x1.004p0f},
    {0x1.007e7p0f, 0x1.f72p-1f, 0x1.2f6692p0f, 0x1.457944p0f, -0x1.9d648ap-1f, 0x1.7c6614p-2f,
     0x1.19ab2p1f, -0x1.3d3588p1f, -0x1.63516cp2f, 0x1.99999ap-5f, 0x1.984c02p2f, -0x1.285fc8p6f,
     -0x1.01693ep6f, -0x1.cf8d0cp-32f, 0x1.11cebap7f, 0},
    {-0x1.0c1fc8p-8f, 0x1.0f1628p-4f, -0x1.d059c2p-2f, -0x1.08b556p-1f, 0x1.99fb3p0f,
     0x1.1f955ep-2f, -0x1.370818p0f, 0x1.b440eap0f, 0x1.82ef34p1f, 0, -0x1.4e856p1f, 0x1.bd6344p4f,
     0x1.61a8c6p4f, 0x1.28493p-33f, -0x1.46db6ep5f, 0},
    {-0x1.0d6d22p-1f, -0x1.99c94p-2f, 0x1.27baacp-4f, 0x1.e9dc6ap-5f, -0x1.50feb2p-1f,
     -0x1.60415cp-3f, 0x1.ecf22ap-3f, -0x1.789002p-2f, -0x1.144dfcp-1f, 0x1.2d1432p-42f,
     0x1.6f2602p-2f, -0x1.bdd2b8p1f, -0x1.43a274p1f, -0x1.f8cb8ep-37f, 0x1.041042p2f, 0},
};
inline constexpr float kErf[4][16] = {
    {0, 0x1.d8423cp-13f, 0x1.0ceefap-6f, 0x1.2fbe94p-3f, 0x1.7fdf44p-3f, -0x1.270166p-2f,
     0x1.56089ep0f, 0x1.1f5c6ep1f, 0x1.dbd302p-1f, 0x1.21a492p-2f, -0x1.b1f342p3f, -0x1.dea4d6p3f,
     0x1.c75556p-1f, -0x1.2f7456p7f, 0x1.fep-1f, 0x1.72ab34p6f},
    {0x1.20dd88p0f, 0x1.1f8a1ep0f, 0x1.f5c7a6p-1f, 0x1.821112p-4f, 0x1.a2f174p-3f, 0x1.3809aep1f,
     -0x1.c3f33cp1f, -0x1.5b8b86p2f, -0x1.f1acp-1f, 0x1.98af8ap-1f, 0x1.d379e8p4f, 0x1.d9cda2p4f,
     0x1.c71c72p-5f, 0x1.e5e6c2p7f, -0x1.cffe3p-27f, -0x1.f2f556p6f},
    {-0x1.0eac6cp-10f, 0x1.30252cp-5f, 0x1.a4bd7p-2f, 0x1.3100c6p1f, 0x1.78749ep0f, -0x1.043004p1f,
     0x1.53427cp2f, 0x1.8f1c92p2f, 0x1.595958p0f, -0x1.d41d42p-3f, -0x1.3abc66p4f, -0x1.264f7cp4f,
     0, -0x1.01999ap7f, 0x1.c7c23cp-28f, 0x1.c44444p5f},
    {-0x1.6e9be2p-2f, -0x1.d37946p-2f, -0x1.61fb2p-1f, -0x1.15c83ep1f, -0x1.175748p0f,
     0x1.7d2968p-1f, -0x1.2286e8p1f, -0x1.1aa292p1f, -0x1.d72c82p-2f, 0, 0x1.1bb4a4p2f,
     0x1.e8d8bcp1f, 0, 0x1.6c16c2p4f, -0x1.2a59eap-30f, -0x1.111112p3f},
};
// Ranges by the upper four bits of a significand in [1, 2).
inline constexpr float kLog[3][16] = {
    {-0x1.8d6656p0f, -0x1.9c019ep0f, -0x1.7061f8p0f, -0x1.7217f4p0f, -0x1.65b0eap0f, -0x1.6ce25cp0f,
     -0x1.db2584p0f, -0x1.670a9cp0f, -0x1.035d5ap0f, -0x1.95a482p0f, -0x1.8267cp0f, -0x1.05f4f6p-2f,
     -0x1.3c8f68p-1f, -0x1.fb197p-1f, -0x1.5d82bp-1f, -0x1.39796ap-1f},
    {0x1.0d1982p1f, 0x1.188p1f, 0x1.dff8ccp0f, 0x1.e082p0f, 0x1.ca114ap0f, 0x1.d0de86p0f,
     0x1.3635p1f, 0x1.c0611cp0f, 0x1.39d1e8p0f, 0x1.f121p0f, 0x1.d44e66p0f, 0x1.64c99ap-2f,
     0x1.90a8p-1f, 0x1.325cp0f, 0x1.be38acp-1f, 0x1.9b138ep-1f},
    {-0x1.19995cp-1f, -0x1.2aaaaap-1f, -0x1.bf0a3ep-2f, -0x1.bcp-2f, -0x1.93e79ep-2f,
     -0x1.97e79ep-2f, -0x1.398e38p-1f, -0x1.74e38ep-2f, -0x1.7e79e8p-3f, -0x1.a5p-2f,
     -0x1.7b3334p-2f, 0x1.133334p-4f, -0x1p-4f, -0x1.6cp-3f, -0x1.78p-4f, -0x1.338e38p-4f},
};

template <typename V>
V exp(const V& x) {
  static constexpr float kSeries[] = {0x1.00007cp0f, 0x1.62c674p-1f, 0x1.ef010ep-3f, 0x1.a82114p-5f,
                                      0x1.bd82dcp-7f};
  return parts::two_to(x * like(x, parts::kLog2E), kSeries);
}

template <typename V>
V logistic(const V& x) {
  // 1 / (1 + e^-x), both over 2^8, as e^-x may be more than f32 has where the result is not 0.
  static constexpr float kSeries[] = {0x1.ffff9ap-1f, 0x1.62d6b2p-1f, 0x1.edfc6cp-3f,
                                      0x1.ae5b92p-5f, 0x1.b156dp-7f};
  const V one = like(x, 0x1p-8f);
  const V power = parts::two_to(fma(x, like(x, -parts::kLog2E), like(x, -8.0f)), kSeries);
  return one / (one + power);
}

template <typename V>
V tanh(const V& x) {
  return parts::odd_piecewise(x, 0x1.ccccccp1f, 0x1.0aaaaap2f, kTanh);
}

template <typename V>
V erf(const V& x) {
  return parts::odd_piecewise(x, 0x1.2p1f, 0x1.b89abcp2f, kErf);
}

template <typename V>
V log(const V& x) {
  const V m = significand(x);
  return fma(exponent(x), like(x, parts::kLn2), parts::piecewise(kLog, bits_of(m) >> 19, m));
}

}  // namespace plimsoll::math::bf16
