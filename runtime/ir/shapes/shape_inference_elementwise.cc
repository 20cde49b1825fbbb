// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/shape_inference_rules.h"

#include <fmt/core.h>

namespace plimsoll::ir::shape_rules {
namespace {

// Of the operations on floats.
bool has_complex_form(Opcode opcode) {
  switch (opcode) {
    case Opcode::exponential:
    case Opcode::exponential_minus_one:
    case Opcode::log:
    case Opcode::log_plus_one:
    case Opcode::logistic:
    case Opcode::tanh:
    case Opcode::sine:
    case Opcode::cosine:
    case Opcode::tan:
    case Opcode::sqrt:
    case Opcode::rsqrt:
    case Opcode::cbrt:
      return true;
    default:
      return false;
  }
}

Status check_dtype(const Request& request, DType dtype) {
  bool ok = true;
  std::string_view wanted;
  switch (op_info(request.opcode).accepts) {
    case Accepts::any:
      break;
    case Accepts::numeric:
      ok = dtype != DType::pred;
      wanted = "a number";
      break;
    case Accepts::floating:
      ok = is_floating(dtype) || (is_complex(dtype) && has_complex_form(request.opcode));
      wanted = "floating";
      break;
    case Accepts::integer:
      ok = is_integer(dtype);
      wanted = "an integer";
      break;
    case Accepts::bits:
      ok = is_integer(dtype) || dtype == DType::pred;
      wanted = "pred or an integer";
      break;
  }
  if (ok) return ok_status();
  return request.error("element type " + std::string(to_string(dtype)) + " must be " +
                       std::string(wanted));
}

Status differ(const Request& request, int a, int b, std::string_view in) {
  return request.error(request.operand(a).to_string() + " and " + request.operand(b).to_string() +
                       " differ in " + std::string(in));
}

Result<Shape> bitcast_convert(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_given_array());
  const Shape& from = request.operand(0);
  const DType to = request.given->dtype();
  const int from_bits = dtype_bits(from.dtype());
  const int to_bits = dtype_bits(to);
  std::vector<std::int64_t> dims = from.dims().to_vector();
  if (from_bits > to_bits) {
    dims.push_back(from_bits / to_bits);
  } else if (from_bits < to_bits) {
    if (dims.empty() || dims.back() != to_bits / from_bits) {
      return request.error(fmt::format("{} to {} needs a last dimension of {}", from.to_string(),
                                       to_string(to), to_bits / from_bits));
    }
    dims.pop_back();
  }
  return make_array(request, to, dims);
}

// Operands `a` and `b` may be combined; widens `dtype` for mixed precision.
Status merge(const Request& request, int a, int b, DType& dtype) {
  if (!(request.operand(a).dims() == request.operand(b).dims())) {
    return differ(request, a, b, "dims");
  }
  if (!compatible(request.operand(a).dtype(), request.operand(b).dtype())) {
    return differ(request, a, b, "element type");
  }
  dtype = higher_precision(dtype, request.operand(b).dtype());
  return ok_status();
}

Result<Shape> select(const Request& request) {
  const Shape& predicate = request.operand(0);
  if (predicate.dtype() != DType::pred) {
    return request.error("predicate is " + predicate.to_string() + ", must be pred");
  }
  DType dtype = request.operand(1).dtype();
  PLIMSOLL_RETURN_IF_ERROR(merge(request, 1, 2, dtype));
  if (!predicate.is_scalar() && !(predicate.dims() == request.operand(1).dims())) {
    return differ(request, 0, 1, "dims");
  }
  return with_given_precision(request, Shape(dtype, request.operand(1).dims()));
}

Result<Shape> clamp(const Request& request) {
  const Shape& value = request.operand(1);
  DType dtype = value.dtype();
  for (int bound : {0, 2}) {
    if (request.operand(bound).is_scalar() &&
        compatible(request.operand(bound).dtype(), value.dtype())) {
      dtype = higher_precision(dtype, request.operand(bound).dtype());
      continue;
    }
    PLIMSOLL_RETURN_IF_ERROR(merge(request, 1, bound, dtype));
  }
  return with_given_precision(request, Shape(dtype, value.dims()));
}

}  // namespace

Result<Shape> elementwise(const Request& request) {
  // copy passes whatever it gets, tuples too.
  if (request.opcode == Opcode::copy && !request.operand(0).is_array()) return request.operand(0);
  PLIMSOLL_RETURN_IF_ERROR(request.require_arrays());
  const Shape& first = request.operand(0);
  switch (request.opcode) {
    case Opcode::select:
      return select(request);
    case Opcode::clamp:
      return clamp(request);
    case Opcode::bitcast_convert:
      return bitcast_convert(request);
    case Opcode::convert:
      PLIMSOLL_RETURN_IF_ERROR(request.require_given_array());
      return Shape(request.given->dtype(), first.dims());
    case Opcode::copy:
      return Shape(first.dtype(), first.dims());
    case Opcode::reduce_precision:
      if (request.attributes.exponent_bits < 1 || request.attributes.mantissa_bits < 0) {
        return request.error("needs exponent_bits >= 1 and mantissa_bits >= 0");
      }
      break;
    default:
      break;
  }
  DType dtype = first.dtype();
  for (int i = 1; i < request.operand_count(); ++i) {
    PLIMSOLL_RETURN_IF_ERROR(merge(request, 0, i, dtype));
  }
  PLIMSOLL_RETURN_IF_ERROR(check_dtype(request, dtype));
  if (op_info(request.opcode).shape_rule == ShapeRule::predicate) {
    return Shape(DType::pred, first.dims());
  }
  if (request.opcode == Opcode::abs) dtype = part_dtype(dtype);
  return with_given_precision(request, Shape(dtype, first.dims()));
}

}  // namespace plimsoll::ir::shape_rules
