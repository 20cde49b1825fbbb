// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {

// How the windows of a convolution or a pooling lie, per spatial dim.
struct Windows {
  Sizes kernel, strides, dilations, before, after;
  Sizes sizes;  // how many windows there are
};

// Reads kernel_shape (or takes `kernel`), strides, dilations, pads, auto_pad and ceil_mode of a
// node whose operand has these spatial sizes. Where the last windows reach beyond the padding,
// `after` is more than the node says.
Windows windows_of(NodeContext& n, const Sizes& spatial, Sizes kernel);

// The spatial sizes: all dims but the first two.
Sizes spatial_of(const Array& x);

// As reduce-window and convolutions take them; `skips`: leading dims that no window covers.
std::vector<ir::WindowDimension> window_dimensions(const Windows& windows, int skips);

// A convolution of NCHW with OIHW (of any spatial rank). `shape`: where the dtype is not that of
// the operands.
Array convolve(Emit& e, const Array& x, const Array& kernel,
               std::vector<ir::WindowDimension> window, std::int64_t groups,
               const ir::Shape* shape = nullptr);

}  // namespace plimsoll::onnx
