// SPDX-License-Identifier: Apache-2.0
// Normalizations and dropout.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"
#include "runtime/import/onnx/ops/uniform.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Opcode;

Sizes range(std::int64_t first, std::int64_t last) {
  Sizes made(at(std::max<std::int64_t>(last - first, 0)));
  std::iota(made.begin(), made.end(), first);
  return made;
}

// A vector along the channels, the dim behind the batch.
Array channel(NodeContext& n, const Array& x, const Array& vector) {
  return n.e.along(vector, std::max(x.rank(), 2), 1);
}

struct Normal {
  Array value, mean, inverse_deviation;
};

Normal normalize(Emit& e, const Array& x, const Sizes& axes, double epsilon) {
  const Array mean = e.mean(x, axes, true);
  const Array centered = x - mean;
  const Array variance = e.mean(centered * centered, axes, true);
  const Array inverse = 1.0 / sqrt(variance + epsilon);
  return {centered * inverse, mean, inverse};
}

void batch_normalization(NodeContext& n) {
  const Array x = n.in(0), scale = n.in(1), bias = n.in(2), mean = n.in(3), variance = n.in(4);
  const double epsilon = n.real("epsilon", 1e-5F);
  const bool trains = n.number("training_mode", 0) != 0;
  if (!trains) {
    const Array factor = scale / sqrt(variance + epsilon);
    const Array made = (x - channel(n, x, n.e.convert(mean, x.dtype()))) *
                           channel(n, x, n.e.convert(factor, x.dtype())) +
                       channel(n, x, n.e.convert(bias, x.dtype()));
    return n.set(0, made);
  }
  const double momentum = n.real("momentum", 0.9F);
  Sizes axes = range(0, x.rank());
  if (axes.size() < 2) return n.e.fail("takes arrays of rank 2 and more");
  axes.erase(axes.begin() + 1);
  const Array own_mean = n.e.mean(x, axes, false);
  const Array centered = x - channel(n, x, own_mean);
  const Array own_variance = n.e.mean(centered * centered, axes, false);
  const Array factor = scale / sqrt(own_variance + epsilon);
  n.set(0, centered * channel(n, x, factor) + channel(n, x, bias));
  n.set(1, mean * momentum + own_mean * (1 - momentum));
  n.set(2, variance * momentum + own_variance * (1 - momentum));
}

void instance_normalization(NodeContext& n) {
  const Array x = n.in(0);
  const Normal normal = normalize(n.e, x, range(2, x.rank()), n.real("epsilon", 1e-5F));
  n.set(0, normal.value * channel(n, x, n.in(1)) + channel(n, x, n.in(2)));
}

void layer_normalization(NodeContext& n) {
  const Array given = n.in(0);
  const std::int64_t axis = n.e.axis(n.number("axis", -1), given.rank());
  const DType stash = n.dtype("stash_type", 1);
  const DType inner = given.dtype() == DType::f64 ? DType::f64 : stash;
  const Array x = n.e.convert(given, inner);
  const Normal normal = normalize(n.e, x, range(axis, x.rank()), n.real("epsilon", 1e-5F));
  Array made = n.e.convert(normal.value, given.dtype()) * n.in(1);
  if (n.has(2)) made = made + n.in(2);
  n.set(0, made);
  n.set(1, normal.mean);
  n.set(2, normal.inverse_deviation);
}

void rms_normalization(NodeContext& n) {
  const Array given = n.in(0);
  const std::int64_t axis = n.e.axis(n.number("axis", -1), given.rank());
  const DType stash = given.dtype() == DType::f64 ? DType::f64 : n.dtype("stash_type", 1);
  const Array x = n.e.convert(given, stash);
  const Array mean = n.e.mean(x * x, range(axis, x.rank()), true);
  const Array made = x / sqrt(mean + n.real("epsilon", 1e-5F));
  n.set(0, n.e.convert(made, given.dtype()) * n.in(1));
}

