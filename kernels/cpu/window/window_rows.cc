// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/window/window_rows.h"

#include <algorithm>
#include <cstddef>

#include "runtime/base/index.h"

namespace plimsoll::kernels {
namespace {

constexpr std::int64_t kMaxOffsets = std::int64_t{1} << 20;
// Rows without lanes: shorter ones would leave most of a vector empty, longer strides most of what
// is read unused.
constexpr std::int64_t kShortestPhaseRow = 4;
constexpr std::int64_t kMostPhases = 8;

}  // namespace

std::optional<WindowRows> WindowRows::make(const WindowGeometry& geometry) {
  if (geometry.axes.empty()) return std::nullopt;
  const ir::WindowDimension& w = geometry.axes.back().window;
  if (w.base_dilation != 1 || w.reversal || w.stride < 1) return std::nullopt;
  WindowRows rows(geometry, geometry.axes.back());
  std::vector<WindowAxisGeometry> outer;
  std::int64_t row_count = 1, taps = 1;
  for (auto axis = geometry.axes.begin(); axis != geometry.axes.end() - 1; ++axis) {
    if (axis->is_trivial()) {
      rows.plane_axes_.push_back(*axis);
      rows.plane_count_ *= axis->in_size;
      continue;
    }
    row_count *= axis->out_size;
    taps *= std::max<std::int64_t>(1, std::min(axis->window.size, axis->in_size));
    if (row_count > kMaxOffsets || taps > kMaxOffsets || row_count * taps > kMaxOffsets)
      return std::nullopt;
    outer.push_back(*axis);
  }
  for (std::int64_t row = 0; row < row_count; ++row) {
    std::int64_t rest = row, out = 0;
    Taps at[ir::kMaxRank];
    for (std::size_t d = outer.size(); d-- > 0;) {
      out += rest % outer[d].out_size * outer[d].out_stride;
      at[d] = outer[d].taps[plimsoll::at(rest % outer[d].out_size)];
      rest /= outer[d].out_size;
    }
    const auto first = static_cast<std::int64_t>(rows.offsets_.size());
    for_each_tap(outer, at, [&](std::int64_t offset) { rows.offsets_.push_back(offset); });
    rows.row_out_.push_back(out);
    rows.row_offsets_.push_back(first);
    rows.most_offsets_ =
        std::max(rows.most_offsets_, static_cast<std::int64_t>(rows.offsets_.size()) - first);
  }
  rows.row_offsets_.push_back(static_cast<std::int64_t>(rows.offsets_.size()));
  if (rows.lanes_ == 1) rows.lay_out_phases();
  return rows;
}

void WindowRows::lay_out_phases() {
  const ir::WindowDimension& w = axis_.window;
  std::int64_t least = 0, most = 0;
  for (std::int64_t k = 0; k < w.size; ++k) {
    const std::int64_t place = k * w.window_dilation - w.padding_low;
    RowTap tap{};
    tap.phase = (place % w.stride + w.stride) % w.stride;
    tap.shift = (place - tap.phase) / w.stride;
    tap.first = place >= 0 ? 0 : (-place + w.stride - 1) / w.stride;
    const std::int64_t room = axis_.in_size - 1 - place;
    tap.end = room < 0 ? 0 : std::min(axis_.out_size, room / w.stride + 1);
    if (tap.first >= tap.end) continue;  // always in the padding
    least = std::min(least, tap.shift);
    most = std::max(most, tap.shift);
    row_taps_.push_back(tap);
  }
  // Whole vectors are read from any tap's first element on.
  constexpr std::int64_t kWidest = 16;
  const std::int64_t length = (axis_.in_size + w.stride - 1) / w.stride;
  phase_front_ = -least;
  phase_stride_ = phase_front_ + std::max(length, axis_.out_size + most) + kWidest;
}

void WindowRows::run(Fold fold, const float* in, float* out, float init, std::int64_t begin,
                     std::int64_t end) const {
  const std::int64_t stride = axis_.window.stride;
  std::vector<float> phases;
  if (lanes_ == 1 && axis_.out_size >= kShortestPhaseRow && stride <= kMostPhases)
    phases.resize(at(most_offsets_ * stride * phase_stride_));
  std::vector<std::int64_t> flat(
      at(most_offsets_ * std::max<std::int64_t>(1, std::min(axis_.window.size, axis_.in_size))));
  const RowPlan plan{lanes_,
                     axis_.in_size,
                     axis_.in_stride,
                     axis_.out_size,
                     axis_.out_stride,
                     stride,
                     axis_.taps.data(),
                     row_out_.data(),
                     row_offsets_.data(),
                     offsets_.data(),
                     row_taps_.data(),
                     row_taps_.data() + row_taps_.size(),
                     phase_front_,
                     phase_stride_};
  const auto loop = fold == Fold::sum ? sum_rows : maximum_rows;
  const std::int64_t per_plane = rows_per_plane();
  while (begin < end) {
    std::int64_t rest = begin / per_plane, in_at = 0, out_at = 0;
    const std::int64_t first = begin % per_plane;
    for (std::size_t d = plane_axes_.size(); d-- > 0;) {
      in_at += rest % plane_axes_[d].in_size * plane_axes_[d].in_stride;
      out_at += rest % plane_axes_[d].in_size * plane_axes_[d].out_stride;
      rest /= plane_axes_[d].in_size;
    }
    const std::int64_t rows = std::min(per_plane - first, end - begin);
    loop(plan, {in + in_at, out + out_at, init, first, first + rows, flat.data(),
                phases.empty() ? nullptr : phases.data()});
    begin += rows;
  }
}

}  // namespace plimsoll::kernels
