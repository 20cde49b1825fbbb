// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "kernels/cpu/scalar/scalar_program.h"
#include "runtime/ir/fusions/comparator.h"

namespace plimsoll::kernels {

// A comparator that does the same to two elements and compares what comes out, as JAX writes every
// comparator of floats: `(..., a_k, b_k, ...) -> f(a_k) < f(b_k)`. A sort then computes f once an
// element, and not twice a comparison.
struct KeyComparison {
  PlainComparison comparison;  // of the keys; `key` is k
  ScalarProgram key;           // f: one parameter, one result
  // f makes all NaNs the quiet one without a sign, and -0 +0, as JAX orders floats.
  bool is_canonical = false;
};
// Nothing where f holds more than elementwise operations on scalars.
std::optional<KeyComparison> key_comparison(const ir::PairComparison& comparison);
// Nothing for other computations, and where f holds more than elementwise operations on scalars.
std::optional<KeyComparison> recognize_key_comparison(const ir::Computation& computation);

}  // namespace plimsoll::kernels
