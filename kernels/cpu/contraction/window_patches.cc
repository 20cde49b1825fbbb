// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/window_patches.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/cpu/products/packed_product.h"
#include "runtime/base/index.h"
#include "runtime/ir/shape.h"

namespace plimsoll::kernels {
namespace {

constexpr std::int64_t kMostRows = 32;  // of a panel
// A panel takes no more, nor a row of it.
constexpr std::int64_t kMostBytes = 32 << 10, kMostRowBytes = 2048;
constexpr std::int64_t kVectorBytes = 16;

template <typename T>
inline constexpr std::int64_t kVector = kVectorBytes / static_cast<std::int64_t>(sizeof(T));

// Whole vectors, with up to one too many numbers less one.
template <typename T>
inline void copy_vectors(const T* from, std::int64_t count, T* to) {
  for (std::int64_t i = 0; i < count; i += kVector<T>) std::memcpy(to + i, from + i, kVectorBytes);
}

}  // namespace

// Where the window of a position begins: on every axis, and, of an undilated base, in memory.
struct PatchGeometry::Row {
  std::array<std::int64_t, ir::kMaxRank> start;
  std::int64_t offset;
  bool is_inside;  // all of it
};

PatchGeometry::PatchGeometry(std::vector<PatchAxis> axes,
                             const std::vector<std::size_t>& window_order, std::int64_t channels)
    : axes_(std::move(axes)),
      channels_(channels),
      run_(channels),
      last_(window_order.back()),
      extent_(channels) {
  std::int64_t places = 1;
  for (const PatchAxis& axis : axes_) {
    places *= axis.window;
    extent_ += (axis.in - 1) * axis.in_stride;
    is_base_dilated_ = is_base_dilated_ || axis.base_dilation != 1;
  }
  steps_.resize(plimsoll::at(places) * axes_.size());
  for (std::int64_t place = 0; place < places; ++place) {
    std::int64_t rest = place, offset = 0;
    for (std::size_t i = window_order.size(); i-- > 0;) {
      const PatchAxis& axis = axes_[window_order[i]];
      const std::int64_t k = rest % axis.window;
      rest /= axis.window;
      const std::int64_t step = (axis.is_reversed ? axis.window - 1 - k : k) * axis.window_dilation;
      steps_[plimsoll::at(place) * axes_.size() + window_order[i]] = step;
      offset += step * axis.in_stride;
    }
    offsets_.push_back(offset);
  }
  // Neighbouring places whose channels follow each other.
  const PatchAxis& last = axes_[last_];
  if (!is_base_dilated_ && last.window_dilation == 1 && !last.is_reversed &&
      last.in_stride == channels_) {
    run_ = channels_ * last.window;
  }
  if (places > 1) return;
  std::int64_t expected = 0;
  for (std::size_t d = axes_.size(); d-- > 0;) {
    const PatchAxis& axis = axes_[d];
    const bool is_whole =
        axis.base_dilation == 1 && axis.padding_low == 0 && (axis.out - 1) * axis.stride < axis.in;
    if (!is_whole) return;
    if (axis.out == 1) continue;
    const std::int64_t step = axis.stride * axis.in_stride;
    if (expected == 0) {
      row_stride_ = step;
    } else if (step != expected) {
      row_stride_ = 0;
      return;
    }
    expected = step * axis.out;
  }
  if (expected == 0) row_stride_ = channels_;
}

std::int64_t PatchGeometry::positions() const {
  std::int64_t result = 1;
  for (const PatchAxis& axis : axes_) result *= axis.out;
  return result;
}

template <typename T>
const T* WindowPatches<T>::pixel(const Row& row, std::int64_t place, std::size_t but) const {
  const std::size_t count = geometry_.axes_.size();
  const std::int64_t* const steps = geometry_.steps_.data() + at(place) * count;
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < count; ++d) {
    const PatchAxis& axis = geometry_.axes_[d];
    std::int64_t j = row.start[d] + steps[d];
    if (d != but) {
      if (j < 0) return nullptr;
      if (axis.base_dilation != 1) {
        if (j % axis.base_dilation != 0) return nullptr;
        j /= axis.base_dilation;
      }
      if (j >= axis.in) return nullptr;
    }
    offset += j * axis.in_stride;
  }
  return images_ + offset;
}

template <typename T>
void WindowPatches<T>::copy_across_edge(const Row& row, std::int64_t place, std::int64_t within,
                                        std::int64_t count, T* to) const {
  const std::int64_t channels = geometry_.channels_;
  const bool is_along_axis = geometry_.run_ != channels;
  const T* const from = pixel(row, place, is_along_axis ? geometry_.last_ : geometry_.axes_.size());
  std::int64_t begin = 0, end = from != nullptr ? count : 0;
  if (is_along_axis) {
    const std::int64_t start = row.start[geometry_.last_];
    const std::int64_t room = geometry_.axes_[geometry_.last_].in - start;
    begin = std::clamp<std::int64_t>(-start * channels - within, 0, count);
    end =
        std::clamp<std::int64_t>(room * channels - within, begin, from != nullptr ? count : begin);
  }
  std::fill_n(to, begin, T{});
  if (begin < end) std::copy_n(from + within + begin, end - begin, to + begin);
  std::fill_n(to + end, count - end, T{});
}

