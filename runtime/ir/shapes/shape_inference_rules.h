// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/status.h"
#include "runtime/ir/module.h"

// The parts of shape inference; only shape_inference*.cc include this.
namespace plimsoll::ir::shape_rules {

struct Request {
  Opcode opcode;
  std::span<const Shape* const> operands;
  const Attributes& attributes;
  std::span<Computation* const> called;
  const Shape* given;

  int operand_count() const { return static_cast<int>(operands.size()); }
  const Shape& operand(int i) const { return *operands[at(i)]; }
  // INVALID_ARGUMENT `opcode: what`.
  Status error(std::string_view what) const;
  // Every operand in [first, last) is an array.
  Status require_arrays(int first, int last) const;
  Status require_arrays() const { return require_arrays(0, operand_count()); }
  // The result shape is given; and is an array.
  Status require_given() const;
  Status require_given_array() const;
  // Exactly `count` called computations, complete ones.
  Status require_called(std::size_t count) const;
};

using Values = std::span<const std::int64_t>;

// Each value in [0, rank), none twice; `name` is the attribute's in messages.
Status check_dimensions(const Request& request, Values dimensions, int rank, std::string_view name);
// An array shape after checking rank and size.
Result<Shape> make_array(const Request& request, DType dtype,
                         const std::vector<std::int64_t>& dims);
// The result dims of sliding `window` over `dims`, checking the window's attributes.
Result<std::vector<std::int64_t>> windowed_dims(const Request& request, Values dims,
                                                std::span<const WindowDimension> window);
// The parameter shapes and the root of a called computation.
Status check_signature(const Request& request, const Computation& computation,
                       std::span<const Shape> parameters, const Shape* result);
// Equal dtypes, or both floating (mixed precision).
bool compatible(DType a, DType b);
DType higher_precision(DType a, DType b);
// `result` with the floating dtype that `given` asks for, where it asks for one.
Shape with_given_precision(const Request& request, Shape result);
// "[1,2]"
std::string join(Values values);

Result<Shape> elementwise(const Request& request);
Result<Shape> movement(const Request& request);
Result<Shape> contraction(const Request& request);
Result<Shape> reduction(const Request& request);
Result<Shape> irregular(const Request& request);
Result<Shape> control(const Request& request);
Result<Shape> collective(const Request& request);

}  // namespace plimsoll::ir::shape_rules
