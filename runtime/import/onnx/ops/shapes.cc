// SPDX-License-Identifier: Apache-2.0
// Operators about shapes, and values made of nothing but them.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/index.h"
#include "runtime/import/onnx/model/tensors.h"
#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Literal;

Value known_numbers(const Sizes& values) {
  return Value::of(Literal::array<std::int64_t>({std::ssize(values)}, values));
}

Sizes dims_of(NodeContext& n, int i) {
  const Value& given = n.value(i);
  if (given.known != nullptr) return given.known->shape().dims().to_vector();
  return n.in(i).dims();
}

void shape(NodeContext& n) {
  Sizes dims = dims_of(n, 0);
  const std::int64_t rank = std::ssize(dims);
  const auto bound = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t first = bound(n.number("start", 0)), last = bound(n.number("end", rank));
  if (first >= last) return n.set(0, known_numbers({}));
  n.set(0, known_numbers({dims.begin() + first, dims.begin() + last}));
}

void size(NodeContext& n) {
  n.set(0, Value::of(Literal::scalar<std::int64_t>(product(dims_of(n, 0)))));
}

void constant(NodeContext& n) {
  for (const Attribute& one : n.node.attributes) {
    const Attribute* const given = n.attribute(one.name);
    if (given == nullptr) continue;
    if (one.name == "value") {
      auto literal = n.translator.read_tensor(given->tensor);
      if (!literal.ok()) return n.e.fail(literal.status());
      return n.set(0, Value::of(std::move(*literal)));
    }
    if (one.name == "value_int") return n.set(0, Value::of(Literal::scalar(given->number)));
    if (one.name == "value_ints") return n.set(0, known_numbers(given->numbers));
    if (one.name == "value_float") return n.set(0, Value::of(Literal::scalar(given->real)));
    if (one.name == "value_floats") {
      return n.set(0, Value::of(Literal::array<float>({std::ssize(given->reals)}, given->reals)));
    }
  }
  n.e.fail(unimplemented("a constant that is no tensor of numbers"));
}

void constant_of_shape(NodeContext& n) {
  const Sizes dims = n.integers(0, "shape");
  Array value;
  if (const Attribute* const given = n.attribute("value"); given != nullptr) {
    auto literal = n.translator.read_tensor(given->tensor);
    if (!literal.ok()) return n.e.fail(literal.status());
    value = n.e.reshape(n.e.constant(std::move(*literal)), {});
  } else {
    value = n.e.scalar(0, DType::f32);
  }
  if (product(dims) < 0) {
    return n.e.fail(fmt::format("the shape [{}] has no size", fmt::join(dims, ",")));
  }
  n.set(0, n.e.broadcast_to(value, dims));
}

void reshape(NodeContext& n) {
  const Array x = n.in(0);
  Sizes dims = n.opset < 5 ? n.numbers("shape") : n.integers(1, "shape");
  const bool allows_zero = n.number("allowzero", 0) != 0;
  std::int64_t rest = -1, others = 1;
  for (std::int64_t i = 0; i < std::ssize(dims); ++i) {
    std::int64_t& dim = dims[at(i)];
    if (dim == 0 && !allows_zero) {
      if (i >= x.rank()) return n.e.fail("keeps (0) a dimension that the input has not");
      dim = x.dim(i);
    }
    if (dim == -1 && rest >= 0) return n.e.fail("leaves (-1) two sizes open");
    if (dim == -1) rest = i;
    if (dim != -1 && (dim < 0 || __builtin_mul_overflow(others, dim, &others))) {
      return n.e.fail(fmt::format("the shape [{}] has no size", fmt::join(dims, ",")));
    }
  }
  if (rest >= 0) dims[at(rest)] = others == 0 ? 0 : x.element_count() / others;
  if (!x.is_null() && product(dims) != x.element_count()) {
    return n.e.fail(fmt::format("{} does not fill [{}]", x.instruction()->shape().to_string(),
                                fmt::join(dims, ",")));
  }
  n.set(0, n.e.reshape(x, dims));
}

void flatten_node(NodeContext& n) {
  const Array x = n.in(0);
  const Sizes dims = x.dims();
  std::int64_t axis = n.number("axis", 1);
  if (axis < 0) axis += x.rank();
  if (axis < 0 || axis > x.rank()) return n.wrong("axis", "names no dimension");
  const auto first = std::span(dims).first(at(axis)), last = std::span(dims).subspan(at(axis));
  n.set(0, n.e.reshape(x, {product(first), product(last)}));
}

Sizes axes_of(NodeContext& n) { return n.has(1) ? n.integers(1, "axes") : n.numbers("axes"); }

