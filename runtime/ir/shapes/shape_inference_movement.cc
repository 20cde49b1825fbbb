// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/shape_inference_rules.h"

namespace plimsoll::ir::shape_rules {
namespace {

Status same_dtype(const Request& request, int a, int b) {
  if (request.operand(a).dtype() == request.operand(b).dtype()) return ok_status();
  return request.error(request.operand(a).to_string() + " and " + request.operand(b).to_string() +
                       " differ in element type");
}

Status one_value_per_dimension(const Request& request, std::size_t count, std::string_view name) {
  const auto rank = at(request.operand(0).rank());
  if (count == rank) return ok_status();
  return request.error(fmt::format("{} values in {} for rank {}", count, name, rank));
}

Result<Shape> iota(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_given_array());
  const auto& dimensions = request.attributes.dimensions;
  if (request.given->dtype() == DType::pred) return request.error("pred cannot be counted");
  if (dimensions.size() != 1) return request.error("needs one iota_dimension");
  PLIMSOLL_RETURN_IF_ERROR(
      check_dimensions(request, dimensions, request.given->rank(), "iota_dimension"));
  return *request.given;
}

Result<Shape> constant(const Request& request) {
  const Literal* literal = request.attributes.literal.get();
  if (literal == nullptr) return request.error("has no literal");
  return literal->shape();
}

Result<Shape> bitcast(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_given_array());
  const Shape& from = request.operand(0);
  if (from.byte_size() != request.given->byte_size()) {
    return request.error(from.to_string() + " and " + request.given->to_string() +
                         " differ in bytes");
  }
  return *request.given;
}

Result<Shape> broadcast(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_given_array());
  const Shape& from = request.operand(0);
  const Shape& to = *request.given;
  const auto& dimensions = request.attributes.dimensions;
  PLIMSOLL_RETURN_IF_ERROR(one_value_per_dimension(request, dimensions.size(), "dimensions"));
  PLIMSOLL_RETURN_IF_ERROR(check_dimensions(request, dimensions, to.rank(), "dimensions"));
  for (int i = 0; i < from.rank(); ++i) {
    if (from.dim(i) != to.dim(static_cast<int>(dimensions[at(i)]))) {
      return request.error(from.to_string() + " does not fit " + to.to_string() +
                           " at dimensions=" + join(dimensions));
    }
  }
  return Shape(from.dtype(), to.dims());
}

Result<Shape> reshape(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_given_array());
  const Shape& from = request.operand(0);
  if (from.element_count() != request.given->element_count()) {
    return request.error(from.to_string() + " and " + request.given->to_string() +
                         " differ in element count");
  }
  return Shape(from.dtype(), request.given->dims());
}

Result<Shape> transpose(const Request& request) {
  const Shape& from = request.operand(0);
  const auto& permutation = request.attributes.dimensions;
  PLIMSOLL_RETURN_IF_ERROR(one_value_per_dimension(request, permutation.size(), "dimensions"));
  PLIMSOLL_RETURN_IF_ERROR(check_dimensions(request, permutation, from.rank(), "dimensions"));
  Dims dims;
  for (std::int64_t d : permutation) dims.push_back(from.dim(static_cast<int>(d)));
  return Shape(from.dtype(), dims);
}

Result<Shape> slice(const Request& request) {
  const Shape& from = request.operand(0);
  const Attributes& a = request.attributes;
  PLIMSOLL_RETURN_IF_ERROR(one_value_per_dimension(request, a.slice_starts.size(), "starts"));
  PLIMSOLL_RETURN_IF_ERROR(one_value_per_dimension(request, a.slice_limits.size(), "limits"));
  PLIMSOLL_RETURN_IF_ERROR(one_value_per_dimension(request, a.slice_strides.size(), "strides"));
  Dims dims;
  for (std::size_t i = 0; i < a.slice_starts.size(); ++i) {
    const std::int64_t size = from.dim(static_cast<int>(i));
    const std::int64_t start = a.slice_starts[i], limit = a.slice_limits[i];
    const std::int64_t stride = a.slice_strides[i];
    if (start < 0 || limit < start || limit > size || stride < 1) {
      return request.error(fmt::format("[{}:{}:{}] out of range in dimension {} of {}", start,
                                       limit, stride, i, from.to_string()));
    }
    dims.push_back((limit - start) / stride + ((limit - start) % stride != 0 ? 1 : 0));
  }
  return Shape(from.dtype(), dims);
}

Status check_start_indices(const Request& request, int first) {
  const int rank = request.operand(0).rank();
  if (request.operand_count() - first != rank) {
    return request.error(
        fmt::format("{} start indices for rank {}", request.operand_count() - first, rank));
  }
  for (int i = first; i < request.operand_count(); ++i) {
    const Shape& index = request.operand(i);
    if (!index.is_scalar() || !is_integer(index.dtype())) {
      return request.error(fmt::format("start index {} is {}, must be an integer scalar", i - first,
                                       index.to_string()));
    }
    if (!(index == request.operand(first))) {
      return request.error("start indices differ in element type");
    }
  }
  return ok_status();
}

