// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/math/float64.h"

#include "runtime/base/math/transcendental64.h"

namespace plimsoll::math::f64 {

double log(double x) { return f64::log(ScalarF64{x}).value; }
double cos(double x) { return f64::cos(ScalarF64{x}).value; }

}  // namespace plimsoll::math::f64
