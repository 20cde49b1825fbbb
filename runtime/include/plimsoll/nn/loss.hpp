// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/nn/module.hpp"

namespace plimsoll::nn {

// The mean of -log softmax(logits)[label] over all examples; logits are [..., classes], labels
// integers shaped [...]. `smoothing` moves that share of the target evenly to all classes.
inline Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double smoothing = 0) {
  const Tensor log_probability = log_softmax(logits);
  const Tensor chosen = one_hot(labels, logits.dim(-1), DType::pred);
  const double examples = static_cast<double>(logits.size()) / static_cast<double>(logits.dim(-1));
  const Tensor loss = sum(where(chosen, log_probability, 0.0)) * (-1.0 / examples);
  if (smoothing == 0) return loss;
  return loss * (1.0 - smoothing) - smoothing * mean(log_probability);
}

inline Tensor mean_squared_error(const Tensor& x, const Tensor& target) {
  return mean(square(x - target));
}

class CrossEntropyLoss {
 public:
  explicit CrossEntropyLoss(double smoothing = 0) : smoothing_(smoothing) {}
  Tensor operator()(const Tensor& logits, const Tensor& labels) const {
    return cross_entropy(logits, labels, smoothing_);
  }

 private:
  double smoothing_;
};

}  // namespace plimsoll::nn
