// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstddef>
#include <memory>

namespace plimsoll::kernels {

// The discrete Fourier transform of a line of n numbers, unscaled: sum over j of x[j] exp(s i 2 pi
// j k / n), s = 1 for the inverse one and -1 otherwise. By mixed radices (KISS FFT); lengths with a
// large prime factor as a convolution of a power of two, after Bluestein (A linear filtering
// approach to the computation of discrete Fourier transform, 1970). Immutable, thread-safe.
class LineTransform {
 public:
  using Complex = std::complex<double>;

  // Precondition: n > 0.
  LineTransform(std::size_t n, bool inverse);
  ~LineTransform();
  LineTransform(LineTransform&&) noexcept;

  std::size_t length() const { return length_; }
  // Elements of `work` that run() takes.
  std::size_t work_elements() const;
  // Reads n numbers of `in`, writes n of `out`, another array.
  void run(const Complex* in, Complex* out, Complex* work) const;

 private:
  struct Plan;
  std::size_t length_ = 0;
  std::unique_ptr<const Plan> plan_;
};

}  // namespace plimsoll::kernels
