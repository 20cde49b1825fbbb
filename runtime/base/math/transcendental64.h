// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one implementation of the transcendental functions of f64, in namespace math::f64, as
// templates over the value types that scalar.h describes. Those of hyperbolic64.h and inverse64.h
// serve f32 too, through f64.
#include "runtime/base/math/exponential64.h"
#include "runtime/base/math/hyperbolic64.h"
#include "runtime/base/math/inverse64.h"
#include "runtime/base/math/logarithm64.h"
#include "runtime/base/math/power64.h"
#include "runtime/base/math/scalar.h"
#include "runtime/base/math/trigonometric64.h"
