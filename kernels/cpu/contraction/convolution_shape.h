// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// An HLO convolution, with o an output, j an input (lhs) and k a window position, is
//   out[b, f, o] = sum over i, k of lhs[b, i, j] * rhs[k, i, f],   o*s + k*rd - pl = j*ld,
// s the window stride, rd and ld the dilations of window and base, pl the low padding; terms whose
// j is no whole number or out of range are zero. Reversal replaces rhs[k] by rhs[K-1-k].
//
// A library knows one relation, src (N, IC), weights (OC, IC), dst (N, OC), with
//   source position = d*S + k*D - P
// and computes any one of the three from the other two. An HLO convolution is
// - `forward`: ld = 1. S = s, D = rd, P = pl. src = lhs, weights = rhs, dst = out.
// - `input_gradient`: s = 1. With k = K-1-k' the relation is o = j*ld + k'*rd - ((K-1)*rd - pl), so
//   src = out, dst = lhs, weights = rhs with the window reversed and its features exchanged,
//   S = ld, D = rd, P = (K-1)*rd - pl.
// - `filter_gradient`: ld = 1, o and k exchange roles: j = k*rd + o*s - pl, so S = rd, D = s,
//   P = pl; the feature i is summed over, so it is N; src = lhs with IC = b, dst = rhs with OC = f,
//   weights = out with OC = f, IC = b.
// Groups: feature_group_count cuts the features of lhs and out in the first two, batch_group_count
// the batch of lhs and the features of out in the third.
enum class ConvolutionMode : std::uint8_t { forward, input_gradient, filter_gradient };

// (N, channels, spatial...) over an HLO array: sizes and strides in elements.
struct ActivationView {
  ir::DType dtype;
  std::vector<std::int64_t> dims, strides;
  // N outermost, channels innermost, nothing between the elements.
  bool is_channels_last() const;
};

// (groups, OC per group, IC per group, spatial...).
struct WeightsView {
  ir::DType dtype;
  std::vector<std::int64_t> dims, strides;
};

struct LibraryConvolution {
  ConvolutionMode mode;
  ActivationView src, dst;
  WeightsView weights;
  std::vector<std::int64_t> stride, dilation, padding_low, padding_high;
  std::vector<bool> flip;  // per spatial dimension: the weights must be reversed first
};

// The convolution in the given mode, or nothing when that mode cannot express it. One spatial
// dimension of size 1 is added to convolutions without any.
std::optional<LibraryConvolution> as_library_convolution(const ir::Instruction& instruction,
                                                         ConvolutionMode mode);

// The modes that express it, best first: by shape alone.
std::vector<LibraryConvolution> library_convolutions(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
