// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one implementation of the transcendental functions of f64, in namespace math::f64:
// exp expm1 log log1p tanh logistic sin cos tan erf pow atan2 cbrt rsqrt, as templates over the
// value types that scalar.h describes.
#include "runtime/base/math/exponential64.h"
#include "runtime/base/math/logarithm64.h"
#include "runtime/base/math/power64.h"
#include "runtime/base/math/scalar.h"
#include "runtime/base/math/trigonometric64.h"
