// SPDX-License-Identifier: Apache-2.0
// What combines elements along axes: reductions, their places, running sums, the softmax family.
#include <fmt/format.h>
#include <algorithm>
#include <numeric>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"
#include "runtime/import/onnx/ops/softmax.h"

namespace plimsoll::onnx {
namespace {

using ir::ComparisonDirection;
using ir::DType;
using ir::Opcode;

struct Reduced {
  Sizes axes;
  bool keeps = true;
};

Reduced axes_of(NodeContext& n, int rank) {
  Reduced reduced;
  Sizes axes = n.numbers("axes");
  if (n.has(1)) axes = n.integers(1, "axes");
  reduced.keeps = n.number("keepdims", 1) != 0;
  if (axes.empty() && n.number("noop_with_empty_axes", 0) == 0) {
    axes.resize(at(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (std::int64_t& axis : axes) axis = n.e.axis(axis, rank, "axes");
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  reduced.axes = std::move(axes);
  return reduced;
}

using Reduction = std::function<Array(Emit&, const Array&, const Sizes&, bool)>;

// Over no axes, too, each element becomes what the reduction makes of one.
Handler reduction(const Reduction& reduce) {
  return [reduce](NodeContext& n) {
    const Array x = n.in(0);
    const Reduced reduced = axes_of(n, x.rank());
    n.set(0, reduce(n.e, x, reduced.axes, reduced.keeps));
  };
}

Reduction by(Opcode opcode) {
  return [opcode](Emit& e, const Array& x, const Sizes& axes, bool keeps) {
    if (x.dtype() == DType::pred) {  // false before true
      const Opcode bits = opcode == Opcode::maximum ? Opcode::or_ : Opcode::and_;
      return e.reduce(bits, x, axes, keeps);
    }
    return e.reduce(opcode, x, axes, keeps);
  };
}

Array log_sum_exp(Emit& e, const Array& x, const Sizes& axes, bool keeps) {
  const Array greatest = e.reduce(Opcode::maximum, x, axes, true);
  const Array shift =
      e.select(e.unary(Opcode::is_finite, greatest), greatest, e.scalar(0, x.dtype()));
  const Array made = log(e.sum(exp(x - shift), axes, true)) + shift;
  if (keeps) return made;
  Sizes dims;
  for (int i = 0; i < x.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) dims.push_back(x.dim(i));
  }
  return e.reshape(made, dims);
}

// Of integers by way of f64.
Reduction in_floats(const Reduction& reduce) {
  return [reduce](Emit& e, const Array& x, const Sizes& axes, bool keeps) {
    if (x.is_null() || ir::is_floating(x.dtype())) return reduce(e, x, axes, keeps);
    return e.convert(reduce(e, e.convert(x, DType::f64), axes, keeps), x.dtype());
  };
}

// The first place of the extreme along the axis, or the last; NaN is the extreme where there is
// one.
Handler place_of(Opcode opcode) {
  return [opcode](NodeContext& n) {
    const Array x = n.in(0);
    const std::int64_t axis = n.e.axis(n.number("axis", 0), x.rank());
    const bool is_last = n.number("select_last_index", 0) != 0;
    const Array extreme = n.e.reduce(opcode, x, {axis}, true);
    const Array here = (x == extreme) | n.e.compare(ComparisonDirection::ne, x, x);
    const Array places = n.e.iota(DType::s64, x.dims(), axis);
    const Array outside = is_last ? n.e.lowest(DType::s64) : n.e.highest(DType::s64);
    n.set(0, n.e.reduce(is_last ? Opcode::maximum : Opcode::minimum,
                        n.e.select(here, places, outside), {axis}, n.number("keepdims", 1) != 0));
  };
}

// Sums of 2, 4, 8, ... elements up to each place: as many additions as the axis has bits.
void running_sum(NodeContext& n) {
  Array x = n.in(0);
  const std::int64_t axis = n.e.axis(n.integer(1, "axis"), x.rank());
  const bool reverses = n.number("reverse", 0) != 0, excludes = n.number("exclusive", 0) != 0;
  const std::int64_t size = x.dim(axis);
  if (reverses) x = n.e.reverse(x, {axis});
  const Array zero = n.e.scalar(0, x.dtype());
  const auto moved = [&](const Array& a, std::int64_t by) {
    std::vector<ir::PaddingDimension> padding(at(a.rank()));
    padding[at(axis)] = {by, -by, 0};
    return n.e.pad(a, zero, padding);
  };
  if (x.rank() == 0) return n.e.fail("a scalar has no axis");
  if (excludes && size > 0) x = moved(x, 1);
  for (std::int64_t by = 1; by < size && !x.is_null(); by *= 2) x = x + moved(x, by);
  n.set(0, reverses ? n.e.reverse(x, {axis}) : x);
}

void top_k(NodeContext& n) {
  const Array x = n.in(0);
  const std::int64_t axis = n.e.axis(n.number("axis", -1), x.rank());
  const std::int64_t k = n.opset < 10 ? n.number("k", 1) : n.integer(1, "K");
  if (k < 0 || k > x.dim(axis)) {
    return n.e.fail(fmt::format("K is {} (must be in [0, {}])", k, x.dim(axis)));
  }
  Sizes order(at(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  if (!order.empty()) std::swap(order[at(axis)], order.back());
  const Array turned = n.e.transpose(x, order);
  const auto kept = n.e.top_k(turned, k, n.number("largest", 1) != 0);
  n.set(0, n.e.transpose(kept[0], order));
  n.set(1, n.e.transpose(n.e.convert(kept[1], DType::s64), order));
}

// Before opset 13 all dims from the axis on are one.
Handler over_axis(const std::function<Array(Emit&, const Array&, std::int64_t)>& f) {
  return [f](NodeContext& n) {
    const Array x = n.in(0);
    const bool is_flat = n.opset < 13;
    const std::int64_t axis = n.e.axis(n.number("axis", is_flat ? 1 : -1), x.rank());
    if (!is_flat) return n.set(0, f(n.e, x, axis));
    const Sizes dims = x.dims();
    const std::int64_t rows =
        product(std::span(dims).first(at(std::min<std::int64_t>(axis, std::ssize(dims)))));
    const std::int64_t columns = rows > 0 ? x.element_count() / rows : 1;
    n.set(0, n.e.reshape(f(n.e, n.e.reshape(x, {rows, columns}), 1), dims));
  };
}

Array hardmax(Emit& e, const Array& x, std::int64_t axis) {
  const Array greatest = e.reduce(Opcode::maximum, x, {axis}, true);
  const Array places = e.iota(DType::s64, x.dims(), axis);
  const Array first = e.reduce(
      Opcode::minimum, e.select(x == greatest, places, e.highest(DType::s64)), {axis}, true);
  return e.convert(places == first, x.dtype());
}

}  // namespace

Array softmax(Emit& e, const Array& x, std::int64_t axis) {
  const Array shifted = exp(x - e.reduce(Opcode::maximum, x, {axis}, true));
  return shifted / e.sum(shifted, {axis}, true);
}

Array log_softmax(Emit& e, const Array& x, std::int64_t axis) {
  const Array shifted = x - e.reduce(Opcode::maximum, x, {axis}, true);
  return shifted - log(e.sum(exp(shifted), {axis}, true));
}

void add_reductions(OpTable& t) {
  t["ReduceSum"] = {reduction(by(Opcode::add))};
  t["ReduceProd"] = {reduction(by(Opcode::multiply))};
  t["ReduceMax"] = {reduction(by(Opcode::maximum))};
  t["ReduceMin"] = {reduction(by(Opcode::minimum))};
  t["ReduceMean"] = {reduction([](Emit& e, const Array& x, const Sizes& axes, bool keeps) {
    return e.mean(x, axes, keeps);
  })};
  t["ReduceL1"] = {reduction([](Emit& e, const Array& x, const Sizes& axes, bool keeps) {
    return e.sum(abs(x), axes, keeps);
  })};
  t["ReduceL2"] = {reduction(in_floats([](Emit& e, const Array& x, const Sizes& axes, bool keeps) {
    return sqrt(e.sum(x * x, axes, keeps));
  }))};
  t["ReduceSumSquare"] = {reduction([](Emit& e, const Array& x, const Sizes& axes, bool keeps) {
    return e.sum(x * x, axes, keeps);
  })};
  t["ReduceLogSum"] = {reduction(in_floats([](Emit& e, const Array& x, const Sizes& axes,
                                              bool keeps) { return log(e.sum(x, axes, keeps)); }))};
  t["ReduceLogSumExp"] = {reduction(in_floats(log_sum_exp))};
  t["ArgMax"] = {place_of(Opcode::maximum)};
  t["ArgMin"] = {place_of(Opcode::minimum)};
  t["CumSum"] = {running_sum};
  t["TopK"] = {top_k};
  t["Softmax"] = {over_axis(softmax)};
  t["LogSoftmax"] = {over_axis(log_softmax)};
  t["Hardmax"] = {over_axis(hardmax)};
}

}  // namespace plimsoll::onnx
