// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// The plain instantiation of the value types that the functions of this folder are written over.
//
// A family of value types is four classes V (f32), I (32-bit integer), W (f64) and M (mask), each
// holding one number or a vector of them, with these operations, found by argument-dependent
// lookup. All of them are IEEE, rounded to nearest even, without flushing subnormals, and work lane
// by lane:
//   V: a+b a-b a*b a/b -a; fma(a,b,c), rounded once; sqrt(a); < <= > >= == giving M, false on NaN;
//      !=, true on NaN; select(M,a,b); bits_of(V)->I; to_float(I)->V; widen(V)->W;
//      like(V,float)->V, a constant (the first argument only says where and how wide)
//   I: a+b a-b, wrapping; a&b a|b a^b; a<<n, a>>n (arithmetic) with n a plain int in 0..31;
//      < and == giving M; select(M,a,b); from_bits(I)->V; like(I,std::int32_t)->I
//   W: a+b a-b a*b a/b -a; fma(a,b,c); round_even(a); < > == giving M, false on NaN;
//      select(M,a,b); narrow(W)->V; like(W,double)->W
//   M: a&b a|b !a
// The functions convert no float to an integer except through bits, so nothing here is undefined
// for NaN, infinities or huge values, and there are no branches.
namespace plimsoll::math {

struct ScalarMask {
  bool value;
};
struct ScalarI32 {
  std::int32_t value;
};
struct ScalarF32 {
  float value;
};
struct ScalarF64 {
  double value;
};

inline ScalarMask operator&(ScalarMask a, ScalarMask b) { return {a.value && b.value}; }
inline ScalarMask operator|(ScalarMask a, ScalarMask b) { return {a.value || b.value}; }
inline ScalarMask operator!(ScalarMask a) { return {!a.value}; }

inline ScalarI32 wrap(std::uint32_t bits) { return {static_cast<std::int32_t>(bits)}; }
inline std::uint32_t lane_bits(ScalarI32 a) { return static_cast<std::uint32_t>(a.value); }
inline ScalarI32 operator+(ScalarI32 a, ScalarI32 b) { return wrap(lane_bits(a) + lane_bits(b)); }
inline ScalarI32 operator-(ScalarI32 a, ScalarI32 b) { return wrap(lane_bits(a) - lane_bits(b)); }
inline ScalarI32 operator&(ScalarI32 a, ScalarI32 b) { return {a.value & b.value}; }
inline ScalarI32 operator|(ScalarI32 a, ScalarI32 b) { return {a.value | b.value}; }
inline ScalarI32 operator^(ScalarI32 a, ScalarI32 b) { return {a.value ^ b.value}; }
inline ScalarI32 operator<<(ScalarI32 a, int n) { return wrap(lane_bits(a) << n); }
inline ScalarI32 operator>>(ScalarI32 a, int n) { return {a.value >> n}; }
inline ScalarMask operator<(ScalarI32 a, ScalarI32 b) { return {a.value < b.value}; }
inline ScalarMask operator==(ScalarI32 a, ScalarI32 b) { return {a.value == b.value}; }
inline ScalarI32 select(ScalarMask m, ScalarI32 a, ScalarI32 b) { return m.value ? a : b; }
inline ScalarI32 like(ScalarI32, std::int32_t value) { return {value}; }

inline ScalarF32 operator+(ScalarF32 a, ScalarF32 b) { return {a.value + b.value}; }
inline ScalarF32 operator-(ScalarF32 a, ScalarF32 b) { return {a.value - b.value}; }
inline ScalarF32 operator*(ScalarF32 a, ScalarF32 b) { return {a.value * b.value}; }
inline ScalarF32 operator/(ScalarF32 a, ScalarF32 b) { return {a.value / b.value}; }
inline ScalarF32 operator-(ScalarF32 a) { return {-a.value}; }
inline ScalarMask operator<(ScalarF32 a, ScalarF32 b) { return {a.value < b.value}; }
inline ScalarMask operator<=(ScalarF32 a, ScalarF32 b) { return {a.value <= b.value}; }
inline ScalarMask operator>(ScalarF32 a, ScalarF32 b) { return {a.value > b.value}; }
inline ScalarMask operator>=(ScalarF32 a, ScalarF32 b) { return {a.value >= b.value}; }
inline ScalarMask operator==(ScalarF32 a, ScalarF32 b) { return {a.value == b.value}; }
inline ScalarMask operator!=(ScalarF32 a, ScalarF32 b) { return {a.value != b.value}; }
inline ScalarF32 fma(ScalarF32 a, ScalarF32 b, ScalarF32 c) {
  return {std::fma(a.value, b.value, c.value)};
}
inline ScalarF32 sqrt(ScalarF32 a) { return {std::sqrt(a.value)}; }
inline ScalarF32 select(ScalarMask m, ScalarF32 a, ScalarF32 b) { return m.value ? a : b; }
inline ScalarF32 like(ScalarF32, float value) { return {value}; }

inline ScalarF64 operator+(ScalarF64 a, ScalarF64 b) { return {a.value + b.value}; }
inline ScalarF64 operator-(ScalarF64 a, ScalarF64 b) { return {a.value - b.value}; }
inline ScalarF64 operator*(ScalarF64 a, ScalarF64 b) { return {a.value * b.value}; }
inline ScalarF64 operator/(ScalarF64 a, ScalarF64 b) { return {a.value / b.value}; }
inline ScalarF64 operator-(ScalarF64 a) { return {-a.value}; }
inline ScalarMask operator<(ScalarF64 a, ScalarF64 b) { return {a.value < b.value}; }
inline ScalarMask operator>(ScalarF64 a, ScalarF64 b) { return {a.value > b.value}; }
inline ScalarMask operator==(ScalarF64 a, ScalarF64 b) { return {a.value == b.value}; }
inline ScalarF64 fma(ScalarF64 a, ScalarF64 b, ScalarF64 c) {
  return {std::fma(a.value, b.value, c.value)};
}
inline ScalarF64 round_even(ScalarF64 a) { return {std::nearbyint(a.value)}; }
inline ScalarF64 select(ScalarMask m, ScalarF64 a, ScalarF64 b) { return m.value ? a : b; }
inline ScalarF64 like(ScalarF64, double value) { return {value}; }

inline ScalarI32 bits_of(ScalarF32 a) { return {std::bit_cast<std::int32_t>(a.value)}; }
inline ScalarF32 from_bits(ScalarI32 a) { return {std::bit_cast<float>(a.value)}; }
inline ScalarF32 to_float(ScalarI32 a) { return {static_cast<float>(a.value)}; }
inline ScalarF64 widen(ScalarF32 a) { return {static_cast<double>(a.value)}; }
inline ScalarF32 narrow(ScalarF64 a) { return {static_cast<float>(a.value)}; }

}  // namespace plimsoll::math
