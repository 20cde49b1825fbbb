// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>
#include <charconv>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/shape_inference.h"
#include "runtime/ir/shapes/shape_inference_rules.h"

namespace plimsoll::ir::shape_rules {
namespace {

bool contains(Values values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// The dims of `indices` without the index vector, which may be implicit (index_vector_dim = rank).
Result<std::vector<std::int64_t>> index_batch_dims(const Request& request, const Shape& indices,
                                                   std::int64_t index_vector_dim,
                                                   std::size_t vector_size) {
  if (!is_integer(indices.dtype())) {
    return request.error("indices are " + indices.to_string() + ", must be integers");
  }
  if (index_vector_dim < 0 || index_vector_dim > indices.rank()) {
    return request.error(fmt::format("index_vector_dim={} out of range for {}", index_vector_dim,
                                     indices.to_string()));
  }
  const std::int64_t actual =
      index_vector_dim == indices.rank() ? 1 : indices.dim(static_cast<int>(index_vector_dim));
  if (actual != static_cast<std::int64_t>(vector_size)) {
    return request.error(
        fmt::format("index vectors have {} elements, {} dims are indexed", actual, vector_size));
  }
  std::vector<std::int64_t> dims;
  for (int i = 0; i < indices.rank(); ++i) {
    if (i != index_vector_dim) dims.push_back(indices.dim(i));
  }
  return dims;
}

// Batching dims pair operand dims with dims of the indices of equal size.
Status check_batching(const Request& request, const Shape& operand, const Shape& indices,
                      Values operand_dims, Values indices_dims, std::int64_t index_vector_dim) {
  PLIMSOLL_RETURN_IF_ERROR(
      check_dimensions(request, operand_dims, operand.rank(), "operand batching dims"));
  PLIMSOLL_RETURN_IF_ERROR(
      check_dimensions(request, indices_dims, indices.rank(), "indices batching dims"));
  if (operand_dims.size() != indices_dims.size() || contains(indices_dims, index_vector_dim)) {
    return request.error("batching dims of the two sides do not pair");
  }
  for (std::size_t i = 0; i < operand_dims.size(); ++i) {
    if (operand.dim(static_cast<int>(operand_dims[i])) !=
        indices.dim(static_cast<int>(indices_dims[i]))) {
      return request.error(
          fmt::format("batching dims {} and {} differ in size", operand_dims[i], indices_dims[i]));
    }
  }
  return ok_status();
}

Result<Shape> gather(const Request& request) {
  const Shape& operand = request.operand(0);
  const Shape& indices = request.operand(1);
  if (request.attributes.gather == nullptr) return request.error("has no dimension numbers");
  const GatherDimensions& d = *request.attributes.gather;
  const auto& sizes = request.attributes.slice_sizes;
  PLIMSOLL_RETURN_IF_ERROR(
      check_dimensions(request, d.start_index_map, operand.rank(), "start_index_map"));
  std::vector<std::int64_t> dropped = d.collapsed_slice_dims;
  dropped.insert(dropped.end(), d.operand_batching_dims.begin(), d.operand_batching_dims.end());
  PLIMSOLL_RETURN_IF_ERROR(
      check_dimensions(request, dropped, operand.rank(), "collapsed_slice_dims"));
  PLIMSOLL_RETURN_IF_ERROR(check_batching(request, operand, indices, d.operand_batching_dims,
                                          d.start_indices_batching_dims, d.index_vector_dim));
  PLIMSOLL_ASSIGN_OR_RETURN(
      const std::vector<std::int64_t> batch,
      index_batch_dims(request, indices, d.index_vector_dim, d.start_index_map.size()));
  if (sizes.size() != at(operand.rank())) {
    return request.error("slice_sizes=" + join(sizes) + " for " + operand.to_string());
  }
  std::vector<std::int64_t> offsets;
  for (int i = 0; i < operand.rank(); ++i) {
    const std::int64_t size = sizes[at(i)];
    if (size < 0 || size > operand.dim(i) || (contains(dropped, i) && size > 1)) {
      return request.error("slice_sizes=" + join(sizes) + " out of range for " +
                           operand.to_string());
    }
    if (!contains(dropped, i)) offsets.push_back(size);
  }
  const std::size_t rank = batch.size() + offsets.size();
  if (d.offset_dims.size() != offsets.size()) {
    return request.error(
        fmt::format("offset_dims={} must name {} dims", join(d.offset_dims), offsets.size()));
  }
  PLIMSOLL_RETURN_IF_ERROR(
      check_dimensions(request, d.offset_dims, static_cast<int>(rank), "offset_dims"));
  if (!std::is_sorted(d.offset_dims.begin(), d.offset_dims.end())) {
    return request.error("offset_dims=" + join(d.offset_dims) + " must be sorted");
  }
  std::vector<std::int64_t> dims;
  std::size_t next_batch = 0, next_offset = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    dims.push_back(contains(d.offset_dims, static_cast<std::int64_t>(i)) ? offsets[next_offset++]
                                                                         : batch[next_batch++]);
  }
  return make_array(request, operand.dtype(), dims);
}

Status check_update(const Request& request, const Shape& operand, const Shape& update,
                    const std::vector<std::int64_t>& batch) {
  const ScatterDimensions& d = *request.attributes.scatter;
  std::vector<std::int64_t> dropped = d.inserted_window_dims;
  dropped.insert(dropped.end(), d.input_batching_dims.begin(), d.input_batching_dims.end());
  std::vector<std::int64_t> bounds;
  for (int i = 0; i < operand.rank(); ++i) {
    if (!contains(dropped, i)) bounds.push_back(operand.dim(i));
  }
  const std::string what = update.to_string() + " does not fit " + operand.to_string();
  if (d.update_window_dims.size() != bounds.size() ||
      static_cast<std::size_t>(update.rank()) != batch.size() + bounds.size()) {
    return request.error("update " + what + " in rank");
  }
  PLIMSOLL_RETURN_IF_ERROR(
      check_dimensions(request, d.update_window_dims, update.rank(), "update_window_dims"));
  if (!std::is_sorted(d.update_window_dims.begin(), d.update_window_dims.end())) {
    return request.error("update_window_dims=" + join(d.update_window_dims) + " must be sorted");
  }
  std::size_t next_batch = 0, next_window = 0;
  for (int i = 0; i < update.rank(); ++i) {
    const bool fits = contains(d.update_window_dims, i) ? update.dim(i) <= bounds[next_window++]
                                                        : update.dim(i) == batch[next_batch++];
    if (!fits) return request.error(fmt::format("update {} in dim {}", what, i));
  }
  return ok_status();
}

Result<Shape> scatter(const Request& request) {
  if (request.attributes.scatter == nullptr) return request.error("has no dimension numbers");
  if (request.operand_count() % 2 != 1) {
    return request.error(fmt::format("{} operands, must be arrays, indices and as many updates",
                                     request.operand_count()));
  }
  const int count = request.operand_count() / 2;
  const ScatterDimensions& d = *request.attributes.scatter;
  const Shape& first = request.operand(0);
  const Shape& indices = request.operand(count);
  PLIMSOLL_RETURN_IF_ERROR(check_dimensions(request, d.scatter_dims_to_operand_dims, first.rank(),
                                            "scatter_dims_to_operand_dims"));
  std::vector<std::int64_t> dropped = d.inserted_window_dims;
  dropped.insert(dropped.end(), d.input_batching_dims.begin(), d.input_batching_dims.end());
  PLIMSOLL_RETURN_IF_ERROR(
      check_dimensions(request, dropped, first.rank(), "inserted_window_dims"));
  PLIMSOLL_RETURN_IF_ERROR(check_batching(request, first, indices, d.input_batching_dims,
                                          d.scatter_indices_batching_dims, d.index_vector_dim));
  PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<std::int64_t> batch,
                            index_batch_dims(request, indices, d.index_vector_dim,
                                             d.scatter_dims_to_operand_dims.size()));
  std::vector<Shape> results;
  std::vector<Shape> parameters;
  for (int i = 0; i < count; ++i) {
    const Shape& operand = request.operand(i);
    const Shape& update = request.operand(count + 1 + i);
    if (!(operand.dims() == first.dims()) ||
        !(update.dims() == request.operand(count + 1).dims())) {
      return request.error("arrays differ in dims");
    }
    if (operand.dtype() != update.dtype()) {
      return request.error(operand.to_string() + " and update " + update.to_string() +
                           " differ in element type");
    }
    PLIMSOLL_RETURN_IF_ERROR(check_update(request, operand, update, batch));
    results.push_back(Shape(operand.dtype(), operand.dims()));
    parameters.push_back(Shape(operand.dtype(), {}));
  }
  PLIMSOLL_RETURN_IF_ERROR(request.require_called(1));
  const Shape combined = count == 1 ? parameters[0] : Shape::tuple(parameters);
  for (int i = 0; i < count; ++i) parameters.push_back(parameters[at(i)]);
  PLIMSOLL_RETURN_IF_ERROR(check_signature(request, *request.called[0], parameters, &combined));
  return count == 1 ? results[0] : Shape::tuple(std::move(results));
}

Result<Shape> sort(const Request& request) {
  const auto& dimensions = request.attributes.dimensions;
  const Dims& dims = request.operand(0).dims();
  if (dimensions.size() != 1) return request.error("needs one dimension");
  PLIMSOLL_RETURN_IF_ERROR(check_dimensions(request, dimensions, dims.size(), "dimensions"));
  std::vector<Shape> results, parameters;
  for (const Shape* operand : request.operands) {
    if (!(operand->dims() == dims)) {
      return request.error(request.operand(0).to_string() + " and " + operand->to_string() +
                           " differ in dims");
    }
    results.push_back(Shape(operand->dtype(), operand->dims()));
    parameters.insert(parameters.end(), 2, Shape(operand->dtype(), {}));
  }
  PLIMSOLL_RETURN_IF_ERROR(request.require_called(1));
  const Shape predicate(DType::pred, {});
  PLIMSOLL_RETURN_IF_ERROR(check_signature(request, *request.called[0], parameters, &predicate));
  return results.size() == 1 ? results[0] : Shape::tuple(std::move(results));
}

Result<Shape> map(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_called(1));
  std::vector<Shape> parameters;
  const Dims dims = request.operand_count() == 0 ? Dims() : request.operand(0).dims();
  for (const Shape* operand : request.operands) {
    if (!(operand->dims() == dims)) {
      return request.error(request.operand(0).to_string() + " and " + operand->to_string() +
                           " differ in dims");
    }
    parameters.push_back(Shape(operand->dtype(), {}));
  }
  PLIMSOLL_RETURN_IF_ERROR(check_signature(request, *request.called[0], parameters, nullptr));
  const Shape& result = request.called[0]->root()->shape();
  if (!result.is_scalar()) {
    return request.error("'" + request.called[0]->name() + "' returns " + result.to_string() +
                         ", must return a scalar");
  }
  return Shape(result.dtype(), dims);
}