void squeeze(NodeContext& n) {
  const Array x = n.in(0);
  Sizes axes = axes_of(n);
  if (axes.empty()) {
    for (int i = 0; i < x.rank(); ++i) {
      if (x.dim(i) == 1) axes.push_back(i);
    }
  }
  Sizes dims;
  for (std::int64_t& axis : axes) axis = n.e.axis(axis, x.rank(), "axes");
  for (int i = 0; i < x.rank(); ++i) {
    const bool goes = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (goes && x.dim(i) != 1) {
      return n.e.fail(
          fmt::format("squeezes dimension {} of {}", i, x.instruction()->shape().to_string()));
    }
    if (!goes) dims.push_back(x.dim(i));
  }
  n.set(0, n.e.reshape(x, dims));
}

void unsqueeze(NodeContext& n) {
  const Array x = n.in(0);
  Sizes axes = axes_of(n);
  const std::int64_t rank = x.rank() + std::ssize(axes);
  for (std::int64_t& axis : axes) axis = n.e.axis(axis, rank, "axes");
  std::sort(axes.begin(), axes.end());
  Sizes dims = x.dims();
  for (const std::int64_t axis : axes) {
    if (axis > std::ssize(dims)) return n.e.fail("axes name a dimension twice");
    dims.insert(dims.begin() + axis, 1);
  }
  n.set(0, n.e.reshape(x, dims));
}

void expand(NodeContext& n) {
  const Array x = n.in(0);
  Sizes dims = n.integers(1, "shape");
  while (std::ssize(dims) < x.rank()) dims.insert(dims.begin(), 1);
  const std::int64_t skip = std::ssize(dims) - x.rank();
  for (std::int64_t i = 0; i < x.rank(); ++i) {
    if (dims[at(i + skip)] == 1) dims[at(i + skip)] = x.dim(i);
  }
  if (product(dims) < 0) return n.e.fail("the shape has no size");
  n.set(0, n.e.broadcast_to(x, dims));
}

void range_node(NodeContext& n) {
  const auto start = n.reals(0, "start"), limit = n.reals(1, "limit"), step = n.reals(2, "delta");
  if (start.size() != 1 || limit.size() != 1 || step.size() != 1 || step[0] == 0) {
    return n.e.fail("start, limit and delta must be one number each, delta not 0");
  }
  const double count = std::max(std::ceil((limit[0] - start[0]) / step[0]), 0.0);
  if (!(count < 0x1p40)) return n.e.fail("a range without end");
  const Array places = n.e.iota(n.in(0).dtype(), {static_cast<std::int64_t>(count)}, 0);
  n.set(0, n.e.reshape(n.in(0), {}) + places * n.e.reshape(n.in(2), {}));
}

void eye_like(NodeContext& n) {
  const Array x = n.in(0);
  if (x.rank() != 2) return n.e.fail("takes a matrix");
  const DType dtype = n.attribute("dtype") == nullptr ? x.dtype() : n.dtype("dtype", 1);
  const Array rows = n.e.iota(DType::s64, x.dims(), 0), columns = n.e.iota(DType::s64, x.dims(), 1);
  const Array shifted = rows + static_cast<double>(n.number("k", 0));
  n.set(0, n.e.convert(shifted == columns, dtype));
}

void triangle(NodeContext& n) {
  const Array x = n.in(0);
  if (x.rank() < 2) return n.e.fail("takes a matrix");
  const Array k =
      n.has(1) ? n.e.convert(n.e.reshape(n.in(1), {}), DType::s64) : n.e.scalar(0, DType::s64);
  const Array rows = n.e.iota(DType::s64, x.dims(), x.rank() - 2);
  const Array columns = n.e.iota(DType::s64, x.dims(), x.rank() - 1);
  const auto direction =
      n.number("upper", 1) != 0 ? ir::ComparisonDirection::ge : ir::ComparisonDirection::le;
  n.set(0, n.e.select(n.e.compare(direction, columns - rows, k), x, n.e.scalar(0, x.dtype())));
}

}  // namespace

void add_shapes(OpTable& t) {
  t["Shape"] = {shape, false};
  t["Size"] = {size, false};
  t["Constant"] = {constant, false};
  t["ConstantOfShape"] = {constant_of_shape};
  t["Identity"] = {[](NodeContext& n) { n.set(0, n.value(0)); }, false};
  t["Reshape"] = {reshape};
  t["Flatten"] = {flatten_node};
  t["Squeeze"] = {squeeze};
  t["Unsqueeze"] = {unsqueeze};
  t["Expand"] = {expand};
  t["Range"] = {range_node};
  t["EyeLike"] = {eye_like};
  t["Trilu"] = {triangle};
}

}  // namespace plimsoll::onnx
