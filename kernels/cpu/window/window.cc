// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/window/window.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/index.h"

namespace plimsoll::kernels {

WindowAxisGeometry::WindowAxisGeometry(const ir::WindowDimension& w, std::int64_t in,
                                       std::int64_t in_step, std::int64_t out,
                                       std::int64_t out_step)
    : window(w), in_size(in), in_stride(in_step), out_size(out), out_stride(out_step) {
  taps.reserve(at(out));
  for (std::int64_t i = 0; i < out; ++i) taps.push_back(taps_at(i));
}

bool WindowAxisGeometry::is_trivial() const {
  return window.size == 1 && window.stride == 1 && window.padding_low == 0 &&
         window.padding_high == 0 && window.base_dilation == 1 && in_size == out_size;
}

Taps WindowAxisGeometry::taps_at(std::int64_t out_position) const {
  // Window position t looks at place start + t * dilation of the base, which holds element
  // place / base_dilation where that is whole.
  const std::int64_t start = out_position * window.stride - window.padding_low;
  const std::int64_t dilation = window.window_dilation, base = window.base_dilation;
  std::int64_t t = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
  const std::int64_t period = base / std::gcd(base, dilation);
  const std::int64_t stop = std::min(window.size, t + period);
  while (t < stop && (start + t * dilation) % base != 0) ++t;
  if (t >= stop) return {};
  const std::int64_t beyond = (in_size - 1) * base + 1;  // places of the base
  const std::int64_t place = start + t * dilation;
  if (place >= beyond) return {};
  const std::int64_t by_window = (window.size - 1 - t) / period + 1;
  const std::int64_t by_base = (beyond - 1 - place) / (period * dilation) + 1;
  Taps result{std::min(by_window, by_base), place / base, period * dilation / base};
  if (window.reversal) {
    result.first += (result.count - 1) * result.step;
    result.step = -result.step;
  }
  return result;
}

WindowGeometry::WindowGeometry(const ir::Dims& in, const ir::Dims& out,
                               const std::vector<ir::WindowDimension>& window) {
  const ir::Dims in_strides = ir::row_major_strides(in), out_strides = ir::row_major_strides(out);
  for (int d = 0; d < in.size(); ++d) {
    const auto at = static_cast<std::size_t>(d);
    axes.emplace_back(at < window.size() ? window[at] : ir::WindowDimension{}, in[d], in_strides[d],
                      out[d], out_strides[d]);
  }
  while (!axes.empty() && axes.back().is_trivial()) {
    lanes *= axes.back().in_size;
    axes.pop_back();
  }
}

}  // namespace plimsoll::kernels
