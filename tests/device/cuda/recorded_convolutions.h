// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/device/cuda/libraries/cudnn_types.h"

// The recording library's convolutions, as the host computes them.
namespace plimsoll::device::cuda {

// (N, channels, places...), or of filters (outputs, inputs of a group, places...).
struct RecordedTensor {
  DnnType type = DnnType::f32;
  std::vector<std::int64_t> dims, strides;
  std::int64_t elements() const;  // from the first to the last one that it has
};

struct RecordedConvolution {
  RecordedTensor x, w, y;
  std::vector<std::int64_t> padding, strides, dilations;
  bool is_flipped = false;
  std::int64_t groups = 1;
};

enum class RecordedDirection { forward, backward_data, backward_filter };

// Whether x, w and y belong together.
bool is_convolution(const RecordedConvolution& convolution);

// y of x and w, x of w and y, or w of x and y, every sum in one order, in f64. The pointers
// are those of x, w and y.
void compute_convolution(const RecordedConvolution& convolution, RecordedDirection direction,
                         const std::array<void*, 3>& pointers);

}  // namespace plimsoll::device::cuda
