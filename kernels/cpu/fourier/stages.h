// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/fourier/transform.h"

namespace plimsoll::kernels {

// A radix costs its square; beyond this one a convolution is quicker.
inline constexpr std::int64_t kLargestFourierRadix = 61;

// One stage of a transform: `count` butterflies of `radix` numbers each, and what their results are
// multiplied by. The radix is 2, 4 or odd, and no larger than kLargestFourierRadix.
struct FourierStage {
  std::int64_t radix = 0, count = 0;
  // exp(-2 pi i p k / (radix * count)) for k of 1 to radix - 1 within p of 0 to count - 1.
  std::vector<double> re, im;
  // exp(-2 pi i k / radix), for the radices without a butterfly of their own.
  std::vector<double> root_re, root_im;

  FourierStage(std::int64_t radix, std::int64_t count);

  // From `x` to `y`, of `stride` numbers each that are transformed alike.
  void run(ComplexLines x, ComplexLines y, std::int64_t stride) const;
};

// exp(-2 pi i j / n), j taken modulo n, so that the angle stays small.
struct RootOfUnity {
  RootOfUnity(std::size_t j, std::size_t n);
  double re, im;
};

}  // namespace plimsoll::kernels
