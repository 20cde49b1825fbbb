// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/convolution_shape.h"

#include <algorithm>
#include <utility>

namespace plimsoll::kernels {
namespace {

// The array's dimension `d` as (size, stride).
std::pair<std::int64_t, std::int64_t> axis(const ir::Shape& shape, std::int64_t d) {
  const ir::Dims strides = ir::row_major_strides(shape.dims());
  return {shape.dim(static_cast<int>(d)), strides[static_cast<int>(d)]};
}

ActivationView activation(const ir::Shape& shape, std::int64_t n, std::int64_t c,
                          const std::vector<std::int64_t>& spatial) {
  ActivationView view{shape.dtype(), {}, {}};
  const auto push = [&](std::int64_t d) {
    const auto [size, stride] = axis(shape, d);
    view.dims.push_back(size);
    view.strides.push_back(stride);
  };
  push(n);
  push(c);
  for (const std::int64_t d : spatial) push(d);
  if (spatial.empty()) {
    view.dims.push_back(1);
    view.strides.push_back(view.dims[1]);
  }
  return view;
}

// `grouped_oc` tells which of the two feature dimensions holds all groups.
WeightsView weights(const ir::Shape& shape, std::int64_t oc, std::int64_t ic,
                    const std::vector<std::int64_t>& spatial, std::int64_t groups,
                    bool grouped_oc) {
  WeightsView view{shape.dtype(), {}, {}};
  auto [oc_size, oc_stride] = axis(shape, oc);
  auto [ic_size, ic_stride] = axis(shape, ic);
  std::int64_t group_stride = 0;
  if (grouped_oc) {
    oc_size /= groups;
    group_stride = oc_size * oc_stride;
  } else {
    ic_size /= groups;
    group_stride = ic_size * ic_stride;
  }
  view.dims = {groups, oc_size, ic_size};
  view.strides = {group_stride, oc_stride, ic_stride};
  for (const std::int64_t d : spatial) {
    const auto [size, stride] = axis(shape, d);
    view.dims.push_back(size);
    view.strides.push_back(stride);
  }
  if (spatial.empty()) {
    view.dims.push_back(1);
    view.strides.push_back(1);
  }
  return view;
}

}  // namespace

bool ActivationView::is_channels_last() const {
  std::int64_t expected = 1;
  const auto check = [&](std::size_t d) {
    const bool ok = dims[d] == 1 || strides[d] == expected;
    expected *= dims[d];
    return ok;
  };
  bool ok = check(1);
  for (std::size_t d = dims.size(); d-- > 2;) ok = check(d) && ok;
  return check(0) && ok;
}

// The text has one convolution, the library has three: forward, the input's gradient and the
// filter's gradient. The text writes gradients as convolutions with dilations, reversed windows and
// exchanged labels; computed as written, most products would be with zeros. Here each is recognized
// by its index arithmetic, one spatial dim at a time. Let the library's source position be i, the
// result's o, the window's k, with stride S, dilation D, padding P:
//     forward:  y[o] += x[o S + k D - P] w[k]        (1)
// The text's convolution reads its (dilated) input at q = o s + k d - p, with an element of it at
// every B-th place.
// - Forward: B = 1, so S = s, D = d, P = p.
// - Input's gradient: dx[i] is the sum over all o and k with i = o S + k D - P. The text has the
//   gradient dy as its input, dilated by B, and s = 1: it reads dy[o] at B o = i + k d - p, that is
//   i = o B - k d + p. With the window walked backwards, k' = K - 1 - k: i = o B + k' d - ((K - 1)
//   d - p). Hence S = B, D = d, P = (K - 1) d - p, and the filter is to be reversed unless the text
//   has done so.
// - Filter's gradient: dw[k] is the sum over o of x[o S + k D - P] dy[o]. In the text dw is the
//   result and dy the window, so the text's o is k here and its k is o: S = d, D = s, P = p. Batch
//   and feature change places in all labels.
//
// Example: a forward convolution of x[32] with a window of 3, stride 2, padding 1 on both sides
// gives y[16]. Its input's gradient is written as dy[16] dilated by 2 (31 positions), window 3
// reversed, padding 1 and 2. S = 2, D = 1, P = 2 - 1 = 1: the forward one's numbers again.
//
// padding_high is not taken from the text but solved for, since it follows from the sizes. It may
// be negative by less than a stride, where no window reaches the last positions; more than that is
// no convolution of the library's.
std::optional<LibraryConvolution> as_library_convolution(const ir::Instruction& instruction,
                                                         ConvolutionMode mode) {
  const ir::Attributes& attributes = instruction.attributes();
  const ir::ConvolutionDimensions& labels = *attributes.convolution;
  const ir::Shape& lhs = instruction.operand(0)->shape();
  const ir::Shape& rhs = instruction.operand(1)->shape();
  const ir::Shape& out = instruction.shape();
  std::vector<ir::WindowDimension> window = attributes.window;
  if (window.empty()) window.resize(std::max<std::size_t>(1, labels.input_spatial.size()));
  const std::int64_t groups = attributes.feature_group_count;
  const std::int64_t batch_groups = attributes.batch_group_count;

  LibraryConvolution c;
  c.mode = mode;
  if (mode == ConvolutionMode::filter_gradient ? groups != 1 : batch_groups != 1)
    return std::nullopt;
  switch (mode) {
    case ConvolutionMode::forward:
      c.src = activation(lhs, labels.input_batch, labels.input_feature, labels.input_spatial);
      c.dst = activation(out, labels.output_batch, labels.output_feature, labels.output_spatial);
      c.weights = weights(rhs, labels.kernel_output_feature, labels.kernel_input_feature,
                          labels.kernel_spatial, groups, true);
      break;
    case ConvolutionMode::input_gradient:
      c.src = activation(out, labels.output_batch, labels.output_feature, labels.output_spatial);
      c.dst = activation(lhs, labels.input_batch, labels.input_feature, labels.input_spatial);
      c.weights = weights(rhs, labels.kernel_input_feature, labels.kernel_output_feature,
                          labels.kernel_spatial, groups, false);
      break;
    case ConvolutionMode::filter_gradient:
      c.src = activation(lhs, labels.input_feature, labels.input_batch, labels.input_spatial);
      c.dst = activation(rhs, labels.kernel_input_feature, labels.kernel_output_feature,
                         labels.kernel_spatial);
      c.weights = weights(out, labels.output_feature, labels.output_batch, labels.output_spatial,
                          batch_groups, true);
      break;
  }
  for (std::size_t d = 0; d < window.size(); ++d) {
    const ir::WindowDimension& w = window[d];
    const bool gradient_of_input = mode == ConvolutionMode::input_gradient;
    if (gradient_of_input ? w.stride != 1 : w.base_dilation != 1) return std::nullopt;
    if (mode == ConvolutionMode::filter_gradient && w.reversal) return std::nullopt;
    const std::int64_t kernel = c.weights.dims[3 + d];
    const std::int64_t reach = (kernel - 1) * w.window_dilation;
    switch (mode) {
      case ConvolutionMode::forward:
        c.stride.push_back(w.stride);
        c.dilation.push_back(w.window_dilation);
        c.padding_low.push_back(w.padding_low);
        break;
      case ConvolutionMode::input_gradient:
        c.stride.push_back(w.base_dilation);
        c.dilation.push_back(w.window_dilation);
        c.padding_low.push_back(reach - w.padding_low);
        break;
      case ConvolutionMode::filter_gradient:
        c.stride.push_back(w.window_dilation);
        c.dilation.push_back(w.stride);
        c.padding_low.push_back(w.padding_low);
        break;
    }
    c.flip.push_back(gradient_of_input ? !w.reversal : w.reversal);
    const std::int64_t range = 1 + (kernel - 1) * c.dilation[d];
    c.padding_high.push_back((c.dst.dims[2 + d] - 1) * c.stride[d] + range - c.src.dims[2 + d] -
                             c.padding_low[d]);
    if (c.padding_low[d] < 0 || c.padding_high[d] + c.stride[d] <= 0) return std::nullopt;
  }
  return c;
}

// Several readings may fit one text: with stride 1 and no dilation all three. They compute the same
// sums in different loops, so the one is taken whose arrays lie as its kernel walks them.
std::vector<LibraryConvolution> library_convolutions(const ir::Instruction& instruction) {
  std::vector<LibraryConvolution> result;
  for (const ConvolutionMode mode : {ConvolutionMode::forward, ConvolutionMode::input_gradient,
                                     ConvolutionMode::filter_gradient}) {
    if (auto c = as_library_convolution(instruction, mode)) result.push_back(std::move(*c));
  }
  // Channels-last activations come first; then gradients of filters are told from forward
  // convolutions by a window larger than the result. A batch of one is a channel of one to the
  // gradient of a filter, whichever way it lies: it is none unless its filter is clearly smaller
  // than what it is summed over.
  const auto cost = [](const LibraryConvolution& c) {
    int cost = (c.src.is_channels_last() ? 0 : 4) + (c.dst.is_channels_last() ? 0 : 4);
    if (c.mode == ConvolutionMode::filter_gradient) {
      std::int64_t window = 1, positions = 1;
      for (std::size_t d = 2; d < c.dst.dims.size(); ++d) {
        window *= c.weights.dims[d + 1];
        positions *= c.dst.dims[d];
      }
      cost += window < positions ? -1 : window < 4 * positions ? 2 : 8;
      if (c.src.dims[1] == 1 && 4 * window >= positions) cost += 8;
    }
    // Where the window is reversed already, the gradient's direction needs no reversed copy.
    const bool flips = std::find(c.flip.begin(), c.flip.end(), true) != c.flip.end();
    if (c.mode != ConvolutionMode::filter_gradient && flips) cost += 1;
    return cost;
  };
  std::stable_sort(result.begin(), result.end(),
                   [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
  return result;
}

}  // namespace plimsoll::kernels
