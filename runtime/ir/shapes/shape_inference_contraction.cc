// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/shape_inference_rules.h"

namespace plimsoll::ir::shape_rules {
namespace {

// Dims of one side must be compatible, and the result takes what the text says: floats may come in
// mixed precision, integer products may accumulate in a wider integer.
Result<Shape> contracted(const Request& request, const std::vector<std::int64_t>& dims) {
  const DType lhs = request.operand(0).dtype(), rhs = request.operand(1).dtype();
  const bool integers = is_integer(lhs) && is_integer(rhs);
  if (!compatible(lhs, rhs) && !integers) {
    return request.error(request.operand(0).to_string() + " and " + request.operand(1).to_string() +
                         " differ in element type");
  }
  DType dtype = higher_precision(lhs, rhs);
  if (integers && request.given != nullptr && request.given->is_array() &&
      is_integer(request.given->dtype()) &&
      dtype_bytes(request.given->dtype()) >= dtype_bytes(dtype)) {
    dtype = request.given->dtype();
  }
  PLIMSOLL_ASSIGN_OR_RETURN(Shape shape, make_array(request, dtype, dims));
  return with_given_precision(request, std::move(shape));
}

Result<Shape> dot(const Request& request) {
  const Shape& lhs = request.operand(0);
  const Shape& rhs = request.operand(1);
  if (request.attributes.dot == nullptr) return request.error("has no dimension numbers");
  const DotDimensions& d = *request.attributes.dot;
  std::vector<std::int64_t> used_lhs = d.lhs_batch, used_rhs = d.rhs_batch;
  used_lhs.insert(used_lhs.end(), d.lhs_contracting.begin(), d.lhs_contracting.end());
  used_rhs.insert(used_rhs.end(), d.rhs_contracting.begin(), d.rhs_contracting.end());
  PLIMSOLL_RETURN_IF_ERROR(check_dimensions(request, used_lhs, lhs.rank(), "lhs dims"));
  PLIMSOLL_RETURN_IF_ERROR(check_dimensions(request, used_rhs, rhs.rank(), "rhs dims"));
  if (d.lhs_batch.size() != d.rhs_batch.size() ||
      d.lhs_contracting.size() != d.rhs_contracting.size()) {
    return request.error("the two sides name different numbers of dims");
  }
  for (std::size_t i = 0; i < used_lhs.size(); ++i) {
    if (lhs.dim(static_cast<int>(used_lhs[i])) != rhs.dim(static_cast<int>(used_rhs[i]))) {
      return request.error(fmt::format("{} and {} differ in dims {} and {}", lhs.to_string(),
                                       rhs.to_string(), used_lhs[i], used_rhs[i]));
    }
  }
  std::vector<std::int64_t> dims;
  for (std::int64_t b : d.lhs_batch) dims.push_back(lhs.dim(static_cast<int>(b)));
  const auto append_free = [&](const Shape& shape, const std::vector<std::int64_t>& used) {
    for (int i = 0; i < shape.rank(); ++i) {
      if (std::find(used.begin(), used.end(), i) == used.end()) dims.push_back(shape.dim(i));
    }
  };
  append_free(lhs, used_lhs);
  append_free(rhs, used_rhs);
  return contracted(request, dims);
}

// One side of dim_labels: batch-like, feature-like and spatial positions are a permutation.
Status check_labels(const Request& request, int rank, std::int64_t a, std::int64_t b,
                    const std::vector<std::int64_t>& spatial, std::string_view side) {
  std::vector<std::int64_t> all = spatial;
  all.push_back(a);
  all.push_back(b);
  if (all.size() != at(rank)) {
    return request.error(
        fmt::format("dim_labels name {} {} dims for rank {}", all.size(), side, rank));
  }
  return check_dimensions(request, all, rank, "dim_labels");
}

Result<Shape> convolution(const Request& request) {
  const Shape& input = request.operand(0);
  const Shape& kernel = request.operand(1);
  const Attributes& a = request.attributes;
  if (a.convolution == nullptr) return request.error("has no dim_labels");
  const ConvolutionDimensions& d = *a.convolution;
  const std::size_t spatial = d.input_spatial.size();
  if (d.kernel_spatial.size() != spatial || d.output_spatial.size() != spatial) {
    return request.error("dim_labels differ in their number of spatial dims");
  }
  const int rank = static_cast<int>(spatial) + 2;
  PLIMSOLL_RETURN_IF_ERROR(check_labels(request, input.rank(), d.input_batch, d.input_feature,
                                        d.input_spatial, "input"));
  PLIMSOLL_RETURN_IF_ERROR(check_labels(request, kernel.rank(), d.kernel_input_feature,
                                        d.kernel_output_feature, d.kernel_spatial, "kernel"));
  PLIMSOLL_RETURN_IF_ERROR(
      check_labels(request, rank, d.output_batch, d.output_feature, d.output_spatial, "output"));
  std::vector<std::int64_t> extents;
  for (std::size_t i = 0; i < spatial; ++i) {
    extents.push_back(input.dim(static_cast<int>(d.input_spatial[i])));
    const std::int64_t size = kernel.dim(static_cast<int>(d.kernel_spatial[i]));
    if (i < a.window.size() && a.window[i].size != size) {
      return request.error(fmt::format("window size {} differs from {} in spatial dim {}",
                                       a.window[i].size, kernel.to_string(), i));
    }
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<std::int64_t> slid,
                            windowed_dims(request, extents, a.window));

  const std::int64_t groups = a.feature_group_count, batches = a.batch_group_count;
  const std::int64_t batch = input.dim(static_cast<int>(d.input_batch));
  const std::int64_t features = input.dim(static_cast<int>(d.input_feature));
  const std::int64_t kernel_in = kernel.dim(static_cast<int>(d.kernel_input_feature));
  const std::int64_t kernel_out = kernel.dim(static_cast<int>(d.kernel_output_feature));
  if (groups < 1 || batches < 1) return request.error("group counts must be positive");
  if (groups > 1 && batches > 1) {
    return request.error("feature_group_count and batch_group_count cannot both be above 1");
  }
  if (features % groups != 0 || features / groups != kernel_in) {
    return request.error(fmt::format("{} has {} features, the kernel wants {} x {} groups",
                                     input.to_string(), features, kernel_in, groups));
  }
  if (kernel_out % groups != 0 || kernel_out % batches != 0) {
    return request.error(
        fmt::format("{} output features do not divide by the group count", kernel_out));
  }
  if (batch % batches != 0) {
    return request.error(
        fmt::format("batch {} does not divide by {} batch groups", batch, batches));
  }
  std::vector<std::int64_t> dims(at(rank), 0);
  dims[at(d.output_batch)] = batch / batches;
  dims[at(d.output_feature)] = kernel_out;
  for (std::size_t i = 0; i < spatial; ++i) {
    dims[at(d.output_spatial[i])] = slid[i];
  }
  return contracted(request, dims);
}

}  // namespace

Result<std::vector<std::int64_t>> windowed_dims(const Request& request, Values dims,
                                                std::span<const WindowDimension> window) {
  if (window.size() != dims.size()) {
    return request.error(
        fmt::format("window has {} dims, must have {}", window.size(), dims.size()));
  }
  // Together they keep every product below in 64 bits.
  constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;
  constexpr std::int64_t kMaxStep = std::int64_t{1} << 20;
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const WindowDimension& w = window[i];
    const std::string where = fmt::format(" in window dim {}", i);
    if (w.size < 1 || w.stride < 1 || w.base_dilation < 1 || w.window_dilation < 1) {
      return request.error("sizes, strides and dilations must be positive" + where);
    }
    if (std::max({w.size, w.padding_low, w.padding_high, dims[i]}) > kMaxExtent ||
        std::min(w.padding_low, w.padding_high) < -kMaxExtent ||
        std::max({w.stride, w.base_dilation, w.window_dilation}) > kMaxStep) {
      return request.error("value is too large" + where);
    }
    std::int64_t base = dims[i] == 0 ? 0 : (dims[i] - 1) * w.base_dilation + 1;
    base += w.padding_low + w.padding_high;
    const std::int64_t reach = (w.size - 1) * w.window_dilation + 1;
    const std::int64_t count = base < reach ? 0 : (base - reach) / w.stride + 1;
    result.push_back(count);
  }
  return result;
}

Result<Shape> contraction(const Request& request) {
  PLIMSOLL_RETURN_IF_ERROR(request.require_arrays());
  return request.opcode == Opcode::dot ? dot(request) : convolution(request);
}

}  // namespace plimsoll::ir::shape_rules
