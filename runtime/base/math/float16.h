// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/small_parts.h"

// Functions of f32 value types (scalar.h, binary.h) that hold f16 numbers, for readers that round
// the result to f16: they get what the function of the same name gives (transcendental.h), for less
// work.
namespace plimsoll::math::f16 {

inline constexpr float kTanh[5][16] = {
    {0, 0x1.178dcep-14f, -0x1.53d45cp-10f, -0x1.e5f846p-8f, 0x1.1e9a04p-5f, 0x1.1d68e6p-1f,
     -0x1.e274dcp-3f, -0x1.665574p2f, -0x1.12d1fcp1f, 0x1.1e79ecp3f, 0x1.16dce6p3f, 0x1.672994p5f,
     0x1.a59b64p-1f, 0x1.c8cfc2p-1f, -0x1.69e4e6p3f, -0x1.b43212p3f},
    {0x1.ffffbcp-1f, 0x1.ff3212p-1f, 0x1.01e76ep0f, 0x1.0f8168p0f, 0x1.ec193ap-1f, -0x1.74793ep-2f,
     0x1.c88c24p0f, 0x1.872d94p3f, 0x1.365a4cp2f, -0x1.8faa4ap3f, -0x1.588908p3f, -0x1.b7beb4p5f,
     0x1.8c4d38p-4f, 0x1.a35c58p-7f, 0x1.811758p2f, 0x1.acd84ap2f},
    {0x1.1458b8p-13f, 0x1.d4e72cp-7f, -0x1.3c8efcp-8f, -0x1.2e2dcp-3f, -0x1.790032p-4f,
     0x1.210d4p0f, -0x1.0da0b4p0f, -0x1.155074p3f, -0x1.6f74bep1f, 0x1.d2b74cp2f, 0x1.66a8ep2f,
     0x1.9caf4ap4f, 0, 0, 0, 0},
    {-0x1.58ab44p-2f, -0x1.968ac8p-2f, -0x1.8bba7cp-2f, -0x1.d794cep-3f, -0x1.b216f6p-3f,
     -0x1.608f9ep-1f, 0x1.311b28p-2f, 0x1.618158p1f, 0x1.88a6c6p-1f, -0x1.e1e6f8p0f, -0x1.4ab624p0f,
     -0x1.580f36p2f, -0x1.f97b18p-8f, 0x1.4a830ap-8f, -0x1.6fcac6p-2f, -0x1.678dfap-2f},
    {0x1.1b09aap-5f, 0x1.22772p-3f, 0x1.2dc6ep-3f, 0x1.613dp-4f, 0x1.1caaf8p-4f, 0x1.11cf8ep-3f,
     -0x1.1367a2p-5f, -0x1.542fd8p-2f, -0x1.3dba5ep-4f, 0x1.73e4dcp-3f, 0x1.c852eap-4f,
     0x1.ae12e6p-2f, 0x1.2355bap-10f, -0x1.127bcep-10f, 0x1.67493p-5f, 0x1.491c62p-5f},
};
inline constexpr float kErf[5][16] = {
    {0, 0x1.a1a3c8p-16f, -0x1.21119cp-9f, 0x1.208978p-7f, -0x1.9e636cp-4f, 0x1.156ddcp-3f,
     -0x1.630718p0f, -0x1.76f204p-1f, -0x1.df5e2ap-2f, 0x1.27fdd6p-1f, 0x1.899766p1f, -0x1.6da64p4f,
     0x1.0143a4p5f, 0x1.b478e6p-2f, -0x1.73de2ap0f, -0x1.eb0854p3f},
    {0x1.20dd78p0f, 0x1.20aa8ap0f, 0x1.278edep0f, 0x1.0d462cp0f, 0x1.b86362p0f, 0x1.d6efp-2f,
     0x1.ae0ba8p2f, 0x1.bfe626p1f, 0x1.66674p1f, -0x1.bd5272p-5f, -0x1.79401p2f, 0x1.98097ap5f,
     -0x1.f31b18p5f, 0x1.0139c2p-1f, 0x1.652d1p1f, 0x1.9f8802p3f},
    {-0x1.ef42f2p-15f, 0x1.2c33acp-7f, -0x1.c7fdc8p-4f, 0x1.0739d2p-2f, -0x1.47905p0f, 0x1.404fep0f,
     -0x1.0dd0eep3f, -0x1.70a312p1f, -0x1.1cbaccp1f, 0x1.75bp-1f, 0x1.75d272p2f, -0x1.483606p5f,
     0x1.76069ep5f, 0, -0x1.c9ce0ap-1f, 0},
    {-0x1.7f9082p-2f, -0x1.b4c0fep-2f, -0x1.802aaap-3f, -0x1.951f9cp-1f, 0x1.98058ep-1f,
     -0x1.797098p0f, 0x1.4d5262p2f, 0x1.2075cep0f, 0x1.c3664ap-1f, -0x1.f99298p-2f, -0x1.3d0ecep1f,
     0x1.d6514p3f, -0x1.f18e66p3f, -0x1.932676p-4f, 0, -0x1.061d04p1f},
    {0, 0x1.036e28p-3f, -0x1.bdd14cp-5f, 0x1.4e6b2ap-2f, -0x1.3149bcp-2f, 0x1.e20e0cp-2f,
     -0x1.442e7ap0f, -0x1.5ffcccp-3f, -0x1.29f6cap-3f, 0x1.8f6ac2p-4f, 0x1.8aa14ap-2f,
     -0x1.fa2acep0f, 0x1.efd6acp0f, 0x1.67f486p-6f, 0x1.bf04aep-6f, 0x1.a036c6p-2f},
};
// By powers of m - 1; ranges by the upper four bits of the fraction of m, in [3/4, 3/2).
inline constexpr float kLog[5][16] = {
    {0, 0x1.23c77ep-12f, -0x1.9139c8p-6f, 0x1.8ecc8p-7f, 0x1.07c3d2p-4f, 0x1.549adep-2f,
     0x1.eb43ep-1f, -0x1.82d522p-3f, -0x1.f19edap-1f, -0x1.f1aabap-1f, 0x1.637f8p-4f,
     -0x1.f7a5aep-5f, -0x1.22a834p-8f, 0x1.d0812ep-10f, 0x1.1613e8p-13f, 0},
    {0x1.0000dap0f, 0x1.fae176p-1f, 0x1.a0aaccp0f, 0x1.84be78p-1f, 0x1.7c2eaep-4f, -0x1.6b8822p1f,
     -0x1.0dd8fap3f, 0x1.4e03ecp1f, -0x1.f1508ep3f, -0x1.20e63p4f, 0x1.730f4p1f, -0x1.83d0eap-1f,
     0x1.a5e202p-1f, 0x1.18d7acp0f, 0x1.030768p0f, 0x1.000532p0f},
    {-0x1.01ab9p-1f, -0x1.7cbc4ap-2f, -0x1.9fe352p2f, 0x1.464714p0f, 0x1.125cccp2f, 0x1.01a28ep4f,
     0x1.120d4p5f, -0x1.6859f6p2f, -0x1.a82594p6f, -0x1.190204p7f, 0x1.dfebbep3f, -0x1.354264p4f,
     -0x1.8ec048p1f, 0x1.7a323p0f, -0x1.d981c4p-4f, -0x1.ebe23ap-2f},
    {0x1.04c122p-1f, -0x1.65ad2ap-2f, 0x1.9acd94p4f, -0x1.5cf8aep2f, -0x1.5c80e2p3f, -0x1.f89fdp4f,
     -0x1.c496f4p5f, 0x1.e3e15cp2f, -0x1.2addb4p8f, -0x1.c88718p8f, 0x1.c1c33p5f, -0x1.652172p6f,
     -0x1.0e7adp4f, 0x1.21bc4ep4f, 0x1.6d8c5cp2f, 0x1.a9e724p0f},
    {-0x1.4b4756p1f, 0x1.00b67ap0f, -0x1.4147ep5f, 0x1.b5941cp2f, 0x1.35887p3f, 0x1.6bd544p4f,
     0x1.160bf6p5f, -0x1.fb9916p1f, -0x1.3e5852p8f, -0x1.178332p9f, 0x1.2b30f8p6f, -0x1.4059e2p7f,
     -0x1.565496p5f, 0x1.d9dbfp5f, 0x1.b21d28p4f, 0x1.b1bbeep4f},
};

template <typename V>
V exp(const V& x) {
  // The polynomial takes back what is added to the exponent, which is there to be found well: it
  // decides how products are rounded.
  static constexpr float kSeries[] = {0x1.493fdp-1f,  0x1.c8765p-2f,  0x1.3c0c6p-3f,
                                      0x1.280218p-5f, 0x1.6dfb32p-8f, 0x1.4b04dp-10f};
  return parts::two_to(fma(x, like(x, parts::kLog2E), like(x, 0x1.461fd8p-1f)), kSeries);
}

template <typename V>
V logistic(const V& x) {
  // 1 / (1 + e^-x), with an exponent that is moved as in exp.
  static constexpr float kSeries[] = {0x1.a8acbcp-1f, 0x1.265ec6p-1f, 0x1.97ab14p-3f,
                                      0x1.7ef1cep-5f, 0x1.c368a8p-8f, 0x1.dba308p-10f};
  const V one = like(x, 1.0f);
  const V power = parts::two_to(fma(x, like(x, -parts::kLog2E), like(x, 0x1.1442f8p-2f)), kSeries);
  // Close to a half nothing but a line meets the ties between two numbers.
  const V line = fma(x, like(x, 0.25f), like(x, 0.5f));
  return select(parts::magnitude(x) < like(x, 0x1.2d7732p-7f), line, one / (one + power));
}

template <typename V>
V tanh(const V& x) {
  return parts::odd_piecewise(x, 0x1.2147aep2f, 0x1.b6a7a6p1f, kTanh);
}

template <typename V>
V erf(const V& x) {
  return parts::odd_piecewise(x, 0x1.4e147ap1f, 0x1.7bd4d8p2f, kErf);
}

template <typename V>
V log(const V& x) {
  const V m = significand_about_one(x);
  // The exponent is one more where m was halved.
  const V n = exponent(x * like(x, 0x1.555556p0f));
  return fma(n, like(x, parts::kLn2), parts::piecewise(kLog, bits_of(m) >> 19, m - like(x, 1.0f)));
}

}  // namespace plimsoll::math::f16
