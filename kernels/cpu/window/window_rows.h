// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cpu/window/window.h"
#include "kernels/cpu/window/window_loops.h"

namespace plimsoll::kernels {

// The sums or maxima of f32 windows, a row of results (along the innermost windowed axis) at a
// time. A plane is what one position of the axes without a window selects; all planes have the same
// rows. Every window takes its elements in the order of the definition.
class WindowRows {
 public:
  // Nothing where the innermost axis has a dilated base or is reversed, or where the table of rows
  // would be large.
  static std::optional<WindowRows> make(const WindowGeometry& geometry);

  // Rows of all planes, plane by plane.
  std::int64_t count() const { return plane_count_ * rows_per_plane(); }
  std::int64_t elements_per_row() const { return axis_.out_size * lanes_; }

  enum class Fold : std::uint8_t {
    sum,
    maximum,  // NaN if any element is, -0 below +0
  };
  // Folds the rows [begin, end), which start from `init`; other rows of `out` are not touched.
  // Thread-safe.
  void run(Fold fold, const float* in, float* out, float init, std::int64_t begin,
           std::int64_t end) const;
  // The same of 16-bit floats, which become f32 a plane at a time: the bits of folds in f32 that
  // are rounded at the end. Precondition: planes are small (a host's cache holds them).
  bool has_small_planes() const { return in_span_ <= kSmallPlane && out_span_ <= kSmallPlane; }
  template <typename T>
  void run_narrow(Fold fold, const T* in, T* out, float init, std::int64_t begin,
                  std::int64_t end) const;

 private:
  WindowRows(const WindowGeometry& geometry, WindowAxisGeometry axis)
      : axis_(std::move(axis)), lanes_(geometry.lanes) {}
  static constexpr std::int64_t kSmallPlane = 1 << 14;
  std::int64_t rows_per_plane() const { return static_cast<std::int64_t>(row_out_.size()); }
  void lay_out_phases();
  // Calls body(in, out, first, last) for the rows [begin, end) plane by plane: where the plane
  // begins in both arrays, and which of its rows it is about.
  template <typename Body>
  void for_planes(std::int64_t begin, std::int64_t end, const Body& body) const;
  // Runs rows of one plane after the other.
  class Runner;

  WindowAxisGeometry axis_;  // the innermost
  std::int64_t lanes_;
  std::vector<WindowAxisGeometry> plane_axes_;
  std::int64_t plane_count_ = 1;
  // Per row of a plane: its first result, and where its offsets begin (one more at the end); the
  // offsets are those of the elements at position 0 of the innermost axis.
  std::vector<std::int64_t> row_out_, row_offsets_, offsets_;
  std::int64_t most_offsets_ = 1;  // of a row

  std::vector<RowTap> row_taps_;
  std::int64_t phase_front_ = 0, phase_stride_ = 0;  // elements before a phase's first; of a phase
  std::int64_t in_span_ = 0, out_span_ = 0;          // from a plane's first element to its last
};

}  // namespace plimsoll::kernels
