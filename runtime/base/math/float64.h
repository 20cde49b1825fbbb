// SPDX-License-Identifier: Apache-2.0
#pragma once

// What draws of random numbers need of the functions of f64, on plain numbers: the templates of
// *64.h, instantiated once.
namespace plimsoll::math::f64 {

double log(double x);
double cos(double x);

}  // namespace plimsoll::math::f64