// From opset 21 on scale and bias have a number for each channel, before for each group.
void group_normalization(NodeContext& n) {
  const Array x = n.in(0);
  const std::int64_t groups = n.number("num_groups", 0);
  if (x.rank() < 2 || groups < 1 || x.dim(1) % groups != 0) {
    return n.wrong("num_groups", fmt::format("is {}, the input has {} channels", groups, x.dim(1)));
  }
  Sizes dims = x.dims();
  dims[1] /= groups;
  dims.insert(dims.begin() + 1, groups);
  const Normal normal =
      normalize(n.e, n.e.reshape(x, dims), range(2, std::ssize(dims)), n.real("epsilon", 1e-5F));
  const auto each = [&](const Array& vector) {
    if (vector.element_count() == x.dim(1)) return vector;
    const Sizes both{groups, x.dim(1) / groups};
    return n.e.reshape(n.e.broadcast(vector, both, {0}), {x.dim(1)});
  };
  n.set(0, n.e.reshape(normal.value, x.dims()) * channel(n, x, each(n.in(1))) +
               channel(n, x, each(n.in(2))));
}

void norm_normalization(NodeContext& n) {
  const Array x = n.in(0);
  const std::int64_t axis = n.e.axis(n.number("axis", -1), x.rank()), p = n.number("p", 2);
  if (p != 1 && p != 2) return n.wrong("p", fmt::format("is {} (must be 1 or 2)", p));
  const Array norm = p == 1 ? n.e.sum(abs(x), {axis}, true) : sqrt(n.e.sum(x * x, {axis}, true));
  n.set(0, x / norm);
}

void mean_variance_normalization(NodeContext& n) {
  const Array x = n.in(0);
  Sizes axes = n.numbers("axes", {0, 2, 3});
  for (std::int64_t& axis : axes) axis = n.e.axis(axis, x.rank(), "axes");
  const Array centered = x - n.e.mean(x, axes, true);
  n.set(0, centered / (sqrt(n.e.mean(centered * centered, axes, true)) + 1e-9));
}

// Each element by the squares of its neighbours among the channels.
void local_response_normalization(NodeContext& n) {
  const Array x = n.in(0);
  const std::int64_t size = n.number("size", 0);
  if (size < 1 || size > (1 << 20) || x.rank() < 2) return n.wrong("size", "is missing or wrong");
  std::vector<ir::WindowDimension> window(at(x.rank()));
  window[1].size = size;
  window[1].padding_low = (size - 1) / 2;
  window[1].padding_high = size - 1 - (size - 1) / 2;
  const Array sums = n.e.reduce_window(Opcode::add, x * x, window);
  const double alpha = n.real("alpha", 1e-4F), beta = n.real("beta", 0.75);
  const Array base = sums * (alpha / static_cast<double>(size)) + n.real("bias", 1);
  n.set(0, x / n.e.binary(Opcode::power, base, n.e.scalar(beta, x.dtype())));
}

// At inference nothing is dropped; in training what uniform numbers say.
void dropout(NodeContext& n) {
  const Array x = n.in(0);
  const bool trains = n.has(2) && n.integer(2, "training_mode") != 0;
  if (trains) {
    const Array ratio =
        n.has(1) ? n.e.convert(n.e.reshape(n.in(1), {}), DType::f32) : n.e.scalar(0.5, DType::f32);
    const Array is_kept = n.e.compare(ir::ComparisonDirection::ge, uniform(n, x.dims(), 0), ratio);
    const Array scaled = n.e.convert(n.e.convert(x, DType::f32) / (1.0 - ratio), x.dtype());
    n.set(0, n.e.select(is_kept, scaled, n.e.scalar(0, x.dtype())));
    return n.set(1, is_kept);
  }
  n.set(0, n.value(0));
  // Before opset 10 the mask has the dtype of the data.
  n.set(1, n.e.splat(1, n.opset < 10 ? x.dtype() : DType::pred, x.dims()));
}

}  // namespace

void add_normalizations(OpTable& t) {
  t["BatchNormalization"] = {batch_normalization};
  t["InstanceNormalization"] = {instance_normalization};
  t["LayerNormalization"] = {layer_normalization};
  t["RMSNormalization"] = {rms_normalization};
  t["GroupNormalization"] = {group_normalization};
  t["LpNormalization"] = {norm_normalization};
  t["MeanVarianceNormalization"] = {mean_variance_normalization};
  t["LRN"] = {local_response_normalization};
  t["Dropout"] = {dropout, false};
}

}  // namespace plimsoll::onnx
