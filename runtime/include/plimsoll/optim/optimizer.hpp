// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "plimsoll/ops.hpp"

namespace plimsoll::optim {

// Moves parameters along their gradients. Rates and counts are inputs of the compiled step, so that
// changing them never compiles anything anew.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  double learning_rate() const { return learning_rate_; }
  void set_learning_rate(double rate) { learning_rate_ = rate; }
  std::int64_t step_count() const { return steps_; }

  // Records the update of every parameter that has a gradient, clears the gradients, cuts the trace
  // and returns while it runs. Where no plan fits the limit it throws resource_exhausted with the
  // update recorded and pending: Context::step() under a higher limit goes on from there.
  void step() {
    record_step();
    if (parameters_.empty()) return;
    internal::check(plm_step(plm_tensor_context(parameters_[0].require("step"))));
  }
  // The same without the cut.
  void record_step() {
    ++steps_;
    update();
    clear_gradients();
  }
  void clear_gradients() {
    for (Tensor& parameter : parameters_) parameter.clear_grad();
  }

  const std::vector<Tensor>& parameters() const { return parameters_; }
  // The optimizer's own state, in an order that doesn't vary.
  virtual std::vector<Tensor> state() const = 0;

 protected:
  Optimizer(std::vector<Tensor> parameters, double learning_rate)
      : parameters_(std::move(parameters)), learning_rate_(learning_rate) {}

  virtual void update() = 0;

  std::vector<Tensor>& mutable_parameters() { return parameters_; }

  // Zeros shaped like the parameters, in device memory together with these: the first step is the
  // same program as all later ones.
  std::vector<Tensor> make_state() const {
    std::vector<Tensor> state;
    for (const Tensor& parameter : parameters_) {
      state.push_back(
          zeros(Dims(parameter.dims().begin(), parameter.dims().end()), parameter.dtype()));
    }
    std::vector<Tensor> together = state;
    together.insert(together.end(), parameters_.begin(), parameters_.end());
    eval(together);
    return state;
  }

 private:
  std::vector<Tensor> parameters_;
  double learning_rate_;
  std::int64_t steps_ = 0;
};

// Scales all gradients together so that their norm is at most `max_norm`; gives the norm before, in
// f32, or in f64 where a gradient is. Gradients keep their dtypes.
inline Tensor clip_grad_norm(std::vector<Tensor> parameters, double max_norm) {
  DType wide = DType::f32;
  for (const Tensor& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (gradient.defined() && gradient.dtype() == DType::f64) wide = DType::f64;
  }
  Tensor total;
  for (const Tensor& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const Tensor squares = sum(square(convert(gradient, wide)));
    total = total.defined() ? total + squares : squares;
  }
  if (!total.defined()) return Tensor::scalar(0);
  const Tensor norm = sqrt(total);
  const Tensor scale = minimum(max_norm / (norm + 1e-6), 1.0);
  for (Tensor& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    parameter.set_grad(convert(convert(gradient, wide) * scale, gradient.dtype()));
  }
  return norm;
}

}  // namespace plimsoll::optim
