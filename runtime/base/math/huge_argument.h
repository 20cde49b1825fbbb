// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/scalar.h"

// Sine, cosine and tangent of arguments too large for reduction by parts of pi/2 in vector code:
// exact to about 2^-60, for every double; NaN for infinities and NaN.
namespace plimsoll::math {

extern const LaneFunction kSineOfHuge;
extern const LaneFunction kCosineOfHuge;
extern const LaneFunction kTangentOfHuge;

}  // namespace plimsoll::math
