// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/convolution_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::kernels::cuda {
namespace {

using Sizes = std::vector<std::int64_t>;

// Whether an array is dense with its dims in this order, outermost first. Dims of size 1 lie
// anywhere.
bool lies_as(const ActivationView& view, const std::vector<std::size_t>& order) {
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::int64_t size = view.dims[order[i]];
    if (size != 1 && view.strides[order[i]] != stride) return false;
    stride *= size;
  }
  return true;
}

// (N, channels, places...) in the order in which they lie.
std::vector<std::size_t> order_of(std::size_t rank, bool is_channels_last) {
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (is_channels_last) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

bool lies_as(const LibraryConvolution& read, bool is_channels_last) {
  const auto order = order_of(read.src.dims.size(), is_channels_last);
  return lies_as(read.src, order) && lies_as(read.dst, order);
}

// Which dims of the filters' array are outputs, inputs and places.
Sizes filter_dims(const ir::Instruction& instruction, ConvolutionMode mode, bool is_channels_last) {
  const ir::ConvolutionDimensions& labels = *instruction.attributes().convolution;
  std::int64_t outputs = labels.kernel_output_feature, inputs = labels.kernel_input_feature;
  Sizes places = labels.kernel_spatial;
  if (mode == ConvolutionMode::input_gradient) std::swap(outputs, inputs);
  if (mode == ConvolutionMode::filter_gradient) {
    outputs = labels.output_feature;
    inputs = labels.output_batch;
    places = labels.output_spatial;
  }
  Sizes order{outputs};
  if (!is_channels_last) order.push_back(inputs);
  order.insert(order.end(), places.begin(), places.end());
  if (is_channels_last) order.push_back(inputs);
  return order;
}

}  // namespace

Sizes ConvolutionShape::filter_shape() const {
  Sizes dims{outputs};
  if (!is_channels_last) dims.push_back(inputs / groups);
  dims.insert(dims.end(), window.begin(), window.end());
  if (is_channels_last) dims.push_back(inputs / groups);
  return dims;
}

std::int64_t ConvolutionShape::filter_elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : filter_shape()) count *= size;
  return count;
}

std::optional<ConvolutionShape> read_convolution(const ir::Instruction& convolution) {
  if (convolution.attributes().convolution == nullptr) return std::nullopt;
  const std::vector<LibraryConvolution> modes = library_convolutions(convolution);
  if (modes.empty() || convolution.attributes().convolution->input_spatial.empty()) {
    return std::nullopt;
  }
  const LibraryConvolution& read = modes.front();
  ConvolutionShape shape;
  shape.mode = read.mode;
  shape.dtype = read.src.dtype;
  for (const ir::DType dtype : {read.src.dtype, read.dst.dtype, read.weights.dtype}) {
    if (dtype != shape.dtype) return std::nullopt;
  }
  if (shape.dtype != ir::DType::f32 && shape.dtype != ir::DType::f16 &&
      shape.dtype != ir::DType::bf16) {
    return std::nullopt;
  }
  shape.groups = read.weights.dims[0];
  if (shape.groups > 1 && shape.mode != ConvolutionMode::forward) return std::nullopt;
  shape.is_channels_last = lies_as(read, true);
  if (!shape.is_channels_last && !lies_as(read, false)) return std::nullopt;
  shape.batch = read.src.dims[0];
  shape.inputs = read.src.dims[1];
  shape.outputs = read.dst.dims[1];
  shape.x.assign(read.src.dims.begin() + 2, read.src.dims.end());
  shape.y.assign(read.dst.dims.begin() + 2, read.dst.dims.end());
  shape.window.assign(read.weights.dims.begin() + 3, read.weights.dims.end());
  shape.stride = read.stride;
  shape.dilation = read.dilation;
  shape.padding = read.padding_low;
  shape.is_flipped = read.flip.front();
  for (std::size_t d = 0; d < shape.x.size(); ++d) {
    if (read.flip[d] != shape.is_flipped && shape.window[d] > 1) return std::nullopt;
    // The library pads both sides alike, and counts the places of y by that.
    if (shape.padding[d] < 0) return std::nullopt;
    const std::int64_t reach = shape.dilation[d] * (shape.window[d] - 1) + 1;
    const std::int64_t room = shape.x[d] + 2 * shape.padding[d] - reach;
    if (room < 0 || room / shape.stride[d] + 1 != shape.y[d]) return std::nullopt;
  }
  const Sizes order = filter_dims(convolution, shape.mode, shape.is_channels_last);
  if (!std::is_sorted(order.begin(), order.end())) shape.filter_dims = order;
  // One more dim of places, which is of size 1, where there is one alone.
  if (shape.x.size() == 1) {
    for (Sizes* const sizes : {&shape.x, &shape.y, &shape.window, &shape.stride, &shape.dilation}) {
      sizes->insert(sizes->begin(), 1);
    }
    shape.padding.insert(shape.padding.begin(), 0);
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto elements = [&](std::int64_t channels, const Sizes& places) {
    std::int64_t count = shape.batch * channels;
    for (const std::int64_t size : places) count *= size;
    return count;
  };
  for (const std::int64_t count : {elements(shape.inputs, shape.x),
                                   elements(shape.outputs, shape.y), shape.filter_elements()}) {
    if (count < 1 || count > kMost) return std::nullopt;
  }
  return shape;
}

bool is_faster_by_library(const ConvolutionShape& shape, bool allows_tf32) {
  if (shape.dtype == ir::DType::f32 && !allows_tf32) return !shape.is_channels_last;
  const bool is_one_place = std::all_of(shape.window.begin(), shape.window.end(),
                                        [](std::int64_t size) { return size == 1; });
  return shape.is_channels_last && !is_one_place;
}

Result<std::unique_ptr<ir::Module>> reordered_filters(const ir::Instruction& convolution,
                                                      const ConvolutionShape& shape) {
  const bool gives_filters = shape.mode == ConvolutionMode::filter_gradient;
  const ir::Shape& theirs = gives_filters ? convolution.shape() : convolution.operand(1)->shape();
  ir::Dims ours;
  Sizes back(shape.filter_dims.size());
  for (std::size_t i = 0; i < shape.filter_dims.size(); ++i) {
    ours.push_back(theirs.dim(static_cast<int>(shape.filter_dims[i])));
    back[at(shape.filter_dims[i])] = static_cast<std::int64_t>(i);
  }
  const ir::Shape in_order(theirs.dtype(), ours);
  const ir::Shape& from = gives_filters ? in_order : theirs;
  const ir::Shape& to = gives_filters ? theirs : in_order;
  return ir::parse_module(
      fmt::format("HloModule filters\nENTRY e {{\n  a = {} parameter(0)\n  ROOT r = {} "
                  "transpose(a), dimensions={{{}}}\n}}\n",
                  from.to_string(), to.to_string(),
                  fmt::join(gives_filters ? back : shape.filter_dims, ",")),
      "filters");
}

}  // namespace plimsoll::kernels::cuda
