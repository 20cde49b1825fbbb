// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <limits>

#include "runtime/ir/interpreter/interpreter_numbers.h"
#include "runtime/ir/scalar_function.h"

namespace plimsoll::ir::interpreter {
namespace {

// Floats as integers in the order of totalOrder.
std::int64_t total_order_key(double value) {
  const auto bits = std::bit_cast<std::int64_t>(value);
  return bits >= 0 ? bits : bits ^ std::numeric_limits<std::int64_t>::max();
}

}  // namespace

void apply_binary(Opcode opcode, const View& a, const View& b, std::byte* result,
                  std::int64_t count) {
  visit_dtype(a.dtype, [&](auto tag) {
    using T = decltype(tag);
    visit_binary<Value<T>>(opcode, [&](auto function) {
      for (std::int64_t i = 0; i < count; ++i) {
        const Value<T> x{read<T>(a, i)}, y{read<T>(b, i)};
        write<T>(result, i, function(x, y).value);
      }
    });
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
      bool outcome = false;
      if constexpr (kIsFloat<T>) {
        outcome = total ? holds(direction, total_order_key(x), total_order_key(y))
                        : holds(direction, x, y);
      } else {
        outcome = holds(direction, x, y);
      }
      write<bool>(result, i, outcome);
    }
  });
}

}  // namespace plimsoll::ir::interpreter