Result<Shape> random(const Request& request) {
  if (request.given == nullptr) return request.error("the result shape must be given");
  const Shape& given = *request.given;
  if (request.opcode == Opcode::rng_bit_generator) {
    const bool fits = given.is_tuple() && given.elements().size() == 2 &&
                      given.elements()[0] == request.operand(0) && given.elements()[1].is_array() &&
                      !is_floating(given.elements()[1].dtype());
    if (!fits) {
      return request.error("result " + given.to_string() + " must be (" +
                           request.operand(0).to_string() + ", an integer array)");
    }
    return given;
  }
  if (!given.is_array()) return request.error("result " + given.to_string() + " must be an array");
  for (const Shape* operand : request.operands) {
    if (!operand->is_scalar() || operand->dtype() != given.dtype()) {
      return request.error("bound " + operand->to_string() + " must be a scalar of " +
                           std::string(to_string(given.dtype())));
    }
  }
  return given;
}

// The values, and their places along the last dim.
Result<Shape> topk(const Request& request) {
  const Shape& from = request.operand(0);
  std::int64_t count = -1;
  const std::string_view text = request.attributes.find_extra("k");
  (void)std::from_chars(text.data(), text.data() + text.size(), count);
  if (from.rank() < 1 || is_complex(from.dtype()) || count < 0 ||
      count > from.dim(from.rank() - 1)) {
    return request.error("k=" + std::string(text) + " of " + from.to_string() +
                         ", must be at most its last dim");
  }
  std::vector<std::int64_t> dims = from.dims().to_vector();
  dims.back() = count;
  return Shape::tuple({Shape(from.dtype(), dims), Shape(DType::s32, dims)});
}

