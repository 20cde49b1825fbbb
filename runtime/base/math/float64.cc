// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/math/float64.h"

#include "runtime/base/math/transcendental64.h"

namespace plimsoll::math::f64 {

double exp(double x) { return f64::exp(ScalarF64{x}).value; }
double expm1(double x) { return f64::expm1(ScalarF64{x}).value; }
double log(double x) { return f64::log(ScalarF64{x}).value; }
double log1p(double x) { return f64::log1p(ScalarF64{x}).value; }
double logistic(double x) { return f64::logistic(ScalarF64{x}).value; }
double tanh(double x) { return f64::tanh(ScalarF64{x}).value; }
double sin(double x) { return f64::sin(ScalarF64{x}).value; }
double cos(double x) { return f64::cos(ScalarF64{x}).value; }
double tan(double x) { return f64::tan(ScalarF64{x}).value; }
double erf(double x) { return f64::erf(ScalarF64{x}).value; }
double rsqrt(double x) { return f64::rsqrt(ScalarF64{x}).value; }
double cbrt(double x) { return f64::cbrt(ScalarF64{x}).value; }
double pow(double x, double y) { return f64::pow(ScalarF64{x}, ScalarF64{y}).value; }
double atan2(double y, double x) { return f64::atan2(ScalarF64{y}, ScalarF64{x}).value; }

}  // namespace plimsoll::math::f64
