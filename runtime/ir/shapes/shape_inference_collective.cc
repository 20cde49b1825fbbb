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

// One computation of two scalars that returns one, of the dtype that the operands' elements are
// reduced in: their own, or f32 where they are f16 or bf16.
Status require_reducer(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_called(1));
  const Computation& reducer = *request.called[0];
  const auto& parameters = reducer.parameters();
  if (parameters.size() != 2 || !parameters[0]->shape().is_scalar() ||
      !parameters[1]->shape().is_scalar() || !reducer.root()->shape().is_scalar()) {
    return request.error("'" + reducer.name() + "' must take two scalars and return one");
  }
  PLIMSOLL_RETURN_IF_ERROR(request.require_arrays());
  const DType first = parameters[0]->shape().dtype(), second = parameters[1]->shape().dtype(),
              result = reducer.root()->shape().dtype();
  for (const Shape* const operand : request.operands) {
    const DType dtype = operand->dtype();
    const bool is_half = dtype == DType::f16 || dtype == DType::bf16;
    if (first == second && first == result &&
        (first == dtype || (is_half && first == DType::f32))) {
      continue;
    }
    return request.error(
        fmt::format("'{}' makes {} of {} and {}, must make {} of two{} to reduce {}",
                    reducer.name(), to_string(result), to_string(first), to_string(second),
                    to_string(dtype), is_half ? ", or f32 of two," : "", operand->to_string()));
  }
  return ok_status();
}

// `given`: the result, or of a start half the element that is.
Status check_all_scaled(const Request& request, const Shape& given) {
  const bool single = request.operand_count() == 1 && !given.is_tuple();
  if (!single && (!given.is_tuple() || given.elements().size() != at(request.operand_count()))) {
    return request.error(
        fmt::format("result {} for {} operands", given.to_string(), request.operand_count()));
  }
  for (int i = 0; i < request.operand_count(); ++i) {
    const Shape& result = single ? given : given.elements()[at(i)];
    PLIMSOLL_RETURN_IF_ERROR(request.opcode == Opcode::reduce_scatter
                                 ? check_scaled(request, result, request.operand(i))
                                 : check_scaled(request, request.operand(i), result));
  }
  return ok_status();
}

Result<Shape> scaled(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_given());
  if (request.opcode == Opcode::reduce_scatter) PLIMSOLL_RETURN_IF_ERROR(require_reducer(request));
  PLIMSOLL_RETURN_IF_ERROR(check_all_scaled(request, *request.given));
  return *request.given;
}

// Whether `shape` is that of the operands: of a single one by itself or as a tuple.
bool holds_operands(const Request& request, const Shape& shape) {
  if (request.operand_count() == 1 && shape == request.operand(0)) return true;
  if (!shape.is_tuple() || shape.elements().size() != at(request.operand_count())) return false;
  for (int i = 0; i < request.operand_count(); ++i) {
    if (!(shape.elements()[at(i)] == request.operand(i))) return false;
  }
  return true;
}

// The result of a start half: (operands, result, contexts...).
Status require_started(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_given());
  const Shape& given = *request.given;
  if (given.is_tuple() && given.elements().size() >= 2 &&
      holds_operands(request, given.elements()[0])) {
    return ok_status();
  }
  return request.error("result " + given.to_string() + ", must be (operands, result, ...)");
}

Result<Shape> all_gather_start(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(require_started(request));
  PLIMSOLL_RETURN_IF_ERROR(check_all_scaled(request, request.given->elements()[1]));
  return *request.given;
}

// Operands after the first say where the in-place form writes, which starts with its own tuple.
Result<Shape> collective_permute_start(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_given());
  if (request.operand_count() > 1) return *request.given;
  PLIMSOLL_RETURN_IF_ERROR(request.require_arrays());
  PLIMSOLL_RETURN_IF_ERROR(require_started(request));
  const Shape& result = request.given->elements()[1];
  if (holds_operands(request, result)) return *request.given;
  return request.error("result is " + result.to_string() + ", not " +
                       request.operand(0).to_string());
}

Result<Shape> async_start(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_called(1));
  PLIMSOLL_RETURN_IF_ERROR(request.require_given());
  const Shape& given = *request.given;
  if (!given.is_tuple() || given.elements().size() < 2) {
    return request.error("result " + given.to_string() + ", must be (operands, result, ...)");
  }
  std::vector<Shape> operands;
  for (const Shape* operand : request.operands) operands.push_back(*operand);
  PLIMSOLL_RETURN_IF_ERROR(
      check_signature(request, *request.called[0], operands, &given.elements()[1]));
  if (given.elements()[0] == Shape::tuple(std::move(operands)) ||
      holds_operands(request, given.elements()[0])) {
    return given;
  }
  return request.error("result " + given.to_string() + ", must be (operands, result, ...)");
}

// all-to-all moves one split of each operand to each participant; with `dimensions`, the splits are
// parts of a single operand.
Result<Shape> all_to_all(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_arrays());
  const auto& dimensions = request.attributes.dimensions;
  if (dimensions.size() > 1) return request.error("needs one dimension, or none");
  for (const Shape* operand : request.operands) {
    PLIMSOLL_RETURN_IF_ERROR(check_dimensions(request, dimensions, operand->rank(), "dimensions"));
  }
  if (request.given != nullptr && request.given->is_tuple() && request.operand_count() == 1) {
    return Shape::tuple({request.operand(0)});
  }
  return as_tuple_unless_one(request);
}

