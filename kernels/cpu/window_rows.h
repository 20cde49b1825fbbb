// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/window.h"

namespace plimsoll::kernels {

// One line of windows along the last windowed axis, and the elements the windows of one result of
// it start from: `offsets`, one per tap of the other axes.
struct WindowRow {
  const float* in;
  float* out;
  const std::int64_t* offsets;
  std::int64_t offset_count;
  const WindowAxisGeometry* axis;
  std::int64_t lanes;  // neighbouring results that share a window
  float init;
};

// True where the rows below do what for_each_tap does along the axis: undilated base, no reversal.
bool is_plain(const WindowAxisGeometry& axis);

// Folds every window of the row, tap by tap in row-major order.
void add_window_row(const WindowRow& row);
// NaN if any element is, -0 below +0.
void maximum_window_row(const WindowRow& row);

}  // namespace plimsoll::kernels
