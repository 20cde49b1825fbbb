// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/base/math/float64.h"
#include "runtime/base/math/transcendental.h"
#include "runtime/ir/interpreter/interpreter_numbers.h"

namespace plimsoll::ir::interpreter {
namespace {

template <typename T, typename F>
void each(const View& a, const View& b, std::byte* result, std::int64_t count, F f) {
  for (std::int64_t i = 0; i < count; ++i) {
    write<T>(result, i, static_cast<Number<T>>(f(read<T>(a, i), read<T>(b, i))));
  }
}

// NaN if either is NaN; +0 is above -0.
template <typename N>
N maximum(N a, N b) {
  if constexpr (std::is_floating_point_v<N>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<N>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a > b ? a : b;
}

template <typename N>
N minimum(N a, N b) {
  if constexpr (std::is_floating_point_v<N>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<N>::quiet_NaN();
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}

template <typename T>
void floating(Opcode opcode, const View& a, const View& b, std::byte* result, std::int64_t count) {
  using N = Number<T>;
  switch (opcode) {
    case Opcode::add:
      return each<T>(a, b, result, count, [](N x, N y) { return x + y; });
    case Opcode::subtract:
      return each<T>(a, b, result, count, [](N x, N y) { return x - y; });
    case Opcode::multiply:
      return each<T>(a, b, result, count, [](N x, N y) { return x * y; });
    case Opcode::divide:
      return each<T>(a, b, result, count, [](N x, N y) { return x / y; });
    case Opcode::remainder:
      return each<T>(a, b, result, count, [](N x, N y) { return std::fmod(x, y); });
    case Opcode::power:
      return each<T>(a, b, result, count, [](N x, N y) {
        if constexpr (sizeof(N) == 4) {
          return math::pow(math::ScalarF32{x}, math::ScalarF32{y}).value;
        } else {
          return math::f64::pow(x, y);
        }
      });
    case Opcode::atan2:
      return each<T>(a, b, result, count, [](N y, N x) {
        if constexpr (sizeof(N) == 4) {
          return math::atan2(math::ScalarF32{y}, math::ScalarF32{x}).value;
        } else {
          return math::f64::atan2(y, x);
        }
      });
    default:
      return;
  }
}

template <typename T>
T divide(T x, T y) {
  if (y == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return static_cast<T>(-static_cast<std::uint64_t>(x));
  }
  return static_cast<T>(x / y);
}

template <typename T>
T remainder(T x, T y) {
  if (y == 0) return x;
  if constexpr (std::is_signed_v<T>) {
    if (y == -1) return 0;
  }
  return static_cast<T>(x % y);
}

// Powers wrap; a negative exponent leaves only what 1 / x^n rounds to toward zero.
template <typename T>
T power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? T{1} : T{-1};
      return 0;
    }
  }
  auto left = static_cast<std::uint64_t>(exponent);
  auto factor = static_cast<std::uint64_t>(base);
  std::uint64_t product = 1;
  for (; left != 0; left >>= 1, factor *= factor) {
    if ((left & 1) != 0) product *= factor;
  }
  return static_cast<T>(product);
}

template <typename T>
T shift(Opcode opcode, T x, T by) {
  using U = std::make_unsigned_t<T>;
  using S = std::make_signed_t<T>;
  constexpr U kBits = 8 * sizeof(T);
  // A negative amount is a huge unsigned one.
  const U amount = static_cast<U>(by);
  if (opcode == Opcode::shift_right_arithmetic) {
    const U capped = amount < kBits ? amount : static_cast<U>(kBits - 1);
    return static_cast<T>(static_cast<S>(x) >> capped);
  }
  if (amount >= kBits) return 0;
  const auto bits = static_cast<std::uint64_t>(static_cast<U>(x));
  return static_cast<T>(opcode == Opcode::shift_left ? bits << amount : bits >> amount);
}

template <typename T>
void integral(Opcode opcode, const View& a, const View& b, std::byte* result, std::int64_t count) {
  using U = std::uint64_t;
  switch (opcode) {
    case Opcode::add:
      return each<T>(a, b, result, count,
                     [](T x, T y) { return wrapping(x, y, [](U p, U q) { return p + q; }); });
    case Opcode::subtract:
      return each<T>(a, b, result, count,
                     [](T x, T y) { return wrapping(x, y, [](U p, U q) { return p - q; }); });
    case Opcode::multiply:
      return each<T>(a, b, result, count,
                     [](T x, T y) { return wrapping(x, y, [](U p, U q) { return p * q; }); });
    case Opcode::divide:
      return each<T>(a, b, result, count, [](T x, T y) { return divide(x, y); });
    case Opcode::remainder:
      return each<T>(a, b, result, count, [](T x, T y) { return remainder(x, y); });
    case Opcode::power:
      return each<T>(a, b, result, count, [](T x, T y) { return power(x, y); });
    case Opcode::and_:
      return each<T>(a, b, result, count, [](T x, T y) { return static_cast<T>(x & y); });
    case Opcode::or_:
      return each<T>(a, b, result, count, [](T x, T y) { return static_cast<T>(x | y); });
    case Opcode::xor_:
      return each<T>(a, b, result, count, [](T x, T y) { return static_cast<T>(x ^ y); });
    default:
      return each<T>(a, b, result, count, [&](T x, T y) { return shift(opcode, x, y); });
  }
}

// Addition and multiplication of truth values are `or` and `and`.
void logical(Opcode opcode, const View& a, const View& b, std::byte* result, std::int64_t count) {
  switch (opcode) {
    case Opcode::add:
    case Opcode::or_:
      return each<bool>(a, b, result, count, [](bool x, bool y) { return x || y; });
    case Opcode::multiply:
    case Opcode::and_:
      return each<bool>(a, b, result, count, [](bool x, bool y) { return x && y; });
    default:
      return each<bool>(a, b, result, count, [](bool x, bool y) { return x != y; });
  }
}

// Floats as integers in the order of totalOrder.
std::int64_t total_order_key(double value) {
  const auto bits = std::bit_cast<std::int64_t>(value);
  return bits >= 0 ? bits : bits ^ std::numeric_limits<std::int64_t>::max();
}

template <typename N>
bool compares(ComparisonDirection direction, N x, N y) {
  switch (direction) {
    case ComparisonDirection::eq:
      return x == y;
    case ComparisonDirection::ne:
      return x != y;
    case ComparisonDirection::ge:
      return x >= y;
    case ComparisonDirection::gt:
      return x > y;
    case ComparisonDirection::le:
      return x <= y;
    case ComparisonDirection::lt:
      return x < y;
  }
  return false;
}

}  // namespace

