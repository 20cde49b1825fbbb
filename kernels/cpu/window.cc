// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/window.h"

#include <algorithm>
#include <numeric>

namespace plimsoll::kernels {

bool WindowAxisGeometry::is_trivial() const {
  return window.size == 1 && window.stride == 1 && window.padding_low == 0 &&
         window.padding_high == 0 && window.base_dilation == 1 && in_size == out_size;
}

Taps WindowAxisGeometry::taps(std::int64_t out_position) const {
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
  Taps taps{std::min(by_window, by_base), place / base, period * dilation / base};
  if (window.reversal) {
    taps.first += (taps.count - 1) * taps.step;
    taps.step = -taps.step;
  }
  return taps;
}

WindowGeometry::WindowGeometry(const ir::Dims& in, const ir::Dims& out,
                               const std::vector<ir::WindowDimension>& window) {
  const ir::Dims in_strides = ir::row_major_strides(in), out_strides = ir::row_major_strides(out);
  for (int d = 0; d < in.size(); ++d) {
    const auto at = static_cast<std::size_t>(d);
    axes.push_back({at < window.size() ? window[at] : ir::WindowDimension{}, in[d], in_strides[d],
                    out[d], out_strides[d]});
  }
  while (!axes.empty() && axes.back().is_trivial()) {
    lanes *= axes.back().in_size;
    axes.pop_back();
  }
}

}  // namespace plimsoll::kernels
