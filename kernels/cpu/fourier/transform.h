// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace plimsoll::kernels {

// Complex numbers of several lines side by side, real and imaginary parts apart: number j of line l
// of `lines` stands at j * lines + l of both.
struct ComplexLines {
  double* re = nullptr;
  double* im = nullptr;

  // In memory of 2 * n * lines doubles.
  static ComplexLines at(double* memory, std::size_t n, std::int64_t lines) {
    return {memory, memory + static_cast<std::int64_t>(n) * lines};
  }
  // The parts in each other's place: a forward transform of these is the inverse one of the numbers
  // themselves, parts exchanged again.
  ComplexLines exchanged() const { return {im, re}; }
};

// The discrete Fourier transform of lines of n numbers, unscaled: sum over j of x[j] exp(-2 pi i
// j k / n). By radices 4, 2, 3, 5 and primes up to 61, each stage sorting on the way (Stockham, as
// in Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, 1.7); lengths with a
// larger prime factor as a convolution of a length without (Bluestein, A linear filtering approach
// to the computation of discrete Fourier transform, 1970). A line's bits do not depend on how many
// lines stand beside it. Immutable, thread-safe.
class LineTransform {
 public:
  // Precondition: n > 0.
  explicit LineTransform(std::size_t n);
  ~LineTransform();
  LineTransform(LineTransform&&) noexcept;

  std::size_t length() const { return length_; }
  // Doubles of `work` that run() takes for each line.
  std::size_t work_doubles() const;
  // Transforms the numbers in `data`, which it overwrites; the result lies there or in `work`.
  ComplexLines run(ComplexLines data, std::int64_t lines, double* work) const;

 private:
  struct Plan;
  struct Convolution;
  std::size_t length_ = 0;
  std::unique_ptr<const Plan> plan_;
  std::unique_ptr<const Convolution> convolution_;  // where the length has a large prime factor
};

}  // namespace plimsoll::kernels
