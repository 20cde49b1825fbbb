// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cpu/numeric.h"
#include "kernels/cpu/scalar/scalar_program.h"

namespace plimsoll::kernels {

// combine<kind>(a, b) as the elementwise operations define it: integers wrap, pred adds as "or",
// maximum and minimum give NaN if either is one and put -0 below +0, 16-bit floats are computed in
// f32 and rounded.
template <Combiner kKind, typename T>
inline T combine(T a, T b) {
  if constexpr (kKind == Combiner::second) {
    return b;
  } else if constexpr (kIsHalf<T>) {
    return T(combine<kKind>(static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (std::is_same_v<T, bool>) {
    constexpr bool kOr =
        kKind == Combiner::add || kKind == Combiner::or_ || kKind == Combiner::maximum;
    return kOr ? a || b : a && b;
  } else if constexpr (kKind == Combiner::add || kKind == Combiner::multiply) {
    if constexpr (std::is_floating_point_v<T>) {
      return kKind == Combiner::add ? a + b : a * b;
    } else {
      const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
      return static_cast<T>(kKind == Combiner::add ? x + y : x * y);
    }
  } else if constexpr (kKind == Combiner::maximum || kKind == Combiner::minimum) {
    constexpr bool kMax = kKind == Combiner::maximum;
    if constexpr (std::is_floating_point_v<T>) {
      const T ordered = kMax ? (a > b ? a : b) : (a < b ? a : b);
      const T zero = std::signbit(a) == kMax ? b : a;
      const T number = a == b ? zero : ordered;
      return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : number;
    } else {
      return kMax ? (a > b ? a : b) : (a < b ? a : b);
    }
  } else if constexpr (std::is_integral_v<T>) {
    return kKind == Combiner::and_ ? static_cast<T>(a & b) : static_cast<T>(a | b);
  } else {
    return b;  // bitwise operations on floats do not pass shape inference
  }
}

// Calls `f.template operator()<kind>()` for a known combiner.
template <typename F>
void visit_combiner(Combiner combiner, F&& f) {
  switch (combiner) {
    case Combiner::none:
      return;
    case Combiner::add:
      return f.template operator()<Combiner::add>();
    case Combiner::multiply:
      return f.template operator()<Combiner::multiply>();
    case Combiner::maximum:
      return f.template operator()<Combiner::maximum>();
    case Combiner::minimum:
      return f.template operator()<Combiner::minimum>();
    case Combiner::and_:
      return f.template operator()<Combiner::and_>();
    case Combiner::or_:
      return f.template operator()<Combiner::or_>();
    case Combiner::second:
      return f.template operator()<Combiner::second>();
  }
}

}  // namespace plimsoll::kernels
