// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/fourier/real_spectrum.h"

#include "kernels/cpu/fourier/stages.h"

namespace plimsoll::kernels {

RealSpectrum::RealSpectrum(std::size_t h) : half_(static_cast<std::int64_t>(h)) {
  for (std::size_t k = 0; k <= h; ++k) {
    const RootOfUnity root(k, 2 * h);
    re_.push_back(root.re);
    im_.push_back(root.im);
  }
}

// With e and o the spectra of the even and the odd numbers, the pairs' is e + i o and the line's e
// + exp(-pi i k / h) o; e and o are those of real lines, their own conjugates read backwards.
void RealSpectrum::of_line(ComplexLines pairs, std::int64_t lines, ComplexLines line) const {
  for (std::int64_t k = 0; k <= half_; ++k) {
    const std::int64_t from = k % half_ * lines, mirror = (half_ - k) % half_ * lines;
    const double re = re_[static_cast<std::size_t>(k)], im = im_[static_cast<std::size_t>(k)];
    for (std::int64_t l = 0; l < lines; ++l) {
      const double even_re = 0.5 * (pairs.re[from + l] + pairs.re[mirror + l]);
      const double even_im = 0.5 * (pairs.im[from + l] - pairs.im[mirror + l]);
      const double odd_re = 0.5 * (pairs.im[from + l] + pairs.im[mirror + l]);
      const double odd_im = 0.5 * (pairs.re[mirror + l] - pairs.re[from + l]);
      line.re[k * lines + l] = even_re + (re * odd_re - im * odd_im);
      line.im[k * lines + l] = even_im + (re * odd_im + im * odd_re);
    }
  }
  // Real, where the root's rounding says otherwise.
  for (std::int64_t l = 0; l < lines; ++l) line.im[l] = line.im[half_ * lines + l] = 0;
}

void RealSpectrum::of_pairs(ComplexLines line, std::int64_t lines, ComplexLines pairs) const {
  for (std::int64_t l = 0; l < lines; ++l) line.im[l] = line.im[half_ * lines + l] = 0;
  for (std::int64_t k = 0; k < half_; ++k) {
    const std::int64_t from = k * lines, mirror = (half_ - k) * lines;
    const double re = re_[static_cast<std::size_t>(k)], im = -im_[static_cast<std::size_t>(k)];
    for (std::int64_t l = 0; l < lines; ++l) {
      const double even_re = line.re[from + l] + line.re[mirror + l];
      const double even_im = line.im[from + l] - line.im[mirror + l];
      const double turned_re = line.re[from + l] - line.re[mirror + l];
      const double turned_im = line.im[from + l] + line.im[mirror + l];
      pairs.re[from + l] = even_re - (re * turned_im + im * turned_re);
      pairs.im[from + l] = even_im + (re * turned_re - im * turned_im);
    }
  }
}

}  // namespace plimsoll::kernels
