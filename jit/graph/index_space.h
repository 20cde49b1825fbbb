// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/module.h"
#include "runtime/ir/shape.h"

namespace plimsoll::jit {

// An integer expression: constant + sum of coefficient * symbol. Terms are sorted by symbol and
// have no zero coefficients, so equal expressions compare equal.
struct Affine {
  std::int64_t constant = 0;
  std::vector<std::pair<int, std::int64_t>> terms;

  bool is_constant() const { return terms.empty(); }
  std::int64_t coefficient(int symbol) const;
  friend bool operator==(const Affine&, const Affine&) = default;
  friend auto operator<=>(const Affine&, const Affine&) = default;
};

// One expression per dimension of an array.
using Index = std::vector<Affine>;

struct Range {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;  // inclusive
};

enum class SymbolKind : std::uint8_t {
  loop,       // a loop variable in [0, extent)
  quotient,   // argument / divisor, rounded down; argument >= 0
  remainder,  // argument mod divisor
  clamp,      // argument limited to `range`
  runtime,    // an operand's element (a start index), limited to `range`
};

struct Symbol {
  SymbolKind kind = SymbolKind::loop;
  Affine argument;
  std::int64_t divisor = 1;
  const ir::Instruction* source = nullptr;  // runtime
  int operand = -1;                         // runtime: which operand of `source`
  Index at;                                 // runtime: which element of it
  Range range;
  int level = 0;  // of the loop it changes in; 0: constant for a call of the kernel
};

// The symbols of one kernel's index expressions. What can be proved by ranges and divisibility
// stays affine; the rest becomes quotient, remainder and clamp symbols, which `add` puts together
// again where a whole number results ((x / d) * d + x mod d = x). Equal expressions get equal
// symbols.
class IndexSpace {
 public:
  // A loop of extent 1 (or less) is the constant 0.
  Affine add_loop(std::int64_t extent, int level);
  // Element `at` of the operand of `source`.
  Affine runtime(const ir::Instruction* source, int operand, Index at, Range range);

  Affine constant(std::int64_t value) const { return {value, {}}; }
  Affine add(const Affine& a, const Affine& b) const;
  Affine add(const Affine& a, std::int64_t b) const;
  Affine scale(const Affine& a, std::int64_t factor) const;
  // Precondition: x >= 0.
  Affine quotient(const Affine& x, std::int64_t divisor) { return divide(x, divisor).first; }
  Affine remainder(const Affine& x, std::int64_t divisor) { return divide(x, divisor).second; }
  std::pair<Affine, Affine> divide(const Affine& x, std::int64_t divisor);
  Affine clamp(const Affine& x, Range range);

  // Row-major position of `index` in an array of `dims`, and back.
  Affine linearize(const Index& index, const ir::Dims& dims) const;
  Index delinearize(const Affine& position, const ir::Dims& dims);

  Range range(const Affine& x) const;
  // The deepest level among the symbols of `x`.
  int level(const Affine& x) const;
  int level(const Index& index) const;
  const Symbol& symbol(int id) const { return symbols_[at(id)]; }

 private:
  Affine symbol_of(Symbol symbol);

  std::vector<Symbol> symbols_;
};

}  // namespace plimsoll::jit
