// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/math/float64.h"

#include <cmath>

namespace plimsoll::math::f64 {

double exp(double x) { return std::exp(x); }
double expm1(double x) { return std::expm1(x); }
double log(double x) { return std::log(x); }
double log1p(double x) { return std::log1p(x); }
double logistic(double x) {
  const double small = std::exp(-std::fabs(x));
  return (x < 0 ? small : 1.0) / (1.0 + small);
}
double tanh(double x) { return std::tanh(x); }
double sin(double x) { return std::sin(x); }
double cos(double x) { return std::cos(x); }
double tan(double x) { return std::tan(x); }
double erf(double x) { return std::erf(x); }
double rsqrt(double x) { return 1.0 / std::sqrt(x); }
double cbrt(double x) { return std::cbrt(x); }
double pow(double x, double y) { return std::pow(x, y); }
double atan2(double y, double x) { return std::atan2(y, x); }

}  // namespace plimsoll::math::f64
