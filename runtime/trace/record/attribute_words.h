// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"
#include "runtime/ir/attributes.h"
#include "runtime/ir/module.h"

namespace plimsoll::trace {

// Which computation an operation calls, from the few forms that can be recorded.
struct Callee {
  enum class Kind : std::uint8_t {
    none,
    combine,         // reduce, reduce-window, scatter: (a, b) -> combiner(a, b)
    replace,         // scatter: (a, b) -> b
    select_combine,  // select-and-scatter: (a, b) -> a `direction` b; (a, b) -> combiner(a, b)
    order,           // sort: (a, b, ...) -> a `direction` b
  };
  Kind kind = Kind::none;
  ir::Opcode combiner = ir::Opcode::add;
  ir::ComparisonDirection direction = ir::ComparisonDirection::lt;
  friend bool operator==(const Callee&, const Callee&) = default;
};

// Everything about an operation but its operands and result shape.
struct OpAttributes {
  ir::Attributes attributes;
  Callee callee;
};

// The attributes as a flat list of numbers: what a node stores, hashes and compares. Two lists are
// equal exactly when the attributes are, but for `literal` and `extra`, which are not in them: a
// node holds a constant's bits and a value's hint itself. Fixed capacity; lists longer than
// ir::kMaxRank do not fit and are refused.
class AttributeWords {
 public:
  static Result<AttributeWords> encode(ir::Opcode opcode, const OpAttributes& attributes);
  std::span<const std::int64_t> words() const { return {words_.data(), size_}; }

 private:
  std::array<std::int64_t, 160> words_;
  std::size_t size_ = 0;
};

// The inverse of encode.
OpAttributes decode_words(std::span<const std::int64_t> words);

// The computations that `callee` stands for in `module`, made once per module and dtypes.
// `dtypes` are those of the operands the computation works on (for sort, one per operand).
std::vector<ir::Computation*> called_computations(ir::Module& module, const Callee& callee,
                                                  std::span<const ir::DType> dtypes);

}  // namespace plimsoll::trace
