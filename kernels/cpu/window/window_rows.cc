// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/window/window_rows.h"

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/vector_loops.h"
#include "runtime/base/index.h"

namespace plimsoll::kernels {
namespace {

constexpr std::int64_t kMaxOffsets = std::int64_t{1} << 20;
// Rows without lanes: shorter ones would leave most of a vector empty, longer strides most of what
// is read unused.
constexpr std::int64_t kShortestPhaseRow = 4;
constexpr std::int64_t kMostPhases = 8;

void widen(const Float16* from, float* to, std::int64_t count) { from_f16(from, to, count); }
void widen(const Bfloat16* from, float* to, std::int64_t count) { from_bf16(from, to, count); }
void narrow(const float* from, Float16* to, std::int64_t count) { to_f16(from, to, count); }
void narrow(const float* from, Bfloat16* to, std::int64_t count) { to_bf16(from, to, count); }

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
  const auto span = [&](const std::vector<std::int64_t>& starts, std::int64_t size,
                        std::int64_t stride) {
    const std::int64_t last = starts.empty() ? 0 : *std::max_element(starts.begin(), starts.end());
    return size == 0 ? 0 : last + (size - 1) * stride + rows.lanes_;
  };
  rows.in_span_ = span(rows.offsets_, rows.axis_.in_size, rows.axis_.in_stride);
  rows.out_span_ = span(rows.row_out_, rows.axis_.out_size, rows.axis_.out_stride);
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

template <typename Body>
void WindowRows::for_planes(std::int64_t begin, std::int64_t end, const Body& body) const {
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
    body(in_at, out_at, first, first + rows);
    begin += rows;
  }
}

class WindowRows::Runner {
 public:
  Runner(const WindowRows& rows, Fold fold, float init)
      : plan_{rows.lanes_,
              rows.axis_.in_size,
              rows.axis_.in_stride,
              rows.axis_.out_size,
              rows.axis_.out_stride,
              rows.axis_.window.stride,
              rows.axis_.taps.data(),
              rows.row_out_.data(),
              rows.row_offsets_.data(),
              rows.offsets_.data(),
              rows.row_taps_.data(),
              rows.row_taps_.data() + rows.row_taps_.size(),
              rows.phase_front_,
              rows.phase_stride_},
        is_sum_(fold == Fold::sum),
        init_(init),
        flat_(at(rows.most_offsets_ *
                 std::max<std::int64_t>(1, std::min(rows.axis_.window.size, rows.axis_.in_size)))) {
    const std::int64_t stride = rows.axis_.window.stride;
    if (rows.lanes_ == 1 && rows.axis_.out_size >= kShortestPhaseRow && stride <= kMostPhases)
      phases_.resize(at(rows.most_offsets_ * stride * rows.phase_stride_));
  }
  void run(const float* in, float* out, std::int64_t first, std::int64_t last) {
    const Rows rows{
        in, out, init_, first, last, flat_.data(), phases_.empty() ? nullptr : phases_.data()};
    is_sum_ ? sum_rows(plan_, rows) : maximum_rows(plan_, rows);
  }

 private:
  RowPlan plan_;
  bool is_sum_;
  float init_;
  std::vector<std::int64_t> flat_;
  std::vector<float> phases_;
};

void WindowRows::run(Fold fold, const float* in, float* out, float init, std::int64_t begin,
                     std::int64_t end) const {
  Runner runner(*this, fold, init);
  for_planes(begin, end,
             [&](std::int64_t in_at, std::int64_t out_at, std::int64_t first, std::int64_t last) {
               runner.run(in + in_at, out + out_at, first, last);
             });
}

template <typename T>
void WindowRows::run_narrow(Fold fold, const T* in, T* out, float init, std::int64_t begin,
                            std::int64_t end) const {
  Runner runner(*this, fold, init);
  std::vector<float> wide_in(at(in_span_)), wide_out(at(out_span_));
  const std::int64_t length = axis_.out_size * lanes_;
  for_planes(begin, end,
             [&](std::int64_t in_at, std::int64_t out_at, std::int64_t first, std::int64_t last) {
               widen(in + in_at, wide_in.data(), in_span_);
               runner.run(wide_in.data(), wide_out.data(), first, last);
               for (std::int64_t row = first; row < last; ++row) {
                 const std::int64_t begins = row_out_[at(row)];
                 narrow(wide_out.data() + begins, out + out_at + begins, length);
               }
             });
}
template void WindowRows::run_narrow(Fold, const Float16*, Float16*, float, std::int64_t,
                                     std::int64_t) const;
template void WindowRows::run_narrow(Fold, const Bfloat16*, Bfloat16*, float, std::int64_t,
                                     std::int64_t) const;

}  // namespace plimsoll::kernels
