// SPDX-License-Identifier: Apache-2.0
#pragma once

// Functions as polynomials of their own in each of 16 ranges: `kErf` and `kTanh` are f(a) / a - 1
// in ranges below 0.9 and 1, f(a) - 1 beyond. Coefficients are minimax fits (Lawson's iteration)
// or, where these gain nothing, interpolate at Chebyshev's nodes; each one is rounded before the
// others are fitted to what it leaves.
namespace plimsoll::math::parts {

// c[0][i] + u (c[1][i] + u (...)), `range` ending in the four bits of i.
template <typename V, typename I, int N>
V piecewise(const float (&c)[N][16], const I& range, const V& u) {
  V sum = lookup(c[N - 1], range);
  for (int d = N - 2; d >= 0; --d) sum = fma(sum, u, lookup(c[d], range));
  return sum;
}

// By powers of u = a - i * 33 / 128, range i where |u| <= 33 / 256.
inline constexpr float kErf[6][16] = {
    {0x1.06eba8p-3f, 0x1.a9735ep-4f, 0x1.25e348p-5f, -0x1.f6de36p-5f, -0x1.28674p-3f,
     -0x1.17c3c2p-4f, -0x1.d62fbep-6f, -0x1.5ec068p-7f, -0x1.cf80d4p-9f, -0x1.0ec294p-10f,
     -0x1.174578p-12f, -0x1.fc01dcp-15f, -0x1.970b06p-17f, -0x1.1f186cp-19f, -0x1.6443fep-22f,
     -0x1.84b37ep-25f},
    {-0x1.ba6f2cp-25f, -0x1.7db812p-3f, -0x1.5373cep-2f, -0x1.a55484p-2f, 0x1.8eed36p-2f,
     0x1.b6a856p-3f, 0x1.a64de6p-4f, 0x1.63f3f4p-5f, 0x1.06ae12p-6f, 0x1.536fc2p-8f,
     0x1.8005f4p-10f, 0x1.7c62a6p-12f, 0x1.49e18ep-14f, 0x1.f4f176p-17f, 0x1.4d0288p-19f,
     0x1.83a2aap-22f},
    {-0x1.812656p-2f, -0x1.54d9eap-2f, -0x1.c6bf8ep-3f, -0x1.6a14fep-4f, -0x1.9b64d6p-2f,
     -0x1.1abb18p-2f, -0x1.46a134p-3f, -0x1.4131dep-4f, -0x1.0ee358p-5f, -0x1.89c9f8p-7f,
     -0x1.eeff18p-9f, -0x1.0da6ecp-10f, -0x1.fe2c1p-13f, -0x1.a3974ep-15f, -0x1.2c563p-17f,
     -0x1.767ebcp-20f},
    {-0x1.bd289cp-14f, 0x1.b83d74p-4f, 0x1.59b318p-3f, 0x1.559dep-3f, 0x1.2bb5a2p-3f,
     0x1.53b842p-3f, 0x1.0a737p-3f, 0x1.471cdp-4f, 0x1.48b21ap-5f, 0x1.144b1cp-6f, 0x1.896834p-8f,
     0x1.de271ap-10f, 0x1.f2afe2p-12f, 0x1.bff7b8p-14f, 0x1.5b8ccap-16f, 0x1.d2be64p-19f},
    {0x1.d4624cp-4f, 0x1.655b2cp-4f, 0x1.d282d6p-6f, -0x1.d8ebbp-6f, 0x1.e032c6p-5f,
     -0x1.d8a55cp-7f, -0x1.81d41ap-5f, -0x1.770e08p-5f, -0x1.f19d48p-6f, -0x1.ffecdap-7f,
     -0x1.abfc74p-8f, -0x1.29978p-9f, -0x1.5cd632p-11f, -0x1.5ba0a4p-13f, -0x1.283bdep-15f,
     -0x1.b18caap-18f},
    {-0x1.51586ap-7f, -0x1.2b7a4p-5f, -0x1.978da4p-5f, -0x1.23b0fep-5f, -0x1.152edap-4f,
     -0x1.586b0cp-5f, -0x1.411376p-7f, 0x1.289cf2p-7f, 0x1.a80c28p-7f, 0x1.3340b4p-7f,
     0x1.40f0acp-8f, 0x1.07b8e4p-9f, 0x1.61c9bcp-11f, 0x1.8b1dd2p-13f, 0x1.73c74p-15f,
     0x1.2911f6p-17f},
};

// By powers of u = a - the middle of a range; ranges by bits 21 to 24 of a + 3/4.
inline constexpr float kTanh[7][16] = {
    {-0x1.848344p-4f, -0x1.26afa2p-5f, -0x1.b69f68p-7f, -0x1.441778p-8f, -0x1.21d0aap-10f,
     -0x1.39ed7ep-13f, -0x1.53e7f6p-16f, -0x1.700376p-19f, -0x1.25284cp-23f, -0x1.675026p-29f,
     -0x1.54cd04p-10f, -0x1.7aacfep-7f, -0x1.6b902cp-5f, -0x1.cd6012p-4f, -0x1.90756ap-3f,
     -0x1.868d2ap-3f},
    {0x1.721646p-3f, 0x1.2162bep-4f, 0x1.b3afe4p-6f, 0x1.434a52p-7f, 0x1.21a932p-9f,
     0x1.39e948p-12f, 0x1.53e82ep-15f, 0x1.700488p-18f, 0x1.2569ecp-22f, 0x1.1a106ep-28f,
     -0x1.5444eap-5f, -0x1.f1e6d2p-4f, -0x1.caf816p-3f, -0x1.3f63eep-2f, -0x1.5f05f6p-2f,
     0x1.615002p-2f},
    {-0x1.4efbc6p-3f, -0x1.16f9c6p-4f, -0x1.addae4p-6f, -0x1.41b0c8p-7f, -0x1.2156fcp-9f,
     -0x1.39dd1p-12f, -0x1.53e5eep-15f, -0x1.7003bep-18f, -0x1.254cap-22f, -0x1.1274f4p-27f,
     -0x1.52255cp-2f, -0x1.3988p-2f, -0x1.e1dc0ep-3f, -0x1.d8918cp-4f, -0x1.ce17a8p-7f,
     -0x1.1deda6p-2f},
    {0x1.67bf74p-4f, 0x1.58f9a2p-5f, 0x1.16de7cp-6f, 0x1.a8aa0ap-8f, 0x1.808be4p-10f,
     0x1.a1e8ccp-13f, 0x1.c4d508p-16f, 0x1.ea4eaap-19f, 0x1.81d196p-23f, -0x1.22d54ep-29f,
     0x1.0eeaa8p-5f, 0x1.7d9582p-4f, 0x1.3590cep-3f, 0x1.3fa0fp-3f, 0x1.c0f676p-4f, 0x1.c69082p-4f},
    {-0x1.99241p-6f, -0x1.252ceap-6f, -0x1.07b694p-7f, -0x1.a058a6p-9f, -0x1.7ee4f4p-11f,
     -0x1.a1b162p-14f, -0x1.c4e1ep-17f, -0x1.ea6552p-20f, -0x1.831e28p-24f, -0x1.012f6p-27f,
     0x1.0aa332p-3f, 0x1.b4fdaap-4f, 0x1.726936p-5f, -0x1.e7cbbcp-6f, -0x1.c4185p-5f,
     0x1.011d14p-9f},
    {-0x1.944f8cp-9f, 0x1.349f6cp-8f, 0x1.777584p-9f, 0x1.419b78p-10f, 0x1.3bfd7p-12f,
     0x1.5c23c6p-15f, 0x1.779682p-18f, 0x1.96c4e6p-21f, 0x1.68450ap-25f, -0x1.8c2088p-29f,
     -0x1.45b1bp-6f, -0x1.b2079ep-5f, -0x1.1f938ap-4f, -0x1.52fbcep-5f, -0x1.f7b5eap-9f,
     -0x1.07ebbap-5f},
    {0x1.da97f2p-8f, -0x1.984b5ep-14f, -0x1.76f826p-11f, -0x1.7fc0d8p-12f, -0x1.9c5016p-14f,
     -0x1.ce4a04p-17f, -0x1.f2640ap-20f, -0x1.0df72ap-22f, -0x1.d80b06p-27f, -0x1.603e7cp-30f,
     -0x1.a59b6ep-5f, -0x1.1aeacap-5f, 0x1.756ec8p-9f, 0x1.d24932p-5f, -0x1.9ca28ap-8f,
     0x1.2e01e4p-4f},
};

}  // namespace plimsoll::math::parts
