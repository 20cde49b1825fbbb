// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/fourier/transform.h"

#include <algorithm>
#include <cmath>
#include <kissfft/kissfft.hh>
#include <numbers>
#include <vector>

namespace plimsoll::kernels {
namespace {

// A radix costs its square; from here on the convolution is quicker.
constexpr std::size_t kLargestRadix = 61;

std::size_t largest_prime_factor(std::size_t n) {
  std::size_t largest = 1;
  for (std::size_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) largest = p;
  }
  return std::max(largest, n);
}

}  // namespace

struct LineTransform::Plan {
  Plan(std::size_t n, bool inverse) : forward(n, inverse) {}

  // Of the line itself, or of the power of two that it is convolved in.
  kissfft<double> forward;
  // Radices above 5 write to memory of the plan's own: it is copied for every run.
  bool has_own_memory = false;
  // Bluestein's: exp(s i pi j^2 / n), and the transform of its conjugate, wrapped around.
  std::vector<Complex> chirp, filter;
  std::unique_ptr<const kissfft<double>> backward;

  void run(const Complex* in, Complex* out) const {
    if (!has_own_memory) return forward.transform(in, out);
    const kissfft<double> own = forward;
    own.transform(in, out);
  }
};

LineTransform::~LineTransform() = default;
LineTransform::LineTransform(LineTransform&&) noexcept = default;

LineTransform::LineTransform(std::size_t n, bool inverse) : length_(n) {
  const std::size_t largest = largest_prime_factor(n);
  if (largest <= kLargestRadix) {
    auto plan = std::make_unique<Plan>(n, inverse);
    plan->has_own_memory = largest > 5 || n == 1;
    plan_ = std::move(plan);
    return;
  }
  std::size_t padded = 1;
  while (padded < 2 * n - 1) padded *= 2;
  auto plan = std::make_unique<Plan>(padded, false);
  plan->backward = std::make_unique<const kissfft<double>>(padded, true);
  std::vector<Complex> wrapped(padded);
  const double sign = inverse ? 1 : -1;
  for (std::size_t j = 0; j < n; ++j) {
    // j^2 modulo 2n, so that the angle stays exact.
    const std::size_t square = j * j % (2 * n);
    const double angle =
        sign * std::numbers::pi * static_cast<double>(square) / static_cast<double>(n);
    plan->chirp.emplace_back(std::cos(angle), std::sin(angle));
    wrapped[j] = wrapped[(padded - j) % padded] = std::conj(plan->chirp[j]);
  }
  plan->filter.resize(padded);
  plan->forward.transform(wrapped.data(), plan->filter.data());
  plan_ = std::move(plan);
}

std::size_t LineTransform::work_elements() const { return 2 * plan_->filter.size(); }

void LineTransform::run(const Complex* in, Complex* out, Complex* work) const {
  if (plan_->filter.empty()) return plan_->run(in, out);
  const std::size_t padded = plan_->filter.size();
  Complex* const a = work;
  Complex* const b = work + padded;
  for (std::size_t j = 0; j < length_; ++j) a[j] = in[j] * plan_->chirp[j];
  std::fill(a + length_, a + padded, Complex(0));
  plan_->forward.transform(a, b);
  for (std::size_t j = 0; j < padded; ++j) b[j] *= plan_->filter[j];
  plan_->backward->transform(b, a);
  const double scale = 1 / static_cast<double>(padded);
  for (std::size_t j = 0; j < length_; ++j) out[j] = a[j] * plan_->chirp[j] * scale;
}

}  // namespace plimsoll::kernels
