// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

// The plain instantiation of the value types that the functions of this folder are written over.
//
// A family of value types is five classes V (f32), W (f64), I and L (integers of 32 and 64 bits)
// and M (mask), each holding one number or a vector of them, with these operations, found by
// argument-dependent lookup. All of them are IEEE, rounded to nearest even, without flushing
// subnormals, and work lane by lane:
//   V, W: a+b a-b a*b a/b -a; fma(a,b,c), rounded once; sqrt(a); round_even(a); < <= > >= == giving
//   M, false on
//      NaN; !=, true on NaN; select(M,a,b); bits_of(V)->I, bits_of(W)->L; to_float(I)->V;
//      widen(V)->W, narrow(W)->V; like(V,float)->V, like(W,double)->W, a constant
//      (the first argument only says where and how wide)
//   V: times_power(a, n): a * 2^n for a whole n, -254 <= n <= 254, rounded once where 2^-64 < |a| <
//   2^64;
//      lookup(float[16], I)->V: the number that the lowest four bits of the integer say
//   W: at_lanes(M,a,LaneFunction,x): function(x) in the lanes of M, `a` elsewhere,
//      quick as long as no lane is in M
//   V, W: in_own_function(name, x, f): f(x), which may use at_lanes;
//      underflows_slowly(a)->bool: arithmetic takes many times as long where it underflows
//   I, L: a+b a-b, wrapping; a&b a|b a^b; a<<n, a>>n (arithmetic) with n a plain int below the
//      width; < and == giving M; select(M,a,b); from_bits(I)->V, from_bits(L)->W;
//      like(I,std::int32_t)->I, like(L,std::int64_t)->L
//   M: a&b a|b !a
// The functions convert no float to an integer except through bits, so nothing here is undefined
// for NaN, infinities or huge values, and there are no branches but those of at_lanes.
//
// Beyond what those functions need, value types carry the operations that runtime/ir/ops.def calls
// their own: V, W below, integers of every width and M in integer.h.
namespace plimsoll::math {

enum class Kind { f32, f64, integer, predicate };

struct ScalarMask {
  static constexpr Kind kKind = Kind::predicate;
  bool value;
};
template <typename T>
struct ScalarInteger {
  static constexpr Kind kKind = Kind::integer;
  T value;
};
template <typename T>
struct ScalarFloat {
  static constexpr Kind kKind = sizeof(T) == 4 ? Kind::f32 : Kind::f64;
  T value;
};
using ScalarI32 = ScalarInteger<std::int32_t>;
using ScalarI64 = ScalarInteger<std::int64_t>;
using ScalarF32 = ScalarFloat<float>;
using ScalarF64 = ScalarFloat<double>;

inline ScalarMask operator&(ScalarMask a, ScalarMask b) { return {a.value && b.value}; }
inline ScalarMask operator|(ScalarMask a, ScalarMask b) { return {a.value || b.value}; }
inline ScalarMask operator!(ScalarMask a) { return {!a.value}; }

template <typename T>
ScalarInteger<T> wrap(std::make_unsigned_t<T> bits) {
  return {static_cast<T>(bits)};
}
template <typename T>
std::make_unsigned_t<T> lane_bits(ScalarInteger<T> a) {
  return static_cast<std::make_unsigned_t<T>>(a.value);
}
template <typename T>
ScalarInteger<T> operator+(ScalarInteger<T> a, ScalarInteger<T> b) {
  return wrap<T>(lane_bits(a) + lane_bits(b));
}
template <typename T>
ScalarInteger<T> operator-(ScalarInteger<T> a, ScalarInteger<T> b) {
  return wrap<T>(lane_bits(a) - lane_bits(b));
}
template <typename T>
ScalarInteger<T> operator&(ScalarInteger<T> a, ScalarInteger<T> b) {
  return {a.value & b.value};
}
template <typename T>
ScalarInteger<T> operator|(ScalarInteger<T> a, ScalarInteger<T> b) {
  return {a.value | b.value};
}
template <typename T>
ScalarInteger<T> operator^(ScalarInteger<T> a, ScalarInteger<T> b) {
  return {a.value ^ b.value};
}
template <typename T>
ScalarInteger<T> operator<<(ScalarInteger<T> a, int n) {
  return wrap<T>(lane_bits(a) << n);
}
template <typename T>
ScalarInteger<T> operator>>(ScalarInteger<T> a, int n) {
  return {a.value >> n};
}
template <typename T>
ScalarMask operator<(ScalarInteger<T> a, ScalarInteger<T> b) {
  return {a.value < b.value};
}
template <typename T>
ScalarMask operator==(ScalarInteger<T> a, ScalarInteger<T> b) {
  return {a.value == b.value};
}
template <typename T>
ScalarInteger<T> select(ScalarMask m, ScalarInteger<T> a, ScalarInteger<T> b) {
  return m.value ? a : b;
}
inline ScalarI32 like(ScalarI32, std::int32_t value) { return {value}; }
inline ScalarI64 like(ScalarI64, std::int64_t value) { return {value}; }

template <typename T>
ScalarFloat<T> operator+(ScalarFloat<T> a, ScalarFloat<T> b) {
  return {a.value + b.value};
}
template <typename T>
ScalarFloat<T> operator-(ScalarFloat<T> a, ScalarFloat<T> b) {
  return {a.value - b.value};
}
template <typename T>
ScalarFloat<T> operator*(ScalarFloat<T> a, ScalarFloat<T> b) {
  return {a.value * b.value};
}
template <typename T>
ScalarFloat<T> operator/(ScalarFloat<T> a, ScalarFloat<T> b) {
  return {a.value / b.value};
}
template <typename T>
ScalarFloat<T> operator-(ScalarFloat<T> a) {
  return {-a.value};
}
template <typename T>
ScalarMask operator<(ScalarFloat<T> a, ScalarFloat<T> b) {
  return {a.value < b.value};
}
template <typename T>
ScalarMask operator<=(ScalarFloat<T> a, ScalarFloat<T> b) {
  return {a.value <= b.value};
}
template <typename T>
ScalarMask operator>(ScalarFloat<T> a, ScalarFloat<T> b) {
  return {a.value > b.value};
}
template <typename T>
ScalarMask operator>=(ScalarFloat<T> a, ScalarFloat<T> b) {
  return {a.value >= b.value};
}
template <typename T>
ScalarMask operator==(ScalarFloat<T> a, ScalarFloat<T> b) {
  return {a.value == b.value};
}
template <typename T>
ScalarMask operator!=(ScalarFloat<T> a, ScalarFloat<T> b) {
  return {a.value != b.value};
}
template <typename T>
ScalarFloat<T> fma(ScalarFloat<T> a, ScalarFloat<T> b, ScalarFloat<T> c) {
  return {std::fma(a.value, b.value, c.value)};
}
template <typename T>
ScalarFloat<T> sqrt(ScalarFloat<T> a) {
  return {std::sqrt(a.value)};
}
template <typename T>
ScalarFloat<T> select(ScalarMask m, ScalarFloat<T> a, ScalarFloat<T> b) {
  return m.value ? a : b;
}
template <typename T>
ScalarFloat<T> round_even(ScalarFloat<T> a) {
  return {std::nearbyint(a.value)};
}
inline ScalarF32 like(ScalarF32, float value) { return {value}; }
inline ScalarF64 like(ScalarF64, double value) { return {value}; }

inline ScalarI32 bits_of(ScalarF32 a) { return {std::bit_cast<std::int32_t>(a.value)}; }
inline ScalarI64 bits_of(ScalarF64 a) { return {std::bit_cast<std::int64_t>(a.value)}; }
inline ScalarF32 from_bits(ScalarI32 a) { return {std::bit_cast<float>(a.value)}; }
inline ScalarF64 from_bits(ScalarI64 a) { return {std::bit_cast<double>(a.value)}; }
inline ScalarF32 to_float(ScalarI32 a) { return {static_cast<float>(a.value)}; }
inline ScalarF64 widen(ScalarF32 a) { return {static_cast<double>(a.value)}; }
inline ScalarF32 narrow(ScalarF64 a) { return {static_cast<float>(a.value)}; }

// By the bits of two powers, for V that have no instruction for it.
template <typename V>
V times_two_powers(const V& a, const V& n) {
  // Adding 1.5 * 2^23 leaves a whole number in the low bits.
  const auto bits = bits_of(n + like(n, 12582912.0f));
  const auto whole = bits - like(bits, std::int32_t{0x4b400000});
  const auto half = whole >> 1;
  const auto one = like(bits, std::int32_t{0x3f800000});
  // The bits of 2^-127 are those of zero.
  return a * from_bits((half << 23) + one) * from_bits(((whole - half) << 23) + one);
}
inline ScalarF32 times_power(ScalarF32 a, ScalarF32 n) { return times_two_powers(a, n); }

inline ScalarF32 lookup(const float (&table)[16], ScalarI32 i) { return {table[i.value & 15]}; }

// A function for the few lanes that vector code does not reach. Generated code calls it by its
// symbol, which is in the compiler's list (jit/emit/vector_math.cc).
struct LaneFunction {
  const char* symbol;
  double (*function)(double);
};

inline ScalarF64 at_lanes(ScalarMask lanes, ScalarF64 otherwise, const LaneFunction& function,
                          ScalarF64 x) {
  return lanes.value ? ScalarF64{function.function(x.value)} : otherwise;
}

template <typename T>
bool underflows_slowly(ScalarFloat<T>) {
  return true;
}

template <typename T, typename F>
ScalarFloat<T> in_own_function(const char*, ScalarFloat<T> x, F f) {
  return f(x);
}

template <std::floating_point T>
ScalarFloat<T> abs(ScalarFloat<T> x) {
  return {std::fabs(x.value)};
}
template <std::floating_point T>
ScalarFloat<T> negate(ScalarFloat<T> x) {
  return -x;
}
// Zeros and NaN stay.
template <std::floating_point T>
ScalarFloat<T> sign(ScalarFloat<T> x) {
  return x.value > 0 ? ScalarFloat<T>{1} : x.value < 0 ? ScalarFloat<T>{-1} : x;
}
template <std::floating_point T>
ScalarFloat<T> ceil(ScalarFloat<T> x) {
  return {std::ceil(x.value)};
}
template <std::floating_point T>
ScalarFloat<T> floor(ScalarFloat<T> x) {
  return {std::floor(x.value)};
}
template <std::floating_point T>
ScalarFloat<T> round_half_away(ScalarFloat<T> x) {
  return {std::round(x.value)};
}
template <std::floating_point T>
ScalarFloat<T> add(ScalarFloat<T> a, ScalarFloat<T> b) {
  return a + b;
}
template <std::floating_point T>
ScalarFloat<T> subtract(ScalarFloat<T> a, ScalarFloat<T> b) {
  return a - b;
}
template <std::floating_point T>
ScalarFloat<T> multiply(ScalarFloat<T> a, ScalarFloat<T> b) {
  return a * b;
}
template <std::floating_point T>
ScalarFloat<T> divide(ScalarFloat<T> a, ScalarFloat<T> b) {
  return a / b;
}
template <std::floating_point T>
ScalarFloat<T> remainder(ScalarFloat<T> a, ScalarFloat<T> b) {
  return {std::fmod(a.value, b.value)};
}
// NaN if either is NaN; +0 is above -0.
template <std::floating_point T>
ScalarFloat<T> maximum(ScalarFloat<T> a, ScalarFloat<T> b) {
  if (std::isnan(a.value) || std::isnan(b.value)) return {std::numeric_limits<T>::quiet_NaN()};
  if (a.value == b.value) return std::signbit(a.value) ? b : a;
  return a.value > b.value ? a : b;
}
template <std::floating_point T>
ScalarFloat<T> minimum(ScalarFloat<T> a, ScalarFloat<T> b) {
  if (std::isnan(a.value) || std::isnan(b.value)) return {std::numeric_limits<T>::quiet_NaN()};
  if (a.value == b.value) return std::signbit(a.value) ? a : b;
  return a.value < b.value ? a : b;
}

}  // namespace plimsoll::math