Result<Shape> all_reduce(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(require_reducer(request));
  Shape result = as_tuple_unless_one(request);
  const Shape* const given = request.given;
  if (given != nullptr && given->is_array() && result.is_array() &&
      given->dims() == result.dims() && given->dtype() != result.dtype()) {
    return request.error(fmt::format("result {} of {}: dtypes must be the same (convert one)",
                                     given->to_string(), result.to_string()));
  }
  return result;
}

// What is ragged lies along dim 0: updates to each member, as many to one as to another, of
// `offsets` and sizes that numbers of rows are.
Result<Shape> ragged_all_to_all(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_arrays());
  const Shape &input = request.operand(0), &output = request.operand(1);
  bool fits = input.dtype() == output.dtype() && input.rank() == output.rank() && input.rank() > 0;
  for (int i = 1; fits && i < input.rank(); ++i) fits = input.dim(i) == output.dim(i);
  if (!fits) {
    return request.error(fmt::format("operands {} and {}, must be alike but in dim 0",
                                     input.to_string(), output.to_string()));
  }
  for (int i = 2; i < request.operand_count(); ++i) {
    const Shape& numbers = request.operand(i);
    if (numbers.rank() == 1 && numbers.dims() == request.operand(2).dims() &&
        (numbers.dtype() == DType::s32 || numbers.dtype() == DType::s64 ||
         numbers.dtype() == DType::u32 || numbers.dtype() == DType::u64)) {
      continue;
    }
    return request.error(fmt::format(
        "operand {} is {}, must be a vector of s32, s64, u32 or u64 as long as operand 2", i,
        numbers.to_string()));
  }
  return output;
}

// The done half of a pair returns one element of what the start half returned.
Result<Shape> done(const Request& request, std::size_t element) {
  const Shape& start = request.operand(0);
  if (start.is_tuple() && element < start.elements().size()) return start.elements()[element];
  return request.error("operand is " + start.to_string() + ", must be the result of the start");
}

// The halves of a transfer: (data, context, token) while it is under way.
Status require_under_way(const Request& request, const Shape& shape) {
  if (shape.is_tuple() && shape.elements().size() == 3 && shape.elements()[0].is_array() &&
      shape.elements()[1] == Shape(DType::u32, {}) && shape.elements()[2] == Shape::token()) {
    return ok_status();
  }
  return request.error(shape.to_string() + ", must be (an array, u32[], token[])");
}

Result<Shape> transfer(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_given());
  const Shape& given = *request.given;
  const bool sends = request.opcode == Opcode::send;
  switch (request.opcode) {
    case Opcode::send:
    case Opcode::recv:
      if (!(request.operand(sends ? 1 : 0) == Shape::token())) {
        return request.error("the last operand must be a token");
      }
      PLIMSOLL_RETURN_IF_ERROR(require_under_way(request, given));
      if (!sends || given.elements()[0] == request.operand(0)) return given;
      return request.error("result " + given.to_string() + " of " + request.operand(0).to_string());
    case Opcode::recv_done:
      PLIMSOLL_RETURN_IF_ERROR(require_under_way(request, request.operand(0)));
      return Shape::tuple({request.operand(0).elements()[0], Shape::token()});
    default:
      PLIMSOLL_RETURN_IF_ERROR(require_under_way(request, request.operand(0)));
      return Shape::token();
  }
}

}  // namespace

Result<Shape> collective(const Request& request) {
  switch (request.opcode) {
    case Opcode::all_reduce:
    case Opcode::all_reduce_start:
      return all_reduce(request);
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
      return scaled(request);
    case Opcode::all_gather_start:
      return all_gather_start(request);
    case Opcode::all_to_all:
      return all_to_all(request);
    case Opcode::ragged_all_to_all:
      return ragged_all_to_all(request);
    case Opcode::collective_permute_start:
      return collective_permute_start(request);
    case Opcode::async_start:
      return async_start(request);
    case Opcode::collective_permute:
      if (request.operand_count() == 1) PLIMSOLL_RETURN_IF_ERROR(request.require_arrays());
      // Operands after the first say where the in-place form writes.
      return request.operand_count() == 1
                 ? request.operand(0)
                 : Result<Shape>(request.given != nullptr ? *request.given : request.operand(0));
    case Opcode::collective_broadcast:
      PLIMSOLL_RETURN_IF_ERROR(request.require_arrays());
      return as_tuple_unless_one(request);
    case Opcode::all_reduce_done:
      return request.operand(0);
    case Opcode::all_gather_done:
    case Opcode::collective_permute_done:
      return done(request, 1);
    case Opcode::copy_done:
      return done(request, 0);
    case Opcode::send:
    case Opcode::recv:
    case Opcode::send_done:
    case Opcode::recv_done:
      return transfer(request);
    default:
      PLIMSOLL_RETURN_IF_ERROR(request.require_given());
      return *request.given;
  }
}

}  // namespace plimsoll::ir::shape_rules
