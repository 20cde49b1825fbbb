// SPDX-License-Identifier: Apache-2.0
#include "jit/graph/index_space.h"

#include <algorithm>

#include "runtime/base/index.h"

// Where a value's element is read, as a formula.
//
// Every movement (reshape, transpose, slice, broadcast, pad, ...) is a map from an index of its
// result to an index of its operand. A fused body chains many, and what the code finally computes
// is the position in an input as a function of the loops' counters. Here such functions are sums c0
// + c1 * s1 + c2 * s2 + ..., with symbols s for what is not a sum: counters themselves, quotients
// and remainders (reshapes), clamped values, and numbers read at run time (dynamic-slice).
//
// Two things keep them simple:
// - ranges. Each symbol knows its least and greatest value, so a division can often be proved away.
//   Example: counters i in [0, 8), j in [0, 16); position 16 i + j, reshaped to [8,16]: 16 i is
//   divisible by 16, and j in [0, 16) is the remainder. Quotient i, remainder j, no division in the
//   code.
// - recombination. Where a division can't be avoided (x / 6 and x % 6 as symbols q and r), add()
//   recognizes 6 q + r and puts x back. So a reshape there and another back cancel out, as does
//   everything between that was linear.
//
// A symbol equal to one that exists is the same symbol, so that equal formulas compare equal: that
// is what lets the emitter compute each value once.

