// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstdint>

#include "kernels/cpu/fourier/transform.h"

namespace plimsoll::kernels {

// Lines of an array along one dim: line i's number j is number i / stride * pitch * stride + i %
// stride + j * stride of the array. They are read and written side by side, in f64.
struct LineGroup {
  std::int64_t first = 0, lines = 0;
  std::int64_t length = 0;  // that are read or written of each
  std::int64_t pitch = 0, stride = 1;

  void load(const std::complex<float>* from, ComplexLines to) const;
  void load(const std::complex<double>* from, ComplexLines to) const;
  // Real numbers.
  void load(const float* from, ComplexLines to) const;
  void load(const double* from, ComplexLines to) const;
  // Times `scale`, rounded once; of real ones, the real part.
  void store(ComplexLines from, double scale, std::complex<float>* to) const;
  void store(ComplexLines from, double scale, std::complex<double>* to) const;
  void store(ComplexLines from, double scale, float* to) const;
  void store(ComplexLines from, double scale, double* to) const;
};

}  // namespace plimsoll::kernels
