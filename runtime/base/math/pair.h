// SPDX-License-Identifier: Apache-2.0
#pragma once

// Arithmetic on unevaluated sums of two floats (Dekker 1971; Knuth, TAOCP 2, 4.2.2; with fma as in
// Muller et al., Handbook of Floating-Point Arithmetic, chapter 4), for any float value type of
// scalar.h. "Exact" holds barring overflow and underflow.
namespace plimsoll::math {

template <typename T>
struct Pair {
  T high, low;
};

// a + b, exactly.
template <typename T>
Pair<T> two_sum(const T& a, const T& b) {
  const T sum = a + b;
  const T from_b = sum - a;
  return {sum, (a - (sum - from_b)) + (b - from_b)};
}

// a + b, exactly where |a| >= |b| or a == 0.
template <typename T>
Pair<T> fast_two_sum(const T& a, const T& b) {
  const T sum = a + b;
  return {sum, b - (sum - a)};
}

// a * b, exactly.
template <typename T>
Pair<T> two_product(const T& a, const T& b) {
  const T product = a * b;
  return {product, fma(a, b, -product)};
}

// Both to about twice the precision.
template <typename T>
Pair<T> multiply(const Pair<T>& a, const Pair<T>& b) {
  const Pair<T> product = two_product(a.high, b.high);
  return {product.high, fma(a.high, b.low, fma(a.low, b.high, product.low))};
}
template <typename T>
Pair<T> divide(const Pair<T>& a, const Pair<T>& b) {
  const T reciprocal = like(b.high, 1) / b.high;
  const T quotient = a.high * reciprocal;
  const T rest = fma(-quotient, b.high, a.high) + fma(-quotient, b.low, a.low);
  return {quotient, rest * reciprocal};
}

// a / b, rounded once but for what is lost in the last place of the correction.
template <typename T>
T quotient(const Pair<T>& a, const Pair<T>& b) {
  const T reciprocal = like(b.high, 1) / b.high;
  const T first = a.high * reciprocal;
  const T rest = fma(-first, b.high, a.high) + fma(-first, b.low, a.low);
  return fma(rest, reciprocal, first);
}

// The square root of x.high + x.low >= 0 to about twice the precision; a zero's is zero.
template <typename T>
Pair<T> sqrt_of_pair(const Pair<T>& x) {
  const T root = sqrt(x.high);
  const T rest = fma(-root, root, x.high) + x.low;
  const T zero = like(root, 0);
  return {root, select(root == zero, zero, rest / (root + root))};
}

// x * (1 + c[0] + c[1] x^2 + c[2] x^4 + ...) with terms so large that rounding them would show:
// c[0] and c[1] are given with what their own rounding left, `lost`.
template <typename T, typename C, int N>
T odd_series(const T& x, const C (&c)[N], const C (&lost)[2]) {
  const Pair<T> square = two_product(x, x);
  const T& z = square.high;
  T series = like(x, c[N - 1]);
  for (int i = N - 2; i >= 2; --i) series = fma(series, z, like(x, c[i]));
  const Pair<T> linear = two_product(z, like(x, c[1]));
  const Pair<T> sum = fast_two_sum(linear.high, like(x, c[0]));
  const T slope = fma(z, like(x, 2 * c[2]), like(x, c[1]));
  T rest = fma(z, like(x, lost[1]), like(x, lost[0]));
  rest = fma(square.low, slope, rest) + (linear.low + sum.low);
  return fma(x, sum.high + fma(z * z, series, rest), x);
}

}  // namespace plimsoll::math
