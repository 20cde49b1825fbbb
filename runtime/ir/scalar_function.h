// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "runtime/base/math/integer.h"
#include "runtime/base/math/transcendental.h"
#include "runtime/base/math/transcendental64.h"
#include "runtime/ir/opcode.h"

// What the operations of one and of two operands do to an element: the one meaning that the
// interpreter runs and the compiler writes into kernels, expanded from ops.def over the value types
// of runtime/base/math/scalar.h. Plain values compute; the compiler's emit instructions.
namespace plimsoll::ir {

constexpr bool takes(Accepts accepts, math::Kind kind) {
  switch (accepts) {
    case Accepts::any:
      return true;
    case Accepts::numeric:
      return kind != math::Kind::predicate;
    case Accepts::floating:
      return kind == math::Kind::f32 || kind == math::Kind::f64;
    case Accepts::integer:
      return kind == math::Kind::integer;
    case Accepts::bits:
      return kind == math::Kind::integer || kind == math::Kind::predicate;
  }
  return false;
}

// The forms of the table's column, as functions of one or two V. What is not in base/math is found
// beside V.
#define PLIMSOLL_FUNCTION_own(function) [](const auto&... x) { return function(x...); }
#define PLIMSOLL_FUNCTION_math(function)                \
  [](const auto&... x) {                                \
    if constexpr (V::kKind == math::Kind::f64) {        \
      return math::f64::function(x...);                 \
    } else if constexpr (V::kKind == math::Kind::f32) { \
      return math::function(x...);                      \
    } else {                                            \
      return function(x...);                            \
    }                                                   \
  }
#define PLIMSOLL_FUNCTION_wide(function)               \
  [](const auto&... x) {                               \
    if constexpr (V::kKind == math::Kind::f64) {       \
      return math::f64::function(x...);                \
    } else {                                           \
      return narrow(math::f64::function(widen(x)...)); \
    }                                                  \
  }
#define PLIMSOLL_VISIT_FUNCTION(name, dtypes, function) \
  case Opcode::name:                                    \
    if constexpr (takes(Accepts::dtypes, V::kKind)) {   \
      visit(PLIMSOLL_FUNCTION_##function);              \
      return true;                                      \
    } else {                                            \
      return false;                                     \
    }

// Calls visit(f) with f, V to V, what `opcode` does to one value. False, and no call, if it takes
// no V, or is not of that form: it has attributes, or a result of another dtype.
template <typename V, typename Visit>
bool visit_unary(Opcode opcode, Visit&& visit) {
  switch (opcode) {
#define PLIMSOLL_UNARY_OP(number, name, text, c_name, cpp_name, dtypes, function, ...) \
  PLIMSOLL_VISIT_FUNCTION(name, dtypes, function)
#include "runtime/ir/ops.def"
    default:
      return false;
  }
}

// As visit_unary, with f of two V.
template <typename V, typename Visit>
bool visit_binary(Opcode opcode, Visit&& visit) {
  switch (opcode) {
#define PLIMSOLL_BINARY_OP(number, name, text, c_name, cpp_name, dtypes, function, ...) \
  PLIMSOLL_VISIT_FUNCTION(name, dtypes, function)
#include "runtime/ir/ops.def"
    default:
      return false;
  }
}

#undef PLIMSOLL_VISIT_FUNCTION
#undef PLIMSOLL_FUNCTION_own
#undef PLIMSOLL_FUNCTION_math
#undef PLIMSOLL_FUNCTION_wide

// opcode(x), opcode(x, y); none where the visits above have none.
template <typename V>
std::optional<V> apply(Opcode opcode, const V& x) {
  std::optional<V> result;
  visit_unary<V>(opcode, [&](auto function) { result = function(x); });
  return result;
}
template <typename V>
std::optional<V> apply(Opcode opcode, const V& x, const V& y) {
  std::optional<V> result;
  visit_binary<V>(opcode, [&](auto function) { result = function(x, y); });
  return result;
}

}  // namespace plimsoll::ir
