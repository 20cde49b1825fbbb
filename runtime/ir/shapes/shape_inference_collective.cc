// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/index.h"
#include "runtime/ir/shapes/shape_inference_rules.h"

#include <fmt/core.h>

namespace plimsoll::ir::shape_rules {
namespace {

Shape as_tuple_unless_one(const Request& request) {
  if (request.operand_count() == 1) return request.operand(0);
  std::vector<Shape> shapes;
  for (const Shape* operand : request.operands) shapes.push_back(*operand);
  return Shape::tuple(std::move(shapes));
}

// all-gather and reduce-scatter: `small` becomes `large` (or back) along one dimension.
Status check_scaled(const Request& request, const Shape& small, const Shape& large) {
  const auto& dimensions = request.attributes.dimensions;
  if (dimensions.size() != 1) return request.error("needs one dimension");
  const std::string what = small.to_string() + " and " + large.to_string();
  if (!small.is_array() || !large.is_array() || small.rank() != large.rank() ||
      small.dtype() != large.dtype()) {
    return request.error(what + " do not fit");
  }
  PLIMSOLL_RETURN_IF_ERROR(check_dimensions(request, dimensions, small.rank(), "dimensions"));
  for (int i = 0; i < small.rank(); ++i) {
    const bool fits = i == dimensions[0] ? (small.dim(i) == 0 ? large.dim(i) == 0
                                                              : large.dim(i) % small.dim(i) == 0)
                                         : large.dim(i) == small.dim(i);
    if (!fits) return request.error(fmt::format("{} do not fit in dim {}", what, i));
  }
  return ok_status();
}

Result<Shape> scaled(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_given());
  const Shape& given = *request.given;
  const bool single = request.operand_count() == 1 && !given.is_tuple();
  if (!single && (!given.is_tuple() || given.elements().size() != at(request.operand_count()))) {
    return request.error(
        fmt::format("result {} for {} operands", given.to_string(), request.operand_count()));
  }
  for (int i = 0; i < request.operand_count(); ++i) {
    const Shape& result = single ? given : given.elements()[at(i)];
    const bool gathers = request.opcode == Opcode::all_gather;
    PLIMSOLL_RETURN_IF_ERROR(gathers ? check_scaled(request, request.operand(i), result)
                                     : check_scaled(request, result, request.operand(i)));
  }
  return given;
}

// all-to-all moves one split of each operand to each participant; with `dimensions`, the splits are
// parts of a single operand.
Result<Shape> all_to_all(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_arrays());
  if (!request.attributes.dimensions.empty()) {
    PLIMSOLL_RETURN_IF_ERROR(check_dimensions(request, request.attributes.dimensions,
                                              request.operand(0).rank(), "dimensions"));
  }
  if (request.given != nullptr && request.given->is_tuple() && request.operand_count() == 1) {
    return Shape::tuple({request.operand(0)});
  }
  return as_tuple_unless_one(request);
}

Result<Shape> all_reduce(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_called(1));
  PLIMSOLL_RETURN_IF_ERROR(request.require_arrays());
  const Computation& reducer = *request.called[0];
  if (reducer.parameters().size() != 2 || !reducer.root()->shape().is_scalar()) {
    return request.error("'" + reducer.name() + "' must take two scalars and return one");
  }
  return with_given_precision(request, as_tuple_unless_one(request));
}

// The done half of a pair returns one element of what the start half returned.
Result<Shape> done(const Request& request, std::size_t element) {
  const Shape& start = request.operand(0);
  if (start.is_tuple() && element < start.elements().size()) return start.elements()[element];
  return request.error("operand is " + start.to_string() + ", must be the result of the start");
}

}  // namespace

Result<Shape> collective(const Request& request) {
  switch (request.opcode) {
    case Opcode::all_reduce:
      return all_reduce(request);
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
      return scaled(request);
    case Opcode::all_to_all:
      return all_to_all(request);
    case Opcode::collective_permute:
      // Operands after the first say where the in-place form writes.
      return request.operand_count() == 1
                 ? request.operand(0)
                 : Result<Shape>(request.given != nullptr ? *request.given : request.operand(0));
    case Opcode::collective_broadcast:
      return as_tuple_unless_one(request);
    case Opcode::all_reduce_start:
      return as_tuple_unless_one(request);
    case Opcode::all_reduce_done:
      return request.operand(0);
    case Opcode::all_gather_done:
    case Opcode::collective_permute_done:
      return done(request, 1);
    case Opcode::copy_done:
      return done(request, 0);
    default:
      PLIMSOLL_RETURN_IF_ERROR(request.require_given());
      return *request.given;
  }
}

}  // namespace plimsoll::ir::shape_rules
