// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/cpu/contraction/convolution_shape.h"
#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels::cuda {

// A convolution as cuDNN has it: y of x and w (`forward`), x of y and w (`input_gradient`), w of x
// and y (`filter_gradient`); x is src, y is dst of kernels/cpu/contraction/convolution_shape.h. All
// three are dense, x and y both with their channels innermost or both with them before the places.
struct ConvolutionShape {
  ConvolutionMode mode = ConvolutionMode::forward;
  ir::DType dtype = ir::DType::f32;
  bool is_channels_last = false;
  bool is_flipped = false;                                      // the window is reversed
  std::int64_t groups = 1, batch = 1, inputs = 1, outputs = 1;  // channels of x and of y
  std::vector<std::int64_t> x, y, window;                       // places, two dims or more
  std::vector<std::int64_t> stride, dilation, padding;
  // The filters lie as (outputs, inputs of a group, places) or (outputs, places, inputs of a
  // group), as x does; where they lie otherwise: the array's dims in that order.
  std::vector<std::int64_t> filter_dims;

  // Dims of the filters in their own order.
  std::vector<std::int64_t> filter_shape() const;
  std::int64_t filter_elements() const;
  friend auto operator<=>(const ConvolutionShape&, const ConvolutionShape&) = default;
};

// What the convolution is in these terms, by its shape alone. Nothing where cuDNN has no such
// convolution: paddings of two sides that differ in what is read, arrays in other orders, gradients
// in groups, other dtypes than f32, f16 and bf16, or several.
std::optional<ConvolutionShape> read_convolution(const ir::Instruction& convolution);

// Whether cuDNN computes it faster than our own kernel, by dtype, layout and window alone, as
// measured (docs/gpu.md): what goes by tensor cores, with channels last and a window of more than
// one place; f32 with channels first.
bool is_faster_by_library(const ConvolutionShape& shape, bool allows_tf32);

// A program whose root brings the filters of `convolution` from their order into the library's, or,
// where they are what is computed, from the library's into their own; only where filter_dims says
// that they differ.
Result<std::unique_ptr<ir::Module>> reordered_filters(const ir::Instruction& convolution,
                                                      const ConvolutionShape& shape);

}  // namespace plimsoll::kernels::cuda
