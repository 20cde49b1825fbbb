// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/products/product_loops.h"
#include "kernels/cpu/products/product_rows.h"

namespace plimsoll::kernels {

// One dimension that a convolution walks, the batch among them (of a window of one): of output
// position o and window position k the input position is
//   (o * stride + k * window_dilation - padding_low) / base_dilation,
// if that is whole and exists. A reversed window is walked backwards.
struct PatchAxis {
  std::int64_t out = 1, in = 1, window = 1;
  std::int64_t in_stride = 0;  // in elements
  std::int64_t stride = 1, window_dilation = 1, base_dilation = 1, padding_low = 0;
  bool is_reversed = false;
};

// The windows of a convolution, by shapes alone: a row a position of the result, axes in order, the
// last one fastest; in it the channels, which lie together, at one place of the window after those
// at another. Immutable; thread-safe.
class PatchGeometry {
 public:
  // The places of windows in a table.
  static constexpr std::int64_t kMostPlaces = 1 << 12;

  // `axes` in the order of positions; `window_order` has their indices in that of the window's
  // places. There are at most kMostPlaces.
  PatchGeometry(std::vector<PatchAxis> axes, const std::vector<std::size_t>& window_order,
                std::int64_t channels);

  std::int64_t positions() const;
  std::int64_t depth() const { return static_cast<std::int64_t>(offsets_.size()) * channels_; }
  // Rows are those of a matrix in memory, so many elements apart; 0 if they aren't.
  std::int64_t row_stride() const { return row_stride_; }

 private:
  template <typename T>
  friend class WindowPatches;
  struct Row;

  std::vector<PatchAxis> axes_;
  std::int64_t channels_;
  // Elements that lie together in a window: the channels, or all places along its last axis.
  std::int64_t run_;
  std::size_t last_;     // that axis
  std::int64_t extent_;  // from an array's first element to behind its last
  bool is_base_dilated_ = false;
  std::int64_t row_stride_ = 0;
  // Per place of the window: what it adds to the position on every axis, and, of an undilated base,
  // to the address.
  std::vector<std::int64_t> steps_, offsets_;
};

// What the windows see of one array, zeros outside of it.
template <typename T>
class WindowPatches final : public ProductRows<T> {
 public:
  WindowPatches(const PatchGeometry& geometry, const T* images, const ProductLoops<T>& loops)
      : geometry_(geometry), images_(images), loops_(loops) {}
  void pack(std::int64_t first, std::int64_t rows, std::int64_t k0, std::int64_t depth,
            T* to) const override;

 private:
  using Row = PatchGeometry::Row;
  void find_windows(std::int64_t first, std::int64_t rows, Row* windows) const;
  // The element at channel 0 of a place, null outside. What `but` is lies inside.
  const T* pixel(const Row& row, std::int64_t place, std::size_t but) const;
  // Elements [within, within + count) of the run at a place.
  void copy_across_edge(const Row& row, std::int64_t place, std::int64_t within, std::int64_t count,
                        T* to) const;
  void gather(const Row* windows, std::int64_t rows, std::int64_t k0, std::int64_t depth, T* to,
              std::int64_t stride) const;

  const PatchGeometry& geometry_;
  const T* images_;
  const ProductLoops<T>& loops_;
};

}  // namespace plimsoll::kernels
