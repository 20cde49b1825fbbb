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
  // As if so many steps had been done, for a run that is resumed.
  void set_step_count(std::int64_t steps) { steps_ = steps; }

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
    std::vector<plm_tensor*> updated;
    for (const Tensor& parameter : parameters_) updated.push_back(parameter.handle());
    internal::tell(Context::current().state_->after_update, updated);
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

}  // namespace plimsoll::optim

namespace plimsoll::internal {

// Of all gradients, in f32, or in f64 where a gradient is; not defined() where there is none.
inline Tensor sum_of_squares(const std::vector<Tensor>& parameters) {
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
  return total;
}

// Scales the gradients, which have this norm, so that it is at most `max_norm`. They keep their
// dtypes.
inline void limit_norm(std::vector<Tensor> parameters, const Tensor& norm, double max_norm) {
  const Tensor scale = minimum(max_norm / (norm + 1e-6), 1.0);
  for (Tensor& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    parameter.set_grad(convert(convert(gradient, norm.dtype()) * scale, gradient.dtype()));
  }
}

}  // namespace plimsoll::internal

namespace plimsoll::optim {

// Scales all gradients together so that their norm is at most `max_norm`; gives the norm before, in
// f32, or in f64 where a gradient is. Gradients keep their dtypes.
inline Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm) {
  const Tensor squares = internal::sum_of_squares(parameters);
  if (!squares.defined()) return Tensor::scalar(0);
  const Tensor norm = sqrt(squares);
  internal::limit_norm(parameters, norm, max_norm);
  return norm;
}

}  // namespace plimsoll::optim
