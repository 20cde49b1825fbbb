// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/attention/softmax_polynomial.h"

#include <cmath>

namespace plimsoll::passes {
namespace {

bool near(double a, double b) { return std::abs(a - b) <= 1e-3 * std::abs(b); }

}  // namespace

Monomial product(const Monomial& a, const Monomial& b, int sign) {
  Monomial result = a;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] += sign * b[i];
  return result;
}

Polynomial times(const Polynomial& a, double factor) {
  Polynomial result = a;
  for (auto& [monomial, coefficient] : result) coefficient *= factor;
  return result;
}

bool is_probability(const Polynomial& value) {
  return value.size() == 1 && value.begin()->first == Monomial{1, 0, -1, 0} &&
         near(value.begin()->second, 1);
}

double score_gradient_scale(const Polynomial& value) {
  const auto first = value.find({1, 1, -1, 0}), second = value.find({1, 0, -2, 1});
  if (value.size() != 2 || first == value.end() || second == value.end() ||
      !near(-second->second, first->second)) {
    return 0;
  }
  return first->second;
}

}  // namespace plimsoll::passes