namespace plimsoll::jit {
namespace {

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

bool same_symbol(const Symbol& a, const Symbol& b) {
  return a.kind == b.kind && a.argument == b.argument && a.divisor == b.divisor &&
         a.source == b.source && a.operand == b.operand && a.at == b.at &&
         a.range.lowest == b.range.lowest && a.range.highest == b.range.highest;
}

}  // namespace

std::int64_t Affine::coefficient(int symbol) const {
  for (const auto& [id, value] : terms) {
    if (id == symbol) return value;
  }
  return 0;
}

Affine IndexSpace::symbol_of(Symbol symbol) {
  if (symbol.kind != SymbolKind::loop) {
    for (std::size_t i = 0; i < symbols_.size(); ++i) {
      if (same_symbol(symbols_[i], symbol)) return {0, {{static_cast<int>(i), 1}}};
    }
  }
  symbols_.push_back(std::move(symbol));
  return {0, {{static_cast<int>(symbols_.size()) - 1, 1}}};
}

Affine IndexSpace::add_loop(std::int64_t extent, int level) {
  if (extent <= 1) return constant(0);
  Symbol symbol;
  symbol.range = {0, extent - 1};
  symbol.level = level;
  return symbol_of(std::move(symbol));
}

Affine IndexSpace::runtime(const ir::Instruction* source, int operand, Index at, Range range) {
  if (range.lowest >= range.highest) return constant(range.lowest);
  Symbol symbol;
  symbol.kind = SymbolKind::runtime;
  symbol.source = source;
  symbol.operand = operand;
  symbol.level = level(at);
  symbol.at = std::move(at);
  symbol.range = range;
  return symbol_of(std::move(symbol));
}

Affine IndexSpace::add(const Affine& a, std::int64_t b) const {
  Affine sum = a;
  sum.constant += b;
  return sum;
}

Affine IndexSpace::scale(const Affine& a, std::int64_t factor) const {
  if (factor == 0) return {};
  Affine product = a;
  product.constant *= factor;
  for (auto& [id, value] : product.terms) value *= factor;
  return product;
}

Affine IndexSpace::add(const Affine& a, const Affine& b) const {
  Affine sum;
  sum.constant = a.constant + b.constant;
  auto i = a.terms.begin();
  auto j = b.terms.begin();
  while (i != a.terms.end() || j != b.terms.end()) {
    if (j == b.terms.end() || (i != a.terms.end() && i->first < j->first)) {
      sum.terms.push_back(*i++);
    } else if (i == a.terms.end() || j->first < i->first) {
      sum.terms.push_back(*j++);
    } else {
      const std::int64_t value = i->second + j->second;
      if (value != 0) sum.terms.emplace_back(i->first, value);
      ++i;
      ++j;
    }
  }
  for (const auto& [low_id, low_value] : sum.terms) {
    const Symbol& low = symbol(low_id);
    if (low.kind != SymbolKind::remainder) continue;
    for (const auto& [high_id, high_value] : sum.terms) {
      const Symbol& high = symbol(high_id);
      if (high.kind != SymbolKind::quotient || high.divisor != low.divisor ||
          high_value != low_value * low.divisor || high.argument != low.argument) {
        continue;
      }
      Affine rest;
      rest.constant = sum.constant;
      for (const auto& term : sum.terms) {
        if (term.first != low_id && term.first != high_id) rest.terms.push_back(term);
      }
      return add(rest, scale(low.argument, low_value));
    }
  }
  return sum;
}

// x = divisor * whole + rest, with `whole` collecting the terms that are divisible. If rest lies in
// [0, divisor) by its range, these are quotient and remainder: proved, and the only case without
// code. If rest can be larger, it is divided at run time, and the quotient is whole + rest /
// divisor. If rest can be negative, a machine's division would round the wrong way; then x as a
// whole is divided, which is never negative: it is a position.
//
// Example with divisor 16: x = 32 i + 4 j + 3, j in [0, 3): whole = 2 i, rest = 4 j + 3 in [3, 11]:
// done. With j in [0, 8): rest in [3, 31]: quotient 2 i + (4 j + 3) / 16.
std::pair<Affine, Affine> IndexSpace::divide(const Affine& x, std::int64_t divisor) {
  if (divisor <= 1) return {x, constant(0)};
  Affine whole, rest;
  whole.constant = floor_divide(x.constant, divisor);
  rest.constant = x.constant - whole.constant * divisor;
  for (const auto& [id, value] : x.terms) {
    if (value % divisor == 0) {
      whole.terms.emplace_back(id, value / divisor);
    } else {
      rest.terms.emplace_back(id, value);
    }
  }
  const Range bounds = range(rest);
  if (bounds.lowest >= 0 && bounds.highest < divisor) return {whole, rest};
  if (bounds.lowest < 0) {
    whole = {};
    rest = x;
  }
  const Range argument = range(rest);
  Symbol quotient;
  quotient.kind = SymbolKind::quotient;
  quotient.argument = rest;
  quotient.divisor = divisor;
  quotient.range = {argument.lowest / divisor, argument.highest / divisor};
  quotient.level = level(rest);
  Symbol remainder = quotient;
  remainder.kind = SymbolKind::remainder;
  remainder.range = {0, divisor - 1};
  const Affine high = symbol_of(std::move(quotient));
  return {add(whole, high), symbol_of(std::move(remainder))};
}

Affine IndexSpace::clamp(const Affine& x, Range limits) {
  const Range bounds = range(x);
  if (bounds.lowest >= limits.lowest && bounds.highest <= limits.highest) return x;
  if (limits.lowest >= limits.highest || bounds.highest <= limits.lowest) {
    return constant(limits.lowest);
  }
  if (bounds.lowest >= limits.highest) return constant(limits.highest);
  Symbol symbol;
  symbol.kind = SymbolKind::clamp;
  symbol.argument = x;
  symbol.range = limits;
  symbol.level = level(x);
  return symbol_of(std::move(symbol));
}

Affine IndexSpace::linearize(const Index& index, const ir::Dims& dims) const {
  const ir::Dims strides = ir::row_major_strides(dims);
  Affine position;
  for (int i = 0; i < dims.size(); ++i) {
    position = add(position, scale(index[at(i)], strides[i]));
  }
  return position;
}

Index IndexSpace::delinearize(const Affine& position, const ir::Dims& dims) {
  Index index(at(dims.size()));
  Affine rest = position;
  for (int i = dims.size() - 1; i >= 0; --i) {
    if (dims[i] == 1) continue;
    // The leading dimension takes what is left, so that no remainder is needed.
    bool leading = true;
    for (int j = 0; j < i; ++j) leading = leading && dims[j] == 1;
    if (leading) {
      index[at(i)] = rest;
      break;
    }
    auto [high, low] = divide(rest, dims[i]);
    index[at(i)] = std::move(low);
    rest = std::move(high);
  }
  return index;
}

Range IndexSpace::range(const Affine& x) const {
  Range bounds{x.constant, x.constant};
  for (const auto& [id, value] : x.terms) {
    const Range& term = symbol(id).range;
    bounds.lowest += value > 0 ? value * term.lowest : value * term.highest;
    bounds.highest += value > 0 ? value * term.highest : value * term.lowest;
  }
  return bounds;
}

int IndexSpace::level(const Affine& x) const {
  int deepest = 0;
  for (const auto& [id, value] : x.terms) deepest = std::max(deepest, symbol(id).level);
  return deepest;
}

int IndexSpace::level(const Index& index) const {
  int deepest = 0;
  for (const Affine& x : index) deepest = std::max(deepest, level(x));
  return deepest;
}

}  // namespace plimsoll::jit
