// SPDX-License-Identifier: Apache-2.0
#pragma once

// The transcendental functions of f64 on plain numbers: the templates of *64.h, instantiated once.
// Generated code instantiates the same templates over vectors, so that the bits agree.
namespace plimsoll::math::f64 {

double exp(double x);
double expm1(double x);
double log(double x);
double log1p(double x);
double logistic(double x);
double tanh(double x);
double sin(double x);
double cos(double x);
double tan(double x);
double erf(double x);
double rsqrt(double x);
double cbrt(double x);
double pow(double x, double y);
double atan2(double y, double x);

}  // namespace plimsoll::math::f64
