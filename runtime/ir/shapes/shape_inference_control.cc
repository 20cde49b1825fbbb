// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/index.h"
#include "runtime/ir/shapes/shape_inference_rules.h"

#include <fmt/core.h>

namespace plimsoll::ir::shape_rules {
namespace {

Result<Shape> call(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_called(1));
  std::vector<Shape> parameters;
  for (const Shape* operand : request.operands) parameters.push_back(*operand);
  PLIMSOLL_RETURN_IF_ERROR(check_signature(request, *request.called[0], parameters, nullptr));
  return request.called[0]->root()->shape();
}

Result<Shape> while_loop(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_called(2));
  const Shape& state = request.operand(0);
  const Shape predicate(DType::pred, {});
  PLIMSOLL_RETURN_IF_ERROR(check_signature(request, *request.called[0], {&state, 1}, &predicate));
  PLIMSOLL_RETURN_IF_ERROR(check_signature(request, *request.called[1], {&state, 1}, &state));
  return state;
}

Result<Shape> conditional(const Request& request) {
  const Shape& selector = request.operand(0);
  const bool two_way = selector == Shape(DType::pred, {});
  if (!two_way && !(selector == Shape(DType::s32, {}))) {
    return request.error("selector is " + selector.to_string() + ", must be pred[] or s32[]");
  }
  const auto branches = at(request.operand_count() - 1);
  if (branches == 0) return request.error("has no branches");
  PLIMSOLL_RETURN_IF_ERROR(request.require_called(two_way ? 2 : branches));
  if (two_way && branches != 2) return request.error("a pred selector needs two branches");
  const Shape& result = request.called[0]->root()->shape();
  for (std::size_t i = 0; i < branches; ++i) {
    const Shape& argument = request.operand(static_cast<int>(i) + 1);
    PLIMSOLL_RETURN_IF_ERROR(check_signature(request, *request.called[i], {&argument, 1}, &result));
  }
  return result;
}

Result<Shape> get_tuple_element(const Request& request) {
  const Shape& tuple = request.operand(0);
  const std::int64_t index = request.attributes.tuple_index;
  if (!tuple.is_tuple()) {
    return request.error("operand is " + tuple.to_string() + ", must be a tuple");
  }
  if (index < 0 || index >= static_cast<std::int64_t>(tuple.elements().size())) {
    return request.error(fmt::format("index {} out of range for {}", index, tuple.to_string()));
  }
  return tuple.elements()[at(index)];
}

}  // namespace

Result<Shape> control(const Request& request) {
  switch (request.opcode) {
    case Opcode::call:
    case Opcode::fusion:
      return call(request);
    case Opcode::while_:
      return while_loop(request);
    case Opcode::conditional:
      return conditional(request);
    case Opcode::get_tuple_element:
      return get_tuple_element(request);
    case Opcode::tuple: {
      std::vector<Shape> elements;
      for (const Shape* operand : request.operands) elements.push_back(*operand);
      return Shape::tuple(std::move(elements));
    }
    case Opcode::after_all:
      for (int i = 0; i < request.operand_count(); ++i) {
        if (!request.operand(i).is_token()) {
          return request.error(
              fmt::format("operand {} is {}, must be a token", i, request.operand(i).to_string()));
        }
      }
      return Shape::token();
    case Opcode::domain:
    case Opcode::opt_barrier:
    case Opcode::add_dependency:
      return request.operand(0);
    default:  // parameter, custom-call
      if (request.given == nullptr) return request.error("the result shape must be given");
      if (request.opcode == Opcode::parameter && request.attributes.parameter_number < 0) {
        return request.error(
            fmt::format("number {} is negative", request.attributes.parameter_number));
      }
      return *request.given;
  }
}

}  // namespace plimsoll::ir::shape_rules
