// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/fourier/transform.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "kernels/cpu/fourier/stages.h"

namespace plimsoll::kernels {
namespace {

// The radices of n, those with a butterfly first; the last one may be a large prime.
std::vector<std::size_t> radices_of(std::size_t n) {
  std::vector<std::size_t> radices;
  const auto take = [&](std::size_t radix) {
    for (; n % radix == 0; n /= radix) radices.push_back(radix);
  };
  for (const std::size_t radix : {4, 2, 3, 5}) take(radix);
  for (std::size_t p = 7; p * p <= n; p += 2) take(p);
  if (n > 1) radices.push_back(n);
  return radices;
}

}  // namespace

struct LineTransform::Plan {
  std::vector<FourierStage> stages;

  Plan(std::size_t n, const std::vector<std::size_t>& radices) {
    for (const std::size_t radix : radices) {
      n /= radix;
      stages.emplace_back(static_cast<std::int64_t>(radix), static_cast<std::int64_t>(n));
    }
  }
};

struct LineTransform::Convolution {
  LineTransform padded;
  // exp(-pi i j^2 / n), and the transform of its conjugate, wrapped around, over the padded length.
  std::vector<double> chirp_re, chirp_im, filter_re, filter_im;

  explicit Convolution(std::size_t n) : padded(padded_length(n)) {
    const std::size_t length = padded.length();
    std::vector<double> wrapped(2 * length), work(padded.work_doubles());
    const ComplexLines conjugate = ComplexLines::at(wrapped.data(), length, 1);
    for (std::size_t j = 0; j < n; ++j) {
      // j^2 modulo 2n, so that the angle stays exact.
      const RootOfUnity chirp(j * j % (2 * n), 2 * n);
      chirp_re.push_back(chirp.re);
      chirp_im.push_back(chirp.im);
      for (const std::size_t place : {j, (length - j) % length}) {
        conjugate.re[place] = chirp.re;
        conjugate.im[place] = -chirp.im;
      }
    }
    const ComplexLines made = padded.run(conjugate, 1, work.data());
    const double scale = 1 / static_cast<double>(length);
    for (std::size_t j = 0; j < length; ++j) {
      filter_re.push_back(made.re[j] * scale);
      filter_im.push_back(made.im[j] * scale);
    }
  }

  // The least one of radices 4, 2, 3 and 5, of which few are 3 or 5, that the convolution does not
  // wrap around in.
  static std::size_t padded_length(std::size_t n) {
    const std::size_t least = 2 * n - 1;
    std::size_t best = 0;
    for (const std::size_t odd : {1, 3, 5, 9, 15, 45}) {
      std::size_t length = odd;
      while (length < least) length *= 2;
      if (best == 0 || length < best) best = length;
    }
    return best;
  }

  void run(ComplexLines data, std::int64_t lines, double* work) const;
};

namespace {

// to[j] = from[j] * by[j], for j below n, in each line.
void multiply(ComplexLines from, const std::vector<double>& by_re, const std::vector<double>& by_im,
              std::int64_t lines, ComplexLines to) {
  std::int64_t at = 0;
  for (std::size_t j = 0; j < by_re.size(); ++j) {
    for (std::int64_t line = 0; line < lines; ++line, ++at) {
      const double re = from.re[at], im = from.im[at];
      to.re[at] = re * by_re[j] - im * by_im[j];
      to.im[at] = re * by_im[j] + im * by_re[j];
    }
  }
}

}  // namespace

void LineTransform::Convolution::run(ComplexLines data, std::int64_t lines, double* work) const {
  const std::int64_t numbers = static_cast<std::int64_t>(padded.length()) * lines;
  double* const one = work;
  double* const other = work + 2 * numbers;
  const ComplexLines in = ComplexLines::at(one, padded.length(), lines);
  multiply(data, chirp_re, chirp_im, lines, in);
  const std::int64_t filled = static_cast<std::int64_t>(chirp_re.size()) * lines;
  std::fill(in.re + filled, in.re + numbers, 0.0);
  std::fill(in.im + filled, in.im + numbers, 0.0);
  const ComplexLines spectrum = padded.run(in, lines, other);
  multiply(spectrum, filter_re, filter_im, lines, spectrum);
  double* const rest = spectrum.re == in.re ? other : one;
  const ComplexLines out = padded.run(spectrum.exchanged(), lines, rest).exchanged();
  multiply(out, chirp_re, chirp_im, lines, data);
}

LineTransform::~LineTransform() = default;
LineTransform::LineTransform(LineTransform&&) noexcept = default;

LineTransform::LineTransform(std::size_t n) : length_(n) {
  const std::vector<std::size_t> radices = radices_of(n);
  if (!radices.empty() && radices.back() > kLargestFourierRadix) {
    convolution_ = std::make_unique<const Convolution>(n);
  } else {
    plan_ = std::make_unique<const Plan>(n, radices);
  }
}

std::size_t LineTransform::work_doubles() const {
  return convolution_ ? 4 * convolution_->padded.length() : 2 * length_;
}

ComplexLines LineTransform::run(ComplexLines data, std::int64_t lines, double* work) const {
  if (convolution_) {
    convolution_->run(data, lines, work);
    return data;
  }
  ComplexLines from = data, to = ComplexLines::at(work, length_, lines);
  std::int64_t stride = lines;
  for (const FourierStage& stage : plan_->stages) {
    stage.run(from, to, stride);
    std::swap(from, to);
    stride *= stage.radix;
  }
  return from;
}

}  // namespace plimsoll::kernels
