// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/fourier/transform.h"

namespace plimsoll::kernels {

// Between the spectrum of a real line of 2h numbers, whose first h + 1 say all, and that of the h
// complex numbers that its pairs are (Sorensen et al., Real-valued fast Fourier transform
// algorithms, 1987).
class RealSpectrum {
 public:
  explicit RealSpectrum(std::size_t h);

  // From the pairs' spectrum, h numbers, to the line's, h + 1.
  void of_line(ComplexLines pairs, std::int64_t lines, ComplexLines line) const;
  // Back, twice the pairs' spectrum. The imaginary parts of the first and the last number count for
  // nothing.
  void of_pairs(ComplexLines line, std::int64_t lines, ComplexLines pairs) const;

 private:
  std::int64_t half_ = 0;
  std::vector<double> re_, im_;  // exp(-pi i k / h), k to h
};

}  // namespace plimsoll::kernels