void apply_binary(Opcode opcode, const View& a, const View& b, std::byte* result,
                  std::int64_t count) {
  visit_dtype(a.dtype, [&](auto tag) {
    using T = decltype(tag);
    using N = Number<T>;
    if (opcode == Opcode::maximum) {
      each<T>(a, b, result, count, [](N x, N y) { return maximum<N>(x, y); });
    } else if (opcode == Opcode::minimum) {
      each<T>(a, b, result, count, [](N x, N y) { return minimum<N>(x, y); });
    } else if constexpr (kIsFloat<T>) {
      floating<T>(opcode, a, b, result, count);
    } else if constexpr (kIsPred<T>) {
      logical(opcode, a, b, result, count);
    } else {
      integral<T>(opcode, a, b, result, count);
    }
  });
}

void apply_compare(const Attributes& attributes, const View& a, const View& b, std::byte* result,
                   std::int64_t count) {
  const ComparisonDirection direction = attributes.comparison_direction;
  const bool total = attributes.comparison_order == ComparisonOrder::total;
  visit_dtype(a.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto x = read<T>(a, i);
      const auto y = read<T>(b, i);
      bool holds = false;
      if constexpr (kIsFloat<T>) {
        holds = total ? compares(direction, total_order_key(x), total_order_key(y))
                      : compares(direction, x, y);
      } else {
        holds = compares(direction, x, y);
      }
      write<bool>(result, i, holds);
    }
  });
}

}  // namespace plimsoll::ir::interpreter
