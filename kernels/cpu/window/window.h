// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// The positions of one window along one dimension that hold an element: `count` of them, from
// element `first` on, `step` apart.
struct Taps {
  std::int64_t count = 0, first = 0, step = 1;
};

// One dimension of reduce-window's operand and result (or of select-and-scatter's operand and
// source), with their strides in elements.
struct WindowAxisGeometry {
  ir::WindowDimension window;
  std::int64_t in_size, in_stride;
  std::int64_t out_size, out_stride;

  std::vector<Taps> taps;  // per position of the result

  WindowAxisGeometry(const ir::WindowDimension& window, std::int64_t in_size,
                     std::int64_t in_stride, std::int64_t out_size, std::int64_t out_stride);
  // Every position is its own window.
  bool is_trivial() const;

 private:
  Taps taps_at(std::int64_t out_position) const;
};

// A window operation as dimensions to walk and, below them, runs of `lanes` contiguous elements in
// both arrays that are all treated alike: with channels-last data the channels.
struct WindowGeometry {
  std::vector<WindowAxisGeometry> axes;
  std::int64_t lanes = 1;

  WindowGeometry(const ir::Dims& in, const ir::Dims& out,
                 const std::vector<ir::WindowDimension>& window);
};

// Calls `visit(offset)` with the operand's element offset of every tap, row-major; `taps` has one
// entry per axis.
template <typename Visit>
inline void for_each_tap(const std::vector<WindowAxisGeometry>& axes, const Taps* taps,
                         Visit&& visit) {
  const std::size_t rank = axes.size();
  std::int64_t at[ir::kMaxRank] = {};
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    if (taps[d].count == 0) return;
    offset += taps[d].first * axes[d].in_stride;
  }
  while (true) {
    visit(offset);
    std::size_t d = rank;
    while (true) {
      if (d == 0) return;
      --d;
      const std::int64_t step = taps[d].step * axes[d].in_stride;
      if (++at[d] < taps[d].count) {
        offset += step;
        break;
      }
      offset -= (taps[d].count - 1) * step;
      at[d] = 0;
    }
  }
}

// reduce-window with any reducer of scalars. Elements are taken in row-major order of the window;
// 16-bit floats are kept in f32 until the end.
KernelResult make_reduce_window(const ir::Instruction& instruction);
// select-and-scatter with any scalar computations: each source element goes to the place in its
// window that `select` prefers over all places before it.
KernelResult make_select_and_scatter(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
