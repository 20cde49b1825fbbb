// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>

#include "plimsoll/nn/module.hpp"

namespace plimsoll::nn {

// The mean of -log softmax(logits)[label] over all examples; logits are [..., classes], labels
// integers shaped [...]. `smoothing` moves that share of the target evenly to all classes. A label
// that names no class makes the loss NaN, and adds nothing to gradients.
inline Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double smoothing = 0) {
  if (logits.rank() == 0 ||
      !std::ranges::equal(logits.dims().first(logits.dims().size() - 1), labels.dims())) {
    throw Error(ErrorCode::invalid_argument, "[cross_entropy] labels are " + labels.shape_text() +
                                                 " for logits " + logits.shape_text() +
                                                 ", must be shaped as these without classes");
  }
  if (is_floating(labels.dtype()) || labels.dtype() == DType::pred) {
    throw Error(ErrorCode::invalid_argument, "[cross_entropy] labels are " + labels.shape_text() +
                                                 ", must be integers (numbers of classes)");
  }
  const Tensor log_probability = log_softmax(logits);
  const Tensor chosen = one_hot(labels, logits.dim(-1), DType::pred);
  const double examples = static_cast<double>(logits.size()) / static_cast<double>(logits.dim(-1));
  const Tensor number = convert(labels, DType::s64);
  const Tensor known =
      all(logical_and(number >= 0.0, number < static_cast<double>(logits.dim(-1))));
  const Tensor unknown =
      where(known, Tensor::scalar(0, logits.dtype()), std::numeric_limits<double>::quiet_NaN());
  const Tensor loss =
      sum(where(chosen, log_probability, 0.0)) * (-1.0 / examples) + stop_gradient(unknown);
  if (smoothing == 0) return loss;
  return loss * (1.0 - smoothing) - smoothing * mean(log_probability);
}

// The mean of (x - target)^2, of tensors of the same shape.
inline Tensor mean_squared_error(const Tensor& x, const Tensor& target) {
  if (!std::ranges::equal(x.dims(), target.dims())) {
    throw Error(ErrorCode::invalid_argument,
                "[mean_squared_error] of " + x.shape_text() + " and " + target.shape_text() +
                    ", must be of the same shape (reshape or broadcast one of them)");
  }
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
