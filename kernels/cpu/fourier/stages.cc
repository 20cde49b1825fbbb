// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/fourier/stages.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "kernels/cpu/clones.h"

// The butterflies are written once, over one number and over a vector of eight, and compiled for
// several instruction sets; products and sums round one by one, in the same order in all of them.
#define PLIMSOLL_INLINE inline __attribute__((always_inline))

namespace plimsoll::kernels {
namespace {

typedef double EightDoubles __attribute__((vector_size(64)));

template <typename V>
struct Number {
  V re, im;

  static PLIMSOLL_INLINE Number load(const ComplexLines& from, std::int64_t at) {
    Number x;
    std::memcpy(&x.re, from.re + at, sizeof(V));
    std::memcpy(&x.im, from.im + at, sizeof(V));
    return x;
  }
  PLIMSOLL_INLINE void store(const ComplexLines& to, std::int64_t at) const {
    std::memcpy(to.re + at, &re, sizeof(V));
    std::memcpy(to.im + at, &im, sizeof(V));
  }
  PLIMSOLL_INLINE Number times(double by_re, double by_im) const {
    return {re * by_re - im * by_im, re * by_im + im * by_re};
  }
  PLIMSOLL_INLINE Number times(double by) const { return {re * by, im * by}; }
  PLIMSOLL_INLINE Number operator+(const Number& b) const { return {re + b.re, im + b.im}; }
  PLIMSOLL_INLINE Number operator-(const Number& b) const { return {re - b.re, im - b.im}; }
  // The sum with i times `b`, and with -i times it.
  PLIMSOLL_INLINE Number plus_i(const Number& b) const { return {re - b.im, im + b.re}; }
  PLIMSOLL_INLINE Number minus_i(const Number& b) const { return {re + b.im, im - b.re}; }
};

template <int Radix, typename V>
PLIMSOLL_INLINE void butterfly(Number<V>* x) {
  if constexpr (Radix == 2) {
    const Number<V> a = x[0];
    x[0] = a + x[1];
    x[1] = a - x[1];
  } else if constexpr (Radix == 3) {
    constexpr double kSine = 0.86602540378443864676;  // of 60 degrees
    const Number<V> sum = x[1] + x[2], turned = (x[1] - x[2]).times(kSine);
    const Number<V> rest = x[0] - sum.times(0.5);
    x[0] = x[0] + sum;
    x[1] = rest.minus_i(turned);
    x[2] = rest.plus_i(turned);
  } else if constexpr (Radix == 4) {
    const Number<V> even = x[0] + x[2], even_less = x[0] - x[2];
    const Number<V> odd = x[1] + x[3], odd_less = x[1] - x[3];
    x[0] = even + odd;
    x[1] = even_less.minus_i(odd_less);
    x[2] = even - odd;
    x[3] = even_less.plus_i(odd_less);
  } else {
    static_assert(Radix == 5);
    constexpr double kCosine1 = 0.30901699437494742410, kSine1 = 0.95105651629515357212;
    constexpr double kCosine2 = -0.80901699437494742410, kSine2 = 0.58778525229247312917;
    const Number<V> outer = x[1] + x[4], inner = x[2] + x[3];
    const Number<V> outer_less = x[1] - x[4], inner_less = x[2] - x[3];
    const Number<V> rest1 = x[0] + outer.times(kCosine1) + inner.times(kCosine2);
    const Number<V> rest2 = x[0] + outer.times(kCosine2) + inner.times(kCosine1);
    const Number<V> turned1 = outer_less.times(kSine1) + inner_less.times(kSine2);
    const Number<V> turned2 = outer_less.times(kSine2) - inner_less.times(kSine1);
    x[0] = x[0] + outer + inner;
    x[1] = rest1.minus_i(turned1);
    x[2] = rest2.minus_i(turned2);
    x[3] = rest2.plus_i(turned2);
    x[4] = rest1.plus_i(turned1);
  }
}

// Butterfly p at q of the stride.
template <int Radix, typename V>
PLIMSOLL_INLINE void transform_numbers(const FourierStage& stage, const ComplexLines& x,
                                       const ComplexLines& y, std::int64_t stride, std::int64_t p,
                                       std::int64_t q) {
  Number<V> numbers[Radix];
  for (std::int64_t j = 0; j < Radix; ++j) {
    numbers[j] = Number<V>::load(x, stride * (p + stage.count * j) + q);
  }
  butterfly<Radix, V>(numbers);
  if (stage.count > 1) {
    const std::size_t twiddle = static_cast<std::size_t>(p * (Radix - 1));
    for (std::size_t k = 1; k < Radix; ++k) {
      numbers[k] = numbers[k].times(stage.re[twiddle + k - 1], stage.im[twiddle + k - 1]);
    }
  }
  for (std::int64_t k = 0; k < Radix; ++k) numbers[k].store(y, stride * (Radix * p + k) + q);
}

template <int Radix>
PLIMSOLL_INLINE void transform_all(const FourierStage& stage, const ComplexLines& x,
                                   const ComplexLines& y, std::int64_t stride) {
  for (std::int64_t p = 0; p < stage.count; ++p) {
    std::int64_t q = 0;
    for (; q + 8 <= stride; q += 8) {
      transform_numbers<Radix, EightDoubles>(stage, x, y, stride, p, q);
    }
    for (; q < stride; ++q) transform_numbers<Radix, double>(stage, x, y, stride, p, q);
  }
}

// Any odd radix r, by the square of h = (r - 1) / 2: numbers j and r - j meet the same cosines, and
// sines of opposite signs, and so do results k and r - k. Each is read once: they lie far apart.
template <typename V>
PLIMSOLL_INLINE void transform_odd(const FourierStage& stage, const ComplexLines& x,
                                   const ComplexLines& y, std::int64_t stride, std::int64_t p,
                                   std::int64_t q) {
  constexpr std::int64_t kMostPairs = (kLargestFourierRadix - 1) / 2;
  const std::int64_t radix = stage.radix, pairs = (radix - 1) / 2;
  const auto read = [&](std::int64_t j) {
    return Number<V>::load(x, stride * (p + stage.count * j) + q);
  };
  const auto write = [&](std::int64_t k, Number<V> number) {
    if (k > 0 && stage.count > 1) {
      const std::size_t twiddle = static_cast<std::size_t>(p * (radix - 1) + k - 1);
      number = number.times(stage.re[twiddle], stage.im[twiddle]);
    }
    number.store(y, stride * (radix * p + k) + q);
  };
  const Number<V> first = read(0);
  Number<V> sums[kMostPairs], differences[kMostPairs], all = first;
  for (std::int64_t j = 0; j < pairs; ++j) {
    const Number<V> a = read(j + 1), b = read(radix - 1 - j);
    sums[j] = a + b;
    differences[j] = a - b;
    all = all + sums[j];
  }
  write(0, all);
  for (std::int64_t k = 1; k <= pairs; ++k) {
    Number<V> rest = first, turned = {};
    std::int64_t turn = 0;  // (j + 1) * k modulo the radix
    for (std::int64_t j = 0; j < pairs; ++j) {
      turn += k;
      if (turn >= radix) turn -= radix;
      const std::size_t root = static_cast<std::size_t>(turn);
      rest = rest + sums[j].times(stage.root_re[root]);
      turned = turned + differences[j].times(stage.root_im[root]);
    }
    write(k, rest.plus_i(turned));
    write(radix - k, rest.minus_i(turned));
  }
}

PLIMSOLL_CLONES void run_stage(const FourierStage& stage, const ComplexLines& x,
                               const ComplexLines& y, std::int64_t stride) {
  switch (stage.radix) {
    case 2:
      return transform_all<2>(stage, x, y, stride);
    case 3:
      return transform_all<3>(stage, x, y, stride);
    case 4:
      return transform_all<4>(stage, x, y, stride);
    case 5:
      return transform_all<5>(stage, x, y, stride);
    default:
      break;
  }
  for (std::int64_t p = 0; p < stage.count; ++p) {
    std::int64_t q = 0;
    for (; q + 8 <= stride; q += 8) {
      transform_odd<EightDoubles>(stage, x, y, stride, p, q);
    }
    for (; q < stride; ++q) transform_odd<double>(stage, x, y, stride, p, q);
  }
}

}  // namespace

RootOfUnity::RootOfUnity(std::size_t j, std::size_t n) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(j % n) / static_cast<double>(n);
  re = std::cos(angle);
  im = std::sin(angle);
}

FourierStage::FourierStage(std::int64_t of_radix, std::int64_t of_count)
    : radix(of_radix), count(of_count) {
  const std::size_t r = static_cast<std::size_t>(radix), m = static_cast<std::size_t>(count);
  for (std::size_t p = 0; p < m && m > 1; ++p) {
    for (std::size_t k = 1; k < r; ++k) {
      const RootOfUnity root(p * k, r * m);
      re.push_back(root.re);
      im.push_back(root.im);
    }
  }
  for (std::size_t k = 0; k < r && r > 5; ++k) {
    const RootOfUnity root(k, r);
    root_re.push_back(root.re);
    root_im.push_back(root.im);
  }
}

void FourierStage::run(ComplexLines x, ComplexLines y, std::int64_t stride) const {
  run_stage(*this, x, y, stride);
}

}  // namespace plimsoll::kernels
