// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/shape_inference_rules.h"

namespace plimsoll::ir::shape_rules {
namespace {

// The dtypes that a reducer of `count` values works in, after checking that it takes and returns
// them: (a0.., b0..) -> (r0..), scalars all.
Result<std::vector<DType>> reducer_dtypes(const Request& request, const Computation& reducer,
                                          int count) {
  std::vector<DType> dtypes;
  for (int i = 0; i < count; ++i) dtypes.push_back(request.operand(count + i).dtype());
  const std::string name = "'" + reducer.name() + "'";
  if (reducer.parameters().size() != at(2 * count)) {
    return request.error(fmt::format("{} has {} parameters, must have {}", name,
                                     reducer.parameters().size(), 2 * count));
  }
  const Shape& result = reducer.root()->shape();
  const bool counted =
      count == 1 ? result.is_array() : result.is_tuple() && result.elements().size() == at(count);
  if (!counted) {
    return request.error(
        fmt::format("{} returns {} for {} operands", name, result.to_string(), count));
  }
  for (int i = 0; i < count; ++i) {
    const Shape& returned = count == 1 ? result : result.elements()[at(i)];
    const Shape& accumulated = reducer.parameters()[at(i)]->shape();
    const Shape& element = reducer.parameters()[at(count + i)]->shape();
    for (const Shape* shape : {&returned, &accumulated, &element}) {
      if (!shape->is_scalar() || !compatible(shape->dtype(), dtypes[at(i)])) {
        return request.error(name + " works on " + shape->to_string() + ", the initial value is " +
                             request.operand(count + i).to_string());
      }
    }
    if (accumulated.dtype() != element.dtype()) {
      return request.error(name + " combines " + accumulated.to_string() + " with " +
                           element.to_string() + ", must be of one element type");
    }
    dtypes[at(i)] = returned.dtype();
  }
  return dtypes;
}

// N operands of equal dims, then N initial scalars of fitting dtypes.
Status check_operands(const Request& request, int count) {
  for (int i = 0; i < count; ++i) {
    const Shape& operand = request.operand(i);
    const Shape& initial = request.operand(count + i);
    if (!(operand.dims() == request.operand(0).dims())) {
      return request.error(request.operand(0).to_string() + " and " + operand.to_string() +
                           " differ in dims");
    }
    if (!initial.is_scalar() || !compatible(initial.dtype(), operand.dtype())) {
      return request.error("initial value " + initial.to_string() + " does not fit " +
                           operand.to_string());
    }
  }
  return ok_status();
}

Result<Shape> result_of(const Request& request, const std::vector<DType>& dtypes,
                        const std::vector<std::int64_t>& dims) {
  std::vector<Shape> shapes;
  for (DType dtype : dtypes) {
    PLIMSOLL_ASSIGN_OR_RETURN(Shape shape, make_array(request, dtype, dims));
    shapes.push_back(std::move(shape));
  }
  if (shapes.size() == 1) return with_given_precision(request, std::move(shapes[0]));
  return with_given_precision(request, Shape::tuple(std::move(shapes)));
}

Result<Shape> select_and_scatter(const Request& request) {
  const Shape& operand = request.operand(0);
  const Shape& source = request.operand(1);
  const Shape& initial = request.operand(2);
  PLIMSOLL_RETURN_IF_ERROR(request.require_called(2));
  PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<std::int64_t> slid,
                            windowed_dims(request, operand.dims(), request.attributes.window));
  if (!(source.dims() == Dims(slid)) || !compatible(source.dtype(), operand.dtype())) {
    return request.error("source is " + source.to_string() + ", the window gives dims " +
                         join(slid));
  }
  if (!initial.is_scalar() || !compatible(initial.dtype(), source.dtype())) {
    return request.error("initial value " + initial.to_string() + " does not fit " +
                         source.to_string());
  }
  const Shape element(operand.dtype(), {});
  const Shape predicate(DType::pred, {});
  const Shape select_parameters[] = {element, element};
  PLIMSOLL_RETURN_IF_ERROR(
      check_signature(request, *request.called[0], select_parameters, &predicate));
  const Shape value(source.dtype(), {});
  const Shape scatter_parameters[] = {value, value};
  PLIMSOLL_RETURN_IF_ERROR(
      check_signature(request, *request.called[1], scatter_parameters, &value));
  return with_given_precision(request, Shape(operand.dtype(), operand.dims()));
}

}  // namespace

Result<Shape> reduction(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_arrays());
  if (request.opcode == Opcode::select_and_scatter) return select_and_scatter(request);
  if (request.operand_count() % 2 != 0) {
    return request.error(fmt::format("{} operands, must be as many initial values as arrays",
                                     request.operand_count()));
  }
  const int count = request.operand_count() / 2;
  PLIMSOLL_RETURN_IF_ERROR(check_operands(request, count));
  PLIMSOLL_RETURN_IF_ERROR(request.require_called(1));
  PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<DType> dtypes,
                            reducer_dtypes(request, *request.called[0], count));
  const Dims& from = request.operand(0).dims();
  if (request.opcode == Opcode::reduce_window) {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<std::int64_t> slid,
                              windowed_dims(request, from, request.attributes.window));
    return result_of(request, dtypes, slid);
  }
  const auto& dimensions = request.attributes.dimensions;
  PLIMSOLL_RETURN_IF_ERROR(check_dimensions(request, dimensions, from.size(), "dimensions"));
  std::vector<std::int64_t> dims;
  for (int i = 0; i < from.size(); ++i) {
    if (std::find(dimensions.begin(), dimensions.end(), i) == dimensions.end()) {
      dims.push_back(from[i]);
    }
  }
  return result_of(request, dtypes, dims);
}

}  // namespace plimsoll::ir::shape_rules
