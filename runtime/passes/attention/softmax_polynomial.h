// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <map>

// What the elements around a softmax and its gradient are made of: polynomials in the powers e, the
// slopes s = do v^T, and per row the sums l = sum of e and r = sum of e * s (exponents may be
// below zero).
namespace plimsoll::passes {

// Exponents of e, s, l and r.
using Monomial = std::array<int, 4>;
using Polynomial = std::map<Monomial, double>;

inline constexpr Monomial kPower = {1, 0, 0, 0}, kSlope = {0, 1, 0, 0};
inline constexpr Monomial kRowSum = {0, 0, 1, 0}, kRowProduct = {0, 0, 0, 1};
inline constexpr std::size_t kMostTerms = 8;

// a * b, or a / b with `sign` -1.
Monomial product(const Monomial& a, const Monomial& b, int sign = 1);
Polynomial times(const Polynomial& a, double factor);

// e / l
bool is_probability(const Polynomial& value);
// The factor c of c * (e s / l - e r / l^2), the gradient of the scores; zero when it is something
// else. Coefficients are equal to a thousandth: they come from constants that were rounded.
double score_gradient_scale(const Polynomial& value);

}  // namespace plimsoll::passes