Result<Shape> dynamic_slice(const Request& request) {
  const Shape& from = request.operand(0);
  const auto& sizes = request.attributes.slice_sizes;
  PLIMSOLL_RETURN_IF_ERROR(one_value_per_dimension(request, sizes.size(), "dynamic_slice_sizes"));
  PLIMSOLL_RETURN_IF_ERROR(check_start_indices(request, 1));
  for (int i = 0; i < from.rank(); ++i) {
    const std::int64_t size = sizes[at(i)];
    if (size < 0 || size > from.dim(i)) {
      return request.error("dynamic_slice_sizes=" + join(sizes) + " out of range for " +
                           from.to_string());
    }
  }
  return Shape(from.dtype(), Dims(sizes));
}

Result<Shape> dynamic_update_slice(const Request& request) {
  const Shape& into = request.operand(0);
  const Shape& update = request.operand(1);
  PLIMSOLL_RETURN_IF_ERROR(same_dtype(request, 0, 1));
  PLIMSOLL_RETURN_IF_ERROR(check_start_indices(request, 2));
  bool fits = into.rank() == update.rank();
  for (int i = 0; fits && i < into.rank(); ++i) fits = update.dim(i) <= into.dim(i);
  if (!fits) return request.error(update.to_string() + " does not fit in " + into.to_string());
  return Shape(into.dtype(), into.dims());
}

Result<Shape> concatenate(const Request& request) {
  const Shape& first = request.operand(0);
  if (request.attributes.dimensions.size() != 1) return request.error("needs one dimension");
  PLIMSOLL_RETURN_IF_ERROR(
      check_dimensions(request, request.attributes.dimensions, first.rank(), "dimensions"));
  const int along = static_cast<int>(request.attributes.dimensions[0]);
  std::vector<std::int64_t> dims = first.dims().to_vector();
  for (int i = 1; i < request.operand_count(); ++i) {
    const Shape& next = request.operand(i);
    PLIMSOLL_RETURN_IF_ERROR(same_dtype(request, 0, i));
    bool matches = next.rank() == first.rank();
    for (int d = 0; matches && d < first.rank(); ++d) {
      matches = d == along || next.dim(d) == first.dim(d);
    }
    if (!matches) {
      return request.error(fmt::format("{} and {} differ outside dimension {}", first.to_string(),
                                       next.to_string(), along));
    }
    dims[at(along)] += next.dim(along);
  }
  return make_array(request, first.dtype(), dims);
}

Result<Shape> pad(const Request& request) {
  const Shape& from = request.operand(0);
  const auto& padding = request.attributes.padding;
  PLIMSOLL_RETURN_IF_ERROR(one_value_per_dimension(request, padding.size(), "padding"));
  PLIMSOLL_RETURN_IF_ERROR(same_dtype(request, 0, 1));
  if (!request.operand(1).is_scalar()) {
    return request.error("padding value is " + request.operand(1).to_string() +
                         ", must be a scalar");
  }
  std::vector<std::int64_t> dims;
  for (int i = 0; i < from.rank(); ++i) {
    const PaddingDimension& p = padding[at(i)];
    constexpr std::int64_t kLimit = std::int64_t{1} << 56;
    if (p.interior < 0 || p.interior > kLimit || std::max(p.low, p.high) > kLimit ||
        std::min(p.low, p.high) < -kLimit) {
      return request.error(fmt::format("padding out of range in dimension {}", i));
    }
    std::int64_t gaps = 0;
    if (__builtin_mul_overflow(std::max<std::int64_t>(from.dim(i) - 1, 0), p.interior, &gaps) ||
        gaps > kLimit) {
      return request.error(fmt::format("padding out of range in dimension {}", i));
    }
    const std::int64_t size = from.dim(i) + p.low + p.high + gaps;
    if (size < 0) {
      return request.error(
          fmt::format("padding leaves dimension {} of {} negative", i, from.to_string()));
    }
    dims.push_back(size);
  }
  return make_array(request, from.dtype(), dims);
}

}  // namespace

Result<Shape> movement(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_arrays());
  switch (request.opcode) {
    case Opcode::constant:
      return constant(request);
    case Opcode::iota:
      return iota(request);
    case Opcode::partition_id:
    case Opcode::replica_id:
      return Shape(DType::u32, {});
    case Opcode::bitcast:
      return bitcast(request);
    case Opcode::broadcast:
      return broadcast(request);
    case Opcode::reshape:
      return reshape(request);
    case Opcode::transpose:
      return transpose(request);
    case Opcode::slice:
      return slice(request);
    case Opcode::dynamic_slice:
      return dynamic_slice(request);
    case Opcode::dynamic_update_slice:
      return dynamic_update_slice(request);
    case Opcode::concatenate:
      return concatenate(request);
    case Opcode::pad:
      return pad(request);
    case Opcode::reverse:
      PLIMSOLL_RETURN_IF_ERROR(check_dimensions(request, request.attributes.dimensions,
                                                request.operand(0).rank(), "dimensions"));
      return Shape(request.operand(0).dtype(), request.operand(0).dims());
    default:
      return internal_error("shape inference: no rule for " +
                            std::string(to_string(request.opcode)));
  }
}

}  // namespace plimsoll::ir::shape_rules
