// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one implementation of the transcendental functions of f32 (and, rounded, of f16 and bf16):
// exp expm1 log log1p tanh logistic sin cos tan erf pow atan2 cbrt rsqrt, as templates over the
// value types that scalar.h describes.
#include "runtime/base/math/exponential.h"
#include "runtime/base/math/logarithm.h"
#include "runtime/base/math/power.h"
#include "runtime/base/math/scalar.h"
#include "runtime/base/math/trigonometric.h"