// Elements [k0, k0 + depth) of all rows, which begin `stride` apart; some behind them are written.
template <typename T>
void WindowPatches<T>::gather(const Row* windows, std::int64_t rows, std::int64_t k0,
                              std::int64_t depth, T* to, std::int64_t stride) const {
  const std::int64_t channels = geometry_.channels_, run = geometry_.run_;
  std::int64_t within = k0 % run, place = (k0 - within) / channels;
  while (depth > 0) {
    const std::int64_t some = std::min(depth, run - within);
    const std::int64_t offset = geometry_.offsets_[at(place)] + within;
    // Where as many more may be read.
    const std::int64_t last = geometry_.extent_ - offset - some - kVector<T>;
    for (std::int64_t r = 0; r < rows; ++r) {
      const Row& row = windows[r];
      T* const row_to = to + r * stride;
      if (!row.is_inside) {
        copy_across_edge(row, place, within, some, row_to);
      } else if (row.offset <= last) {
        copy_vectors(images_ + row.offset + offset, some, row_to);
      } else {
        std::copy_n(images_ + row.offset + offset, some, row_to);
      }
    }
    to += some;
    depth -= some;
    place += run / channels;
    within = 0;
  }
}

template <typename T>
void WindowPatches<T>::find_windows(std::int64_t first, std::int64_t rows, Row* windows) const {
  const std::vector<PatchAxis>& axes = geometry_.axes_;
  std::array<std::int64_t, ir::kMaxRank> position{};
  std::int64_t rest = first;
  for (std::size_t d = axes.size(); d-- > 0;) {
    position[d] = rest % axes[d].out;
    rest /= axes[d].out;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    Row& row = windows[r];
    row.offset = 0;
    row.is_inside = !geometry_.is_base_dilated_;
    for (std::size_t d = 0; d < axes.size(); ++d) {
      const PatchAxis& axis = axes[d];
      const std::int64_t start = position[d] * axis.stride - axis.padding_low;
      row.start[d] = start;
      row.offset += start * axis.in_stride;
      row.is_inside =
          row.is_inside && start >= 0 && start + (axis.window - 1) * axis.window_dilation < axis.in;
    }
    for (std::size_t d = axes.size(); d-- > 0;) {
      if (++position[d] < axes[d].out) break;
      position[d] = 0;
    }
  }
}

template <typename T>
void WindowPatches<T>::pack(std::int64_t first, std::int64_t rows, std::int64_t k0,
                            std::int64_t depth, T* to) const {
  const std::int64_t width = (rows + loops_.row_step - 1) / loops_.row_step * loops_.row_step;
  std::array<Row, kMostRows> windows;
  find_windows(first, rows, windows.data());
  constexpr std::int64_t kWhole = 64 / sizeof(T);  // what loops copy at once
  if (loops_.pack_rows != nullptr && geometry_.channels_ % kWhole == 0) {
    alignas(64) static constexpr std::array<std::byte, kMostRowBytes> kZeros{};
    const auto* const zeros = reinterpret_cast<const T*>(kZeros.data());
    std::array<const T*, kMostRows> from;
    from.fill(zeros);
    const std::int64_t channels = geometry_.channels_;
    while (depth > 0) {
      const std::int64_t place = k0 / channels, channel = k0 % channels;
      const std::int64_t some = std::min(depth, channels - channel);
      const std::int64_t offset = geometry_.offsets_[at(place)] + channel;
      for (std::int64_t r = 0; r < rows; ++r) {
        const Row& row = windows[at(r)];
        if (row.is_inside) {
          from[at(r)] = images_ + row.offset + offset;
        } else {
          const T* const there = pixel(row, place, geometry_.axes_.size());
          from[at(r)] = there != nullptr ? there + channel : zeros;
        }
      }
      loops_.pack_rows(from.data(), width, some, to);
      to += some * width;
      k0 += some;
      depth -= some;
    }
    return;
  }
  alignas(64) T seen[(kMostBytes + kMostRows * kVectorBytes) / sizeof(T)];
  const std::int64_t stride = depth + kVector<T>;
  gather(windows.data(), rows, k0, depth, seen, stride);
  const auto pack = loops_.pack_left != nullptr ? loops_.pack_left : loops_.pack;
  pack(seen, stride, 1, rows, width, depth, to);
}

template class WindowPatches<std::uint8_t>;

}  // namespace plimsoll::kernels
