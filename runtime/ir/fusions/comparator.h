// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/ir/module.h"

// What a sort's comparator does: a computation on pairs of elements (a_0, b_0, a_1, b_1, ...), the
// operands' in their order, that says whether the a's come first. All functions are pure.
namespace plimsoll::ir {

// One comparison of what the same elementwise operations make of a_k and of b_k.
struct PairComparison {
  std::size_t key = 0;                                      // k
  const Instruction* of = nullptr;                          // what is compared, of a_k or of b_k
  ComparisonDirection direction = ComparisonDirection::lt;  // f(a_k) `direction` f(b_k)
  ComparisonOrder order = ComparisonOrder::natural;
  // Whether every two elements are in an order: not where numbers that may be NaN are compared
  // naturally.
  bool is_total() const;
};

// Of a `compare`; nothing where it compares anything else. Its operands hold nothing but
// elementwise operations on scalars, and constants.
std::optional<PairComparison> read_pair_comparison(const Instruction& compare);

// Whether the comparator puts elements in one order whatever they are (a strict weak order, or the
// opposite of one): one total comparison, or several, each of which decides where those before it
// find elements equal, as JAX writes sorts by several keys:
// or(x_0 < y_0, and(x_0 == y_0, x_1 < y_1)).
bool is_total_order(const Computation& comparator);

// Of such a comparator its comparisons, all of them strict, in the order in which they decide;
// none of any other.
std::vector<PairComparison> comparisons_in_turn(const Computation& comparator);

// The one comparison that a comparator is, if it puts elements in one order where no key is a NaN.
std::optional<PairComparison> order_of_numbers(const Computation& comparator);

}  // namespace plimsoll::ir
