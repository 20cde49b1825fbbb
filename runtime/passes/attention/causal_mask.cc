// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/attention/causal_mask.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::ComparisonDirection;
using ir::Instruction;
using ir::Opcode;

namespace {

using Labels = std::vector<int>;

// A position on one dim: index along `label` (none: -1) plus `offset`.
struct Position {
  int label = -1;
  std::int64_t offset = 0;
};

std::optional<std::int64_t> whole_splat(const Instruction& value) {
  const ir::Literal* literal = splat_value(value);
  if (literal == nullptr) return std::nullopt;
  const double number = literal->at(0);
  if (number != std::floor(number) || std::abs(number) > 1e9) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::optional<Position> position(const Instruction& value, const Labels& labels) {
  if (const auto number = whole_splat(value)) return Position{-1, *number};
  const auto& attributes = value.attributes();
  switch (value.opcode()) {
    case Opcode::iota: {
      const auto dim = at(attributes.dimensions[0]);
      // Indices must be exact in the iota's dtype.
      if (value.shape().dim(static_cast<int>(dim)) > 1 << 8 &&
          ir::dtype_bytes(value.shape().dtype()) < 4) {
        return std::nullopt;
      }
      return Position{labels[dim], 0};
    }
    case Opcode::broadcast: {
      Labels inner;
      for (const std::int64_t d : attributes.dimensions) {
        inner.push_back(labels[at(d)]);
      }
      return position(*value.operand(0), inner);
    }
    case Opcode::convert:
      return position(*value.operand(0), labels);
    case Opcode::add:
    case Opcode::subtract: {
      const auto a = position(*value.operand(0), labels), b = position(*value.operand(1), labels);
      if (!a || !b) return std::nullopt;
      if (value.opcode() == Opcode::subtract) {
        if (b->label >= 0) return std::nullopt;
        return Position{a->label, a->offset - b->offset};
      }
      if (a->label >= 0 && b->label >= 0) return std::nullopt;
      return Position{std::max(a->label, b->label), a->offset + b->offset};
    }
    default:
      return std::nullopt;
  }
}

ComparisonDirection opposite(ComparisonDirection direction) {
  switch (direction) {
    case ComparisonDirection::lt:
      return ComparisonDirection::ge;
    case ComparisonDirection::le:
      return ComparisonDirection::gt;
    case ComparisonDirection::gt:
      return ComparisonDirection::le;
    case ComparisonDirection::ge:
      return ComparisonDirection::lt;
    case ComparisonDirection::eq:
      return ComparisonDirection::ne;
    default:
      return ComparisonDirection::eq;
  }
}

}  // namespace

// Example: compare(add(iota over queries, 0), iota over keys), direction=GE says i >= j: offset 0.
// not(compare(j, i + 3, GT)) says j <= i + 3: offset 3. Both sides are reduced to "index along a
// dim plus a constant"; a negation turns the direction round, swapped sides mirror it.
std::optional<std::int64_t> causal_offset(const Instruction& predicate, bool seen_when,
                                          const Labels& labels, int query, int key) {
  const auto inside = [&](bool seen, const Labels& inner) {
    return causal_offset(*predicate.operand(0), seen, inner, query, key);
  };
  switch (predicate.opcode()) {
    case Opcode::broadcast: {
      Labels inner;
      for (const std::int64_t d : predicate.attributes().dimensions) {
        inner.push_back(labels[at(d)]);
      }
      return inside(seen_when, inner);
    }
    case Opcode::not_:
      return inside(!seen_when, labels);
    case Opcode::select:  // between true and false
      if (!is_splat_of(*predicate.operand(1), 1) || !is_splat_of(*predicate.operand(2), 0)) {
        return std::nullopt;
      }
      return inside(seen_when, labels);
    case Opcode::compare:
      break;
    default:
      return std::nullopt;
  }
  const auto a = position(*predicate.operand(0), labels);
  const auto b = position(*predicate.operand(1), labels);
  if (!a || !b) return std::nullopt;
  ComparisonDirection direction = predicate.attributes().comparison_direction;
  if (!seen_when) direction = opposite(direction);
  Position row = *a, column = *b;
  if (row.label == key) {
    std::swap(row, column);
    direction = ir::mirrored(direction);
  }
  if (row.label != query || column.label != key) return std::nullopt;
  const std::int64_t offset = row.offset - column.offset;
  if (direction == ComparisonDirection::ge) return offset;
  if (direction == ComparisonDirection::gt) return offset - 1;
  return std::nullopt;
}

}  // namespace plimsoll::passes
