// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::ConvolutionDimensions;
using ir::Instruction;
using ir::Opcode;
using ir::WindowDimension;

std::int64_t size_of(const Instruction& value, std::int64_t d) {
  return value.shape().dim(static_cast<int>(d));
}

// A transposed convolution's filter gradient is written as a convolution of what went in, with gaps
// of B - 1 zeros, by the gradient of what came out as its window:
//   out[o] = sum over q of x[q] g[B q + p - o s], where x stands at every B-th place.
// Counted from the end, o = O - 1 - k, that is sum over q of g[B q + k s - ((O - 1) s - p)] x[q]:
// the filter gradient of a plain convolution with stride B, whose operands have changed places. It
// multiplies nothing by the zeros of the gaps, and all libraries have it.
//
// Example: x of 16 places dilated by 2, a window of 32 and padding 1 on both sides give O = 2
// places. The other way a window of 16 with dilation 2 goes over 32 places without padding.
Instruction* exchange_operands(Rewriter& rewriter, Instruction& at) {
  const Attributes& attributes = at.attributes();
  if (attributes.convolution == nullptr || attributes.feature_group_count != 1 ||
      attributes.batch_group_count != 1) {
    return nullptr;
  }
  const ConvolutionDimensions& labels = *attributes.convolution;
  Instruction *const lhs = at.operand(0), *const rhs = at.operand(1);
  const std::size_t spatial = labels.output_spatial.size();
  if (attributes.window.size() != spatial) return nullptr;
  std::int64_t places = 1, results = 1;
  std::vector<WindowDimension> window;
  std::vector<std::int64_t> reversed;
  bool is_dilated = false;
  for (std::size_t d = 0; d < spatial; ++d) {
    const WindowDimension& w = attributes.window[d];
    if (w.reversal || w.window_dilation != 1) return nullptr;
    const std::int64_t inputs = size_of(*lhs, labels.input_spatial[d]);
    const std::int64_t size = size_of(*rhs, labels.kernel_spatial[d]);
    const std::int64_t outputs = size_of(at, labels.output_spatial[d]);
    WindowDimension other;
    other.size = inputs;
    other.stride = w.stride;
    other.window_dilation = w.base_dilation;
    other.padding_low = (outputs - 1) * w.stride - w.padding_low;
    other.padding_high =
        (outputs - 1) * w.stride + (inputs - 1) * w.base_dilation + 1 - size - other.padding_low;
    if (inputs == 0 || outputs == 0 || other.padding_low < 0 ||
        other.padding_high <= -w.base_dilation) {
      return nullptr;
    }
    window.push_back(other);
    if (outputs > 1) reversed.push_back(labels.output_spatial[d]);
    is_dilated = is_dilated || w.base_dilation > 1;
    places *= size;
    results *= outputs;
  }
  // The window of a gradient of a filter is larger than the filter.
  if (!is_dilated || places <= results) return nullptr;
  auto exchanged = std::make_shared<ConvolutionDimensions>();
  exchanged->input_batch = labels.kernel_output_feature;
  exchanged->input_feature = labels.kernel_input_feature;
  exchanged->input_spatial = labels.kernel_spatial;
  exchanged->kernel_output_feature = labels.input_batch;
  exchanged->kernel_input_feature = labels.input_feature;
  exchanged->kernel_spatial = labels.input_spatial;
  exchanged->output_batch = labels.output_feature;
  exchanged->output_feature = labels.output_batch;
  exchanged->output_spatial = labels.output_spatial;
  Attributes plain = attributes;
  plain.window = std::move(window);
  plain.convolution = std::move(exchanged);
  Instruction* const gradient =
      rewriter.add(Opcode::convolution, at.shape(), {rhs, lhs}, std::move(plain));
  if (reversed.empty()) return gradient;
  std::sort(reversed.begin(), reversed.end());
  Attributes reverse;
  reverse.dimensions = std::move(reversed);
  return rewriter.add(Opcode::reverse, at.shape(), {gradient}, std::move(reverse));
}

}  // namespace

Instruction* simplify_convolutions(Rewriter& rewriter, Instruction& at) {
  if (at.opcode() != Opcode::convolution || at.operand_count() != 2) return nullptr;
  return exchange_operands(rewriter, at);
}

}  // namespace plimsoll::passes
