// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/fusions/comparator.h"

#include <set>
#include <utility>
#include <vector>

namespace plimsoll::ir {
namespace {

// Of elementwise operations: the others have no attributes that matter.
bool means_the_same(const Attributes& a, const Attributes& b) {
  return a.comparison_direction == b.comparison_direction &&
         a.comparison_order == b.comparison_order && a.exponent_bits == b.exponent_bits &&
         a.mantissa_bits == b.mantissa_bits;
}

// Which parameters stand in the same places of two expressions.
class SameExpression {
 public:
  bool operator()(const Instruction& a, const Instruction& b) {
    if (!seen_.insert({&a, &b}).second) return true;
    if (a.opcode() != b.opcode() || !(a.shape() == b.shape()) || !a.shape().is_scalar()) {
      return false;
    }
    if (a.opcode() == Opcode::parameter) {
      const std::pair<std::int64_t, std::int64_t> numbers(a.attributes().parameter_number,
                                                          b.attributes().parameter_number);
      if (!parameters_.has_value()) parameters_ = numbers;
      return *parameters_ == numbers;
    }
    if (a.opcode() == Opcode::constant) return *a.attributes().literal == *b.attributes().literal;
    if (a.operand_count() != b.operand_count() || a.operand_count() == 0 ||
        !is_elementwise(a.opcode()) || !means_the_same(a.attributes(), b.attributes())) {
      return false;
    }
    for (int i = 0; i < a.operand_count(); ++i) {
      if (!(*this)(*a.operand(i), *b.operand(i))) return false;
    }
    return true;
  }
  // Nothing where there are none.
  std::optional<std::pair<std::int64_t, std::int64_t>> parameters() const { return parameters_; }

 private:
  std::set<std::pair<const Instruction*, const Instruction*>> seen_;
  std::optional<std::pair<std::int64_t, std::int64_t>> parameters_;
};

bool is_strict(ComparisonDirection direction) {
  return direction == ComparisonDirection::lt || direction == ComparisonDirection::gt;
}

bool orders(ComparisonDirection direction) {
  return is_strict(direction) || direction == ComparisonDirection::le ||
         direction == ComparisonDirection::ge;
}

// A comparison by which two elements are either in an order or the same to all that look at `of`.
std::optional<PairComparison> total_comparison(const Instruction& instruction) {
  auto found = read_pair_comparison(instruction);
  if (!found.has_value() || !found->is_total()) return std::nullopt;
  return found;
}

// `instruction` puts elements in a strict order, where equals may remain: adds the comparisons, in
// the order in which they decide.
bool is_strict_order(const Instruction& instruction, std::vector<PairComparison>& comparisons) {
  if (instruction.opcode() == Opcode::compare) {
    const auto comparison = total_comparison(instruction);
    if (!comparison.has_value() || !is_strict(comparison->direction)) return false;
    comparisons.push_back(*comparison);
    return true;
  }
  if (instruction.opcode() != Opcode::or_ || instruction.shape().dtype() != DType::pred) {
    return false;
  }
  // Either operand may be the first comparison, and of the other one either the test for equals.
  for (const int i : {0, 1}) {
    const Instruction& first = *instruction.operand(i);
    const Instruction& rest = *instruction.operand(1 - i);
    if (first.opcode() != Opcode::compare || rest.opcode() != Opcode::and_) continue;
    const auto before = total_comparison(first);
    if (!before.has_value() || !is_strict(before->direction)) continue;
    for (const int j : {0, 1}) {
      const Instruction& equals = *rest.operand(j);
      if (equals.opcode() != Opcode::compare) continue;
      const auto same = total_comparison(equals);
      if (!same.has_value() || same->direction != ComparisonDirection::eq ||
          same->key != before->key || !SameExpression()(*same->of, *before->of)) {
        continue;
      }
      const std::size_t known = comparisons.size();
      comparisons.push_back(*before);
      if (is_strict_order(*rest.operand(1 - j), comparisons)) return true;
      comparisons.resize(known);
    }
  }
  return false;
}

}  // namespace

bool PairComparison::is_total() const {
  return order == ComparisonOrder::total || !is_floating(of->shape().dtype());
}

std::optional<PairComparison> read_pair_comparison(const Instruction& compare) {
  if (compare.opcode() != Opcode::compare) return std::nullopt;
  SameExpression same;
  if (!same(*compare.operand(0), *compare.operand(1)) || !same.parameters().has_value()) {
    return std::nullopt;
  }
  auto [first, second] = *same.parameters();
  PairComparison comparison{0, compare.operand(0), compare.attributes().comparison_direction,
                            compare.attributes().comparison_order};
  if (second < first) {
    std::swap(first, second);
    comparison.direction = mirrored(comparison.direction);
  }
  if (second != first + 1 || first % 2 != 0) return std::nullopt;
  comparison.key = static_cast<std::size_t>(first / 2);
  return comparison;
}

bool is_total_order(const Computation& comparator) {
  const auto one = order_of_numbers(comparator);
  return one.has_value() ? one->is_total() : !comparisons_in_turn(comparator).empty();
}

std::vector<PairComparison> comparisons_in_turn(const Computation& comparator) {
  std::vector<PairComparison> comparisons;
  if (!is_strict_order(*comparator.root(), comparisons)) comparisons.clear();
  return comparisons;
}

std::optional<PairComparison> order_of_numbers(const Computation& comparator) {
  auto one = read_pair_comparison(*comparator.root());
  if (!one.has_value() || !orders(one->direction)) return std::nullopt;
  return one;
}

}  // namespace plimsoll::ir