bool has_square_end(const Shape& shape) {
  return shape.rank() >= 2 && shape.dim(shape.rank() - 1) == shape.dim(shape.rank() - 2);
}

Result<Shape> cholesky(const Request& request) {
  const Shape& a = request.operand(0);
  if (has_square_end(a) && (is_floating(a.dtype()) || is_complex(a.dtype()))) return a;
  return request.error("operand is " + a.to_string() + ", must be square matrices of floats");
}

// As the right-hand sides. What the text leaves out is false, so a solution is x of x a = b unless
// it says left_side=true.
Result<Shape> triangular_solve(const Request& request) {
  const Shape &a = request.operand(0), &b = request.operand(1);
  const int side = request.attributes.find_extra("left_side") == "true" ? 2 : 1;
  const bool fits = has_square_end(a) && a.rank() == b.rank() && a.dtype() == b.dtype() &&
                    (is_floating(a.dtype()) || is_complex(a.dtype())) &&
                    std::equal(a.dims().begin(), a.dims().end() - 2, b.dims().begin()) &&
                    a.dim(a.rank() - 1) == b.dim(b.rank() - side);
  if (fits) return b;
  return request.error("operands are " + a.to_string() + " and " + b.to_string() +
                       ", must be square matrices of floats and right-hand sides that fit them");
}

