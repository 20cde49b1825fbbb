// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/window_patches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/kernels/product_operands.h"

namespace plimsoll::kernels {
namespace {

// What the windows see, by the definition, a row a position.
std::vector<std::uint8_t> matrix_of(const std::vector<PatchAxis>& axes,
                                    const std::vector<std::size_t>& window_order,
                                    std::int64_t channels,
                                    const std::vector<std::uint8_t>& images) {
  std::int64_t positions = 1, places = 1;
  for (const PatchAxis& axis : axes) {
    positions *= axis.out;
    places *= axis.window;
  }
  std::vector<std::uint8_t> matrix;
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t place = 0; place < places; ++place) {
      std::vector<std::int64_t> o(axes.size()), k(axes.size());
      std::int64_t rest = p;
      for (std::size_t d = axes.size(); d-- > 0; rest /= axes[d].out) o[d] = rest % axes[d].out;
      rest = place;
      for (std::size_t i = window_order.size(); i-- > 0;) {
        k[window_order[i]] = rest % axes[window_order[i]].window;
        rest /= axes[window_order[i]].window;
      }
      std::int64_t offset = 0;
      bool exists = true;
      for (std::size_t d = 0; d < axes.size(); ++d) {
        const PatchAxis& a = axes[d];
        const std::int64_t step = a.is_reversed ? a.window - 1 - k[d] : k[d];
        const std::int64_t j = o[d] * a.stride + step * a.window_dilation - a.padding_low;
        exists = exists && j >= 0 && j % a.base_dilation == 0 && j / a.base_dilation < a.in;
        offset += j / a.base_dilation * a.in_stride;
      }
      for (std::int64_t c = 0; c < channels; ++c) {
        matrix.push_back(exists ? images[static_cast<std::size_t>(offset + c)] : std::uint8_t{0});
      }
    }
  }
  return matrix;
}

PatchAxis axis(std::int64_t out, std::int64_t in, std::int64_t window, std::int64_t stride = 1,
               std::int64_t padding = 0, std::int64_t dilation = 1, std::int64_t base = 1,
               bool reversed = false) {
  return {out, in, window, 0, stride, dilation, base, padding, reversed};
}

// Any block of any panel as the loops of this instruction set pack a matrix in memory, and nothing
// behind an array's end is read (the array is as large as it must be).
TEST(WindowPatches, ArePackedAsTheMatrixThatTheyAre) {
  const std::vector<std::vector<PatchAxis>> geometries = {
      {axis(2, 2, 1), axis(6, 6, 3, 1, 1), axis(7, 7, 3, 1, 1)},
      {axis(1, 1, 1), axis(5, 9, 3, 2, 1), axis(5, 10, 5, 2, 2)},
      {axis(2, 2, 1), axis(6, 4, 3, 1, 2, 2), axis(9, 5, 2, 1, 1, 1, 2)},
      {axis(3, 3, 1), axis(4, 5, 2, 1, 0, 1, 1, true), axis(5, 7, 3, 1, 0, 1, 1, true)},
      {axis(2, 2, 1), axis(3, 7, 2, 1, -2), axis(40, 40, 1)}};
  int tried = 0;
  for (const ProductInstructions instructions : kProductInstructions) {
    for (const bool have_signs : {false, true}) {
      const auto* const loops = byte_product_loops(have_signs, have_signs, instructions);
      if (loops == nullptr) continue;
      ++tried;
      for (std::vector<PatchAxis> axes : geometries) {
        for (const std::int64_t channels : {1, 3, 17, 64, 128}) {
          std::int64_t size = channels;
          for (std::size_t d = axes.size(); d-- > 0;) {
            axes[d].in_stride = size;
            size *= axes[d].in;
          }
          const auto images = ProductOperand<std::uint8_t>(1, size, true, false, 5).numbers;
          const std::vector<std::uint8_t> array(images.begin(), images.begin() + size);
          const std::vector<std::size_t> order = {0, 1, 2};
          const PatchGeometry geometry(axes, order, channels);
          const std::vector<std::uint8_t> matrix = matrix_of(axes, order, channels, array);
          const std::int64_t depth = geometry.depth();
          ASSERT_EQ(geometry.positions() * depth, static_cast<std::int64_t>(matrix.size()));
          const WindowPatches<std::uint8_t> patches(geometry, array.data(), *loops);
          const MatrixRows<std::uint8_t> rows(matrix.data(), {depth, 1}, *loops);
          for (std::int64_t i = 0; i < geometry.positions(); i += loops->rows) {
            for (std::int64_t k0 = 0; k0 < depth; k0 += 192) {
              const std::int64_t count = std::min(loops->rows, geometry.positions() - i);
              const std::int64_t some = std::min<std::int64_t>(192, depth - k0);
              std::vector<std::uint8_t> got(32 * 192, 1), want(32 * 192, 1);
              patches.pack(i, count, k0, some, got.data());
              rows.pack(i, count, k0, some, want.data());
              ASSERT_EQ(got, want) << channels << " channels, row " << i << ", depth " << k0;
            }
          }
        }
      }
    }
  }
  if (tried == 0) GTEST_SKIP() << "this machine has no products of four bytes";
}

// A window of one place is a matrix where the array is.
TEST(WindowPatches, OfOnePlaceAreRowsOfTheArray) {
  const auto stride_of = [](const std::vector<PatchAxis>& axes) {
    return PatchGeometry(axes, {0, 1}, 8).row_stride();
  };
  PatchAxis rows = axis(5, 5, 1), columns = axis(6, 6, 1);
  rows.in_stride = 48;
  columns.in_stride = 8;
  EXPECT_EQ(stride_of({rows, columns}), 8);
  EXPECT_EQ(stride_of({columns, rows}), 0);
  columns.out = 3;
  columns.stride = 2;
  EXPECT_EQ(stride_of({rows, columns}), 16);
  columns.padding_low = 1;
  EXPECT_EQ(stride_of({rows, columns}), 0);
}

}  // namespace
}  // namespace plimsoll::kernels
