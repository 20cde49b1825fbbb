// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/window_rows.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/cpu/clones.h"

namespace plimsoll::kernels {
namespace {

constexpr std::int64_t kBlock = 16;

// Lanes next to each other: the running values of a block stay in registers.
template <typename Combine>
[[gnu::always_inline]] inline void fold_lanes(const WindowRow& row, std::int64_t x,
                                              std::int64_t lane, std::int64_t count,
                                              Combine combine) {
  const WindowAxisGeometry& axis = *row.axis;
  const Taps taps = axis.taps[static_cast<std::size_t>(x)];
  float values[kBlock];
  for (std::int64_t i = 0; i < count; ++i) values[i] = row.init;
  for (std::int64_t o = 0; o < row.offset_count; ++o) {
    const float* from = row.in + row.offsets[o] + taps.first * axis.in_stride + lane;
    for (std::int64_t k = 0; k < taps.count; ++k, from += taps.step * axis.in_stride) {
      for (std::int64_t i = 0; i < count; ++i) values[i] = combine(values[i], from[i]);
    }
  }
  float* out = row.out + x * axis.out_stride + lane;
  for (std::int64_t i = 0; i < count; ++i) out[i] = values[i];
}

template <typename Combine>
[[gnu::always_inline]] inline void fold_stride(float* out, const float* in, std::int64_t count,
                                               std::int64_t stride, Combine combine) {
  if (stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = combine(out[i], in[i]);
  } else if (stride == 2) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = combine(out[i], in[2 * i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = combine(out[i], in[stride * i]);
  }
}

template <typename Combine>
[[gnu::always_inline]] inline void fold_row(const WindowRow& row, Combine combine) {
  const WindowAxisGeometry& axis = *row.axis;
  if (row.lanes > 1) {
    for (std::int64_t x = 0; x < axis.out_size; ++x) {
      std::int64_t lane = 0;
      for (; lane + kBlock <= row.lanes; lane += kBlock) fold_lanes(row, x, lane, kBlock, combine);
      if (lane < row.lanes) fold_lanes(row, x, lane, row.lanes - lane, combine);
    }
    return;
  }
  // One tap of all windows at a time: each result still takes its taps in order.
  const ir::WindowDimension& w = axis.window;
  for (std::int64_t x = 0; x < axis.out_size; ++x) row.out[x] = row.init;
  for (std::int64_t o = 0; o < row.offset_count; ++o) {
    for (std::int64_t k = 0; k < w.size; ++k) {
      // Windows whose element of this tap lies inside.
      const std::int64_t place = k * w.window_dilation - w.padding_low;
      const std::int64_t first = place >= 0 ? 0 : (-place + w.stride - 1) / w.stride;
      const std::int64_t room = axis.in_size - 1 - place;
      const std::int64_t end = room < 0 ? 0 : std::min(axis.out_size, room / w.stride + 1);
      if (first >= end) continue;
      fold_stride(row.out + first, row.in + row.offsets[o] + place + first * w.stride, end - first,
                  w.stride, combine);
    }
  }
}

}  // namespace

bool is_plain(const WindowAxisGeometry& axis) {
  return axis.window.base_dilation == 1 && !axis.window.reversal && axis.window.stride >= 1;
}

PLIMSOLL_CLONES void add_window_row(const WindowRow& row) {
  fold_row(row, [](float a, float b) __attribute__((always_inline)) { return a + b; });
}

PLIMSOLL_CLONES void maximum_window_row(const WindowRow& row) {
  fold_row(row, [](float a, float b) __attribute__((always_inline)) {
    // Of equal numbers only the zeros differ, in their sign.
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(a) & std::bit_cast<std::uint32_t>(b);
    const float number = a == b ? std::bit_cast<float>(bits) : (a > b ? a : b);
    return a != a || b != b ? std::numeric_limits<float>::quiet_NaN() : number;
  });
}

}  // namespace plimsoll::kernels
