// SPDX-License-Identifier: Apache-2.0
// Steps of optimizers (ai.onnx.preview.training): R, T, then all X, all gradients, all states.
#include <fmt/format.h>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Opcode;

struct Step {
  Array rate, count;
  int tensors = 0;
};

// `each`: inputs a tensor has.
Step step_of(NodeContext& n, int each) {
  Step step;
  step.tensors = (n.input_count() - 2) / each;
  if (n.input_count() < 2 + each || (n.input_count() - 2) % each != 0) {
    n.e.fail(fmt::format("has {} inputs (must have 2 and {} a tensor)", n.input_count(), each));
    step.tensors = 0;
    return step;
  }
  step.rate = n.e.reshape(n.in(0), {});
  step.count = n.e.reshape(n.in(1), {});
  return step;
}

Array power(Emit& e, double base, const Array& exponent) {
  return e.binary(Opcode::power, e.scalar(base, exponent.dtype()), exponent);
}

void adagrad(NodeContext& n) {
  const Step step = step_of(n, 3);
  const double norm = n.real("norm_coefficient", 0), epsilon = n.real("epsilon", 1e-6F);
  for (int i = 0; i < step.tensors; ++i) {
    const Array x = n.in(2 + i), h = n.in(2 + 2 * step.tensors + i);
    const Array rate =
        step.rate / (n.e.convert(step.count, step.rate.dtype()) * n.real("decay_factor", 0) + 1.0);
    const Array gradient = n.in(2 + step.tensors + i) + x * norm;
    const Array next = h + gradient * gradient;
    n.set(i, x - rate * gradient / (sqrt(next) + epsilon));
    n.set(step.tensors + i, next);
  }
}

void adam(NodeContext& n) {
  const Step step = step_of(n, 4);
  const double alpha = n.real("alpha", 0.9F), beta = n.real("beta", 0.999F);
  const double epsilon = n.real("epsilon", 1e-6F), norm = n.real("norm_coefficient", 0);
  const int count = step.tensors;
  for (int i = 0; i < count; ++i) {
    const Array x = n.in(2 + i), v = n.in(2 + 2 * count + i), h = n.in(2 + 3 * count + i);
    const Array gradient = n.in(2 + count + i) + x * norm;
    const Array next_v = v * alpha + gradient * (1 - alpha);
    const Array next_h = h * beta + gradient * gradient * (1 - beta);
    const Array turn = n.e.convert(step.count, step.rate.dtype());
    const Array corrected =
        step.rate * sqrt(1.0 - power(n.e, beta, turn)) / (1.0 - power(n.e, alpha, turn));
    const Array rate = n.e.select(turn > 0, corrected, step.rate);
    n.set(i, (x - rate * next_v / (sqrt(next_h) + epsilon)) *
                 (1 - n.real("norm_coefficient_post", 0)));
    n.set(count + i, next_v);
    n.set(2 * count + i, next_h);
  }
}

void momentum(NodeContext& n) {
  const Step step = step_of(n, 3);
  const double alpha = n.real("alpha", 0), beta = n.real("beta", 0);
  const std::string mode = n.text("mode", "standard");
  for (int i = 0; i < step.tensors; ++i) {
    const Array x = n.in(2 + i), v = n.in(2 + 2 * step.tensors + i);
    const Array gradient = n.in(2 + step.tensors + i) + x * n.real("norm_coefficient", 0);
    const Array is_later =
        n.e.compare(ir::ComparisonDirection::gt, step.count, n.e.scalar(0, step.count.dtype()));
    const Array share = n.e.select(is_later, n.e.scalar(beta, x.dtype()), n.e.scalar(1, x.dtype()));
    const Array next = v * alpha + gradient * share;
    n.set(i, x - step.rate * (mode == "nesterov" ? gradient + next * alpha : next));
    n.set(step.tensors + i, next);
  }
}

}  // namespace

void add_training(OpTable& t) {
  t["ai.onnx.preview.training:Adagrad"] = {adagrad};
  t["ai.onnx.preview.training:Adam"] = {adam};
  t["ai.onnx.preview.training:Momentum"] = {momentum};
}

}  // namespace plimsoll::onnx
