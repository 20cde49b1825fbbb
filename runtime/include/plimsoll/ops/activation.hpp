// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/ops/elementwise.hpp"

namespace plimsoll {

inline Tensor relu(const Tensor& x) { return maximum(x, 0.0); }

// x times the normal distribution's probability of a value below x.
inline Tensor gelu(const Tensor& x) { return 0.5 * x * (1.0 + erf(x * 0.7071067811865476)); }

// Its approximation by tanh (Hendrycks and Gimpel, arXiv:1606.08415).
inline Tensor gelu_tanh(const Tensor& x) {
  return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

inline Tensor silu(const Tensor& x) { return x * sigmoid(x); }

}  // namespace plimsoll