Result<Shape> high_product(const Request& request) {
  const Shape& a = request.operand(0);
  if (is_integer(a.dtype()) && a == request.operand(1)) return a;
  return request.error("operands are " + a.to_string() + " and " + request.operand(1).to_string() +
                       ", must be alike, of integers");
}

// The operand's, and beside it vectors of its features: of a training mean and variance, of a
// gradient those of scale and offset.
Result<Shape> batch_norm(const Request& request) {
  const Shape& x = request.operand(0);
  std::int64_t feature = -1;
  const std::string_view text = request.attributes.find_extra("feature_index");
  (void)std::from_chars(text.data(), text.data() + text.size(), feature);
  const bool is_grad = request.opcode == Opcode::batch_norm_grad;
  bool fits = is_floating(x.dtype()) && feature >= 0 && feature < x.rank();
  const std::size_t vectors = request.operands.size() - (is_grad ? 1 : 0);
  for (std::size_t i = 1; fits && i < vectors; ++i) {
    const Shape& vector = request.operand(static_cast<int>(i));
    fits = vector.dtype() == x.dtype() && vector.rank() == 1 &&
           vector.dim(0) == x.dim(static_cast<int>(feature));
  }
  if (!fits || (is_grad && !(request.operand(4) == x))) {
    return request.error("operand is " + x.to_string() + " with feature_index=" +
                         std::string(text) + ", whose vectors must have that dim and dtype");
  }
  if (request.opcode == Opcode::batch_norm_inference) return x;
  return Shape::tuple({x, request.operand(1), request.operand(1)});
}

// The numbers of `{4,8}`.
std::vector<std::int64_t> numbers_in(std::string_view text) {
  std::vector<std::int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::int64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error == std::errc()) numbers.push_back(number);
    at = error == std::errc() ? next : at + 1;
  }
  return numbers;
}

