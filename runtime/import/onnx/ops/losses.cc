// SPDX-License-Identifier: Apache-2.0
// Losses of classifications.
#include <fmt/format.h>
#include <numeric>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"
#include "runtime/import/onnx/ops/softmax.h"

namespace plimsoll::onnx {
namespace {

// -log_probabilities[n, target, ...], weighted by the class, and reduced as the node says.
Array likelihood_loss(NodeContext& n, const Array& log_probabilities, const Array& target,
                      const Array& weight) {
  const Array& x = log_probabilities;
  if (x.rank() < 2 || target.rank() != x.rank() - 1) {
    n.e.fail(fmt::format("scores of rank {} with targets of rank {}", x.rank(), target.rank()));
    return {};
  }
  const bool ignores = n.attribute("ignore_index") != nullptr;
  const auto ignored = static_cast<double>(n.number("ignore_index", 0));
  const Array is_ignored = target == ignored;
  const Array zero = n.e.scalar(0, target.dtype());
  const Array place = ignores ? n.e.select(is_ignored, zero, target) : target;
  Array loss = -n.e.squeeze(n.e.take_along(x, n.e.unsqueeze(place, 1), 1), 1);
  Array weights =
      weight.is_null() ? n.e.splat(1, x.dtype(), target.dims()) : n.e.take(weight, place, 0);
  if (ignores) weights = n.e.select(is_ignored, n.e.scalar(0, x.dtype()), weights);
  loss = loss * weights;
  const std::string reduction = n.text("reduction", "mean");
  if (reduction == "none") return loss;
  Sizes axes(at(loss.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  const Array total = n.e.sum(loss, axes, false);
  if (reduction == "sum") return total;
  if (reduction != "mean") n.wrong("reduction", "is '" + reduction + "'");
  return total / n.e.sum(weights, axes, false);
}

void negative_log_likelihood(NodeContext& n) {
  n.set(0, likelihood_loss(n, n.in(0), n.in(1), n.has(2) ? n.in(2) : Array()));
}

void softmax_cross_entropy(NodeContext& n) {
  const Array probabilities = log_softmax(n.e, n.in(0), 1);
  n.set(0, likelihood_loss(n, probabilities, n.in(1), n.has(2) ? n.in(2) : Array()));
  n.set(1, probabilities);
}

}  // namespace

void add_losses(OpTable& t) {
  t["NegativeLogLikelihoodLoss"] = {negative_log_likelihood};
  t["SoftmaxCrossEntropyLoss"] = {softmax_cross_entropy};
}

}  // namespace plimsoll::onnx
