// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/shape_inference.h"

#include <fmt/core.h>
#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/shape_inference_rules.h"

namespace plimsoll::ir {
namespace shape_rules {

Status Request::error(std::string_view what) const {
  return invalid_argument(std::string(to_string(opcode)) + ": " + std::string(what));
}

Status Request::require_given() const {
  return given != nullptr ? ok_status() : error("the result shape must be given");
}

Status Request::require_given_array() const {
  PLIMSOLL_RETURN_IF_ERROR(require_given());
  if (given->is_array()) return ok_status();
  return error("the result " + given->to_string() + " must be an array");
}

Status Request::require_arrays(int first, int last) const {
  for (int i = first; i < last; ++i) {
    if (!operand(i).is_array()) {
      return error(fmt::format("operand {} is {}, must be an array", i, operand(i).to_string()));
    }
  }
  return ok_status();
}

Status Request::require_called(std::size_t count) const {
  if (called.size() != count) {
    return error(fmt::format("calls {} computations, must call {}", called.size(), count));
  }
  for (const Computation* computation : called) {
    if (computation == nullptr || computation->root() == nullptr) {
      return error("calls an empty computation");
    }
    for (const Instruction* parameter : computation->parameters()) {
      if (parameter == nullptr) {
        return error("calls '" + computation->name() +
                     "', whose parameters are not numbered 0..n-1");
      }
    }
  }
  return ok_status();
}

std::string join(Values values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(values[i]);
  }
  return text + "]";
}

Status check_dimensions(const Request& request, Values dimensions, int rank,
                        std::string_view name) {
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (dimensions[i] < 0 || dimensions[i] >= rank) {
      return request.error(
          fmt::format("{}={} out of range for rank {}", name, join(dimensions), rank));
    }
    if (std::find(dimensions.begin(), dimensions.begin() + static_cast<std::ptrdiff_t>(i),
                  dimensions[i]) != dimensions.begin() + static_cast<std::ptrdiff_t>(i)) {
      return request.error(
          fmt::format("{}={} names {} twice", name, join(dimensions), dimensions[i]));
    }
  }
  return ok_status();
}

Result<Shape> make_array(const Request& request, DType dtype,
                         const std::vector<std::int64_t>& dims) {
  if (dims.size() > static_cast<std::size_t>(kMaxRank)) {
    return request.error(fmt::format("result rank {} is over {}", dims.size(), kMaxRank));
  }
  const Dims checked(dims);
  if (!fits_address_space(dtype, checked)) {
    return request.error("result dims " + join(dims) + " are negative or too large");
  }
  return Shape(dtype, checked);
}

bool compatible(DType a, DType b) { return a == b || (is_floating(a) && is_floating(b)); }

DType higher_precision(DType a, DType b) {
  if (dtype_bytes(a) != dtype_bytes(b)) return dtype_bytes(a) > dtype_bytes(b) ? a : b;
  // f16 has more mantissa bits than bf16.
  return a == DType::f16 || b == DType::f16 ? DType::f16 : a;
}

Shape with_given_precision(const Request& request, Shape result) {
  const Shape* given = request.given;
  if (given == nullptr) return result;
  if (result.is_tuple() && given->is_tuple() &&
      result.elements().size() == given->elements().size()) {
    std::vector<Shape> elements;
    for (std::size_t i = 0; i < given->elements().size(); ++i) {
      const Shape& mine = result.elements()[i];
      const Shape& wanted = given->elements()[i];
      const bool takes = mine.is_array() && wanted.is_array() && mine.dims() == wanted.dims() &&
                         compatible(mine.dtype(), wanted.dtype());
      elements.push_back(takes ? Shape(wanted.dtype(), mine.dims()) : mine);
    }
    return Shape::tuple(std::move(elements));
  }
  if (result.is_array() && given->is_array() && compatible(result.dtype(), given->dtype())) {
    return Shape(given->dtype(), result.dims());
  }
  return result;
}

Status check_signature(const Request& request, const Computation& computation,
                       std::span<const Shape> parameters, const Shape* result) {
  const std::string name = "'" + computation.name() + "'";
  if (computation.parameters().size() != parameters.size()) {
    return request.error(fmt::format("{} has {} parameters, must have {}", name,
                                     computation.parameters().size(), parameters.size()));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Shape& actual = computation.parameters()[i]->shape();
    if (!(actual == parameters[i])) {
      return request.error(fmt::format("parameter {} of {} is {}, must be {}", i, name,
                                       actual.to_string(), parameters[i].to_string()));
    }
  }
  if (result != nullptr && !(computation.root()->shape() == *result)) {
    return request.error(name + " returns " + computation.root()->shape().to_string() +
                         ", must return " + result->to_string());
  }
  return ok_status();
}

namespace {

Result<Shape> dispatch(const Request& request) {
  switch (op_info(request.opcode).op_class) {
    case OpClass::unary:
    case OpClass::binary:
    case OpClass::ternary:
      return elementwise(request);
    case OpClass::creation:
    case OpClass::movement:
      return movement(request);
    case OpClass::contraction:
      return contraction(request);
    case OpClass::reduction:
      return reduction(request);
    case OpClass::irregular:
      return irregular(request);
    case OpClass::control:
    case OpClass::structure:
    case OpClass::kernel:
      return control(request);
    case OpClass::collective:
    case OpClass::async:
      return collective(request);
  }
  return internal_error("shape inference: unknown op class");
}

Status check_sizes(const Request& request, const Shape& shape) {
  if (shape.is_tuple()) {
    for (const Shape& element : shape.elements()) {
      PLIMSOLL_RETURN_IF_ERROR(check_sizes(request, element));
    }
  } else if (shape.is_array() && !fits_address_space(shape.dtype(), shape.dims())) {
    return request.error(shape.to_string() + " is too large");
  }
  return ok_status();
}

}  // namespace
}  // namespace shape_rules

Result<Shape> infer_shape(Opcode opcode, std::span<const Shape* const> operands,
                          const Attributes& attributes, std::span<Computation* const> called,
                          const Shape* given) {
  const shape_rules::Request request{opcode, operands, attributes, called, given};
  const OpInfo& info = op_info(opcode);
  const int count = request.operand_count();
  if (count < info.fewest_operands || (info.most_operands >= 0 && count > info.most_operands)) {
    std::string wanted = std::to_string(info.fewest_operands);
    if (info.most_operands < 0) {
      wanted += " or more";
    } else if (info.most_operands != info.fewest_operands) {
      wanted += fmt::format(" to {}", info.most_operands);
    }
    return request.error(fmt::format("{} operands, must have {}", count, wanted));
  }
  if (given != nullptr) PLIMSOLL_RETURN_IF_ERROR(shape_rules::check_sizes(request, *given));
  PLIMSOLL_ASSIGN_OR_RETURN(Shape result, shape_rules::dispatch(request));
  if (given == nullptr) return result;
  if (!(result == *given)) {
    return request.error("result is " + result.to_string() + ", not " + given->to_string());
  }
  return *given;  // keeps the layout annotation
}

}  // namespace plimsoll::ir