// Complex to complex; of real arrays the half of the spectrum that says all, and back.
Result<Shape> fft(const Request& request) {
  const Shape& from = request.operand(0);
  const std::string_view type = request.attributes.find_extra("fft_type");
  const std::vector<std::int64_t> lengths = numbers_in(request.attributes.find_extra("fft_length"));
  const bool reads_real = type == "RFFT", writes_real = type == "IRFFT";
  const std::size_t rank = lengths.size();
  if (!(type == "FFT" || type == "IFFT" || reads_real || writes_real) || rank < 1 || rank > 3 ||
      from.rank() < static_cast<int>(rank)) {
    return request.error("operand is " + from.to_string() + " with fft_type=" + std::string(type) +
                         " (FFT, IFFT, RFFT or IRFFT) and " + std::to_string(rank) +
                         " numbers of fft_length (one to three, no more than dims)");
  }
  std::vector<std::int64_t> dims = from.dims().to_vector();
  const auto last = dims.end() - static_cast<std::ptrdiff_t>(rank);
  std::vector<std::int64_t> half = lengths;
  half.back() = half.back() / 2 + 1;
  const bool fits =
      is_complex(from.dtype()) != reads_real &&
      (part_dtype(from.dtype()) == DType::f32 || part_dtype(from.dtype()) == DType::f64) &&
      std::equal(last, dims.end(), (writes_real ? half : lengths).begin());
  if (!fits) {
    return request.error("operand is " + from.to_string() + ", which fft_type=" +
                         std::string(type) + " of these lengths does not take");
  }
  std::copy(lengths.begin(), lengths.end(), last);
  if (reads_real) dims.back() = half.back();
  return Shape(writes_real ? part_dtype(from.dtype()) : complex_dtype(part_dtype(from.dtype())),
               dims);
}

Result<Shape> parts(const Request& request) {
  const Shape& first = request.operand(0);
  const bool is_part = first.dtype() == DType::f32 || first.dtype() == DType::f64;
  if (request.opcode != Opcode::complex) {
    if (is_complex(first.dtype()) || is_floating(first.dtype())) {
      return Shape(part_dtype(first.dtype()), first.dims());
    }
    return request.error("operand is " + first.to_string() + ", must be complex or floating");
  }
  if (!is_part || !(request.operand(1) == first)) {
    return request.error("parts are " + first.to_string() + " and " +
                         request.operand(1).to_string() + ", must be alike, f32 or f64");
  }
  return Shape(complex_dtype(first.dtype()), first.dims());
}

}  // namespace

Result<Shape> irregular(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_arrays());
  switch (request.opcode) {
    case Opcode::gather:
      return gather(request);
    case Opcode::scatter:
      return scatter(request);
    case Opcode::sort:
      return sort(request);
    case Opcode::map:
      return map(request);
    case Opcode::topk:
      return topk(request);
    case Opcode::fft:
      return fft(request);
    case Opcode::cholesky:
      return cholesky(request);
    case Opcode::batch_norm_training:
    case Opcode::batch_norm_inference:
    case Opcode::batch_norm_grad:
      return batch_norm(request);
    case Opcode::mulhi:
      return high_product(request);
    case Opcode::triangular_solve:
      return triangular_solve(request);
    case Opcode::real:
    case Opcode::imag:
    case Opcode::complex:
      return parts(request);
    // Whose expansions say what does not fit.
    case Opcode::scan:
    case Opcode::ragged_dot:
    case Opcode::scaled_dot:
    case Opcode::stochastic_convert:
      PLIMSOLL_RETURN_IF_ERROR(request.require_given());
      return *request.given;
    default:
      return random(request);
  }
}

}  // namespace plimsoll::ir::shape_rules

namespace plimsoll::ir {

bool is_random_state(const Shape& shape) {
  const std::int64_t words = shape.element_count();
  return shape.dtype() == DType::u64 && words >= 2 && words <= 3;
}

}  // namespace plimsoll::ir
