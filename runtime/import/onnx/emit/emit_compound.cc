// SPDX-License-Identifier: Apache-2.0
// Reductions, products, choosing, loops, and operators as C++ writes them.
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/import/onnx/emit/emit.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::onnx {

using ir::Attributes;
using ir::DType;
using ir::Opcode;
using ir::Shape;

namespace {

bool is_half(DType dtype) {
  return ir::is_floating(dtype) && dtype != DType::f32 && dtype != DType::f64;
}

Array identity_of(Emit& e, Opcode opcode, DType dtype) {
  switch (opcode) {
    case Opcode::maximum:
      return e.lowest(dtype);
    case Opcode::minimum:
      return e.highest(dtype);
    case Opcode::multiply:
    case Opcode::and_:
      return e.scalar(1, dtype);
    default:
      return e.scalar(0, dtype);
  }
}

}  // namespace

Array Emit::reduce(Opcode opcode, const Array& a, const Sizes& axes, bool keeps) {
  if (!is_usable(std::array{a})) return {};
  if (is_half(a.dtype()) && opcode != Opcode::maximum && opcode != Opcode::minimum) {
    return convert(reduce(opcode, convert(a, DType::f32), axes, keeps), a.dtype());
  }
  Sizes dims = a.dims();
  for (const std::int64_t axis : axes) {
    if (axis < 0 || axis >= std::ssize(dims)) {
      fail("there is no such dim");
      return {};
    }
    dims[at(axis)] = 1;
  }
  if (axes.empty()) return a;
  Attributes attributes;
  attributes.dimensions = axes;
  std::sort(attributes.dimensions.begin(), attributes.dimensions.end());
  const Array made =
      make(Opcode::reduce, {a, identity_of(*this, opcode, a.dtype())}, std::move(attributes),
           {ir::scalar_computation(*computation_->module(), opcode, a.dtype())});
  return keeps ? reshape(made, dims) : made;
}

Array Emit::mean(const Array& a, const Sizes& axes, bool keeps) {
  if (is_half(a.dtype())) return convert(mean(convert(a, DType::f32), axes, keeps), a.dtype());
  double count = 1;
  for (const std::int64_t axis : axes) count *= static_cast<double>(a.dim(axis));
  return sum(a, axes, keeps) / count;
}

Array Emit::reduce_window(Opcode opcode, const Array& a,
                          const std::vector<ir::WindowDimension>& window) {
  if (!is_usable(std::array{a})) return {};
  if (is_half(a.dtype()) && opcode == Opcode::add) {
    return convert(reduce_window(opcode, convert(a, DType::f32), window), a.dtype());
  }
  Attributes attributes;
  attributes.window = window;
  return make(Opcode::reduce_window, {a, identity_of(*this, opcode, a.dtype())},
              std::move(attributes),
              {ir::scalar_computation(*computation_->module(), opcode, a.dtype())});
}

Array Emit::dot(const Array& a, const Array& b, const ir::DotDimensions& dims) {
  Attributes attributes;
  attributes.dot = std::make_shared<const ir::DotDimensions>(dims);
  return make(Opcode::dot, {a, b}, std::move(attributes));
}

Array Emit::matmul(const Array& a, const Array& b) {
  if (!is_usable(std::array{a, b})) return {};
  if (a.rank() == 0 || b.rank() == 0) {
    fail("a product of matrices with a scalar");
    return {};
  }
  if (b.rank() <= 2) {
    // A transposed matrix is read as it lies: weights that are tied to an embedding, mostly.
    ir::Instruction* const right = b.instruction();
    if (b.rank() == 2 && right->opcode() == ir::Opcode::transpose &&
        right->attributes().dimensions == std::vector<std::int64_t>{1, 0}) {
      return dot(a, Array(this, right->operand(0)), {{a.rank() - 1}, {1}, {}, {}});
    }
    return dot(a, b, {{a.rank() - 1}, {0}, {}, {}});
  }
  if (a.rank() == 1) return squeeze(matmul(unsqueeze(a, 0), b), b.rank() - 2);
  const int rank = std::max(a.rank(), b.rank());
  Array x = raise(a, rank), y = raise(b, rank);
  Sizes left = x.dims(), right = y.dims();
  ir::DotDimensions dims;
  for (int i = 0; i + 2 < rank; ++i) {
    const std::int64_t size = left[at(i)] == 1 ? right[at(i)] : left[at(i)];
    left[at(i)] = right[at(i)] = size;
    dims.lhs_batch.push_back(i);
    dims.rhs_batch.push_back(i);
  }
  dims.lhs_contracting = {rank - 1};
  dims.rhs_contracting = {rank - 2};
  return dot(broadcast_to(x, left), broadcast_to(y, right), dims);
}

std::vector<Array> Emit::top_k(const Array& x, std::int64_t k, bool largest) {
  if (!is_usable({&x, 1})) return {Array(), Array()};
  Attributes attributes;
  attributes.extra = {{"k", std::to_string(k)}, {"largest", largest ? "true" : "false"}};
  const Array made = make(Opcode::topk, {x}, std::move(attributes));
  return {element_of(made, 0), element_of(made, 1)};
}

Array Emit::tuple(const std::vector<Array>& elements) { return make(Opcode::tuple, elements); }

Array Emit::element_of(const Array& tuple, std::int64_t index) {
  Attributes attributes;
  attributes.tuple_index = index;
  return make(Opcode::get_tuple_element, {tuple}, std::move(attributes));
}

// `goes_on` gets the number of the turn and the first of the state.
std::vector<Array> Emit::loop(const std::vector<Array>& state, const Body& body,
                              const std::function<Array(const Array&, const Array&)>& goes_on) {
  std::vector<Array> nothing(state.size());
  if (!is_usable(state)) return nothing;
  std::vector<Array> packed{scalar(0, DType::s64)};
  packed.insert(packed.end(), state.begin(), state.end());
  const Array start = tuple(packed);
  if (start.is_null()) return nothing;
  const Shape shape = start.instruction()->shape();
  ir::Module& module = *computation_->module();

  ir::Computation* const turn = module.add_computation("turn");
  Emit inner(*turn);
  const Array all(&inner, turn->add_parameter(0, shape, "state"));
  const Array number = inner.element_of(all, 0);
  std::vector<Array> before;
  for (std::size_t i = 0; i < state.size(); ++i) {
    before.push_back(inner.element_of(all, static_cast<std::int64_t>(i) + 1));
  }
  std::vector<Array> after = body(inner, number, before);
  after.insert(after.begin(), number + 1.0);
  const Array next = inner.tuple(after);

  ir::Computation* const test = module.add_computation("goes_on");
  Emit condition(*test);
  const Array given(&condition, test->add_parameter(0, shape, "state"));
  const Array first = state.empty() ? Array() : condition.element_of(given, 1);
  const Array holds = goes_on(condition.element_of(given, 0), first);
  for (const Status& status : {inner.status(), condition.status()}) {
    if (status.ok()) continue;
    fail(status);
    return nothing;
  }
  turn->set_root(next.instruction());
  test->set_root(holds.instruction());
  const Array end = make(Opcode::while_, {start}, {}, {test, turn});
  std::vector<Array> made;
  for (std::size_t i = 0; i < state.size(); ++i) {
    made.push_back(element_of(end, static_cast<std::int64_t>(i) + 1));
  }
  return made;
}

std::vector<Array> Emit::repeat(std::int64_t count, const std::vector<Array>& state,
                                const Body& body) {
  return loop(state, body, [&](const Array& number, const Array&) {
    return number < static_cast<double>(count);
  });
}

std::vector<Array> Emit::repeat_while(const std::vector<Array>& state, const Body& body) {
  return loop(state, body, [](const Array&, const Array& first) { return first; });
}

Array Emit::element(const Array& a, const Array& index, std::int64_t axis) {
  if (!is_usable(std::array{a, index})) return {};
  std::vector<Array> operands{a};
  for (int i = 0; i < a.rank(); ++i) {
    operands.push_back(i == axis ? index : scalar(0, index.dtype()));
  }
  Attributes attributes;
  attributes.slice_sizes = a.dims();
  if (axis < 0 || axis >= a.rank()) {
    fail("there is no such dim");
    return {};
  }
  attributes.slice_sizes[at(axis)] = 1;
  return squeeze(make(Opcode::dynamic_slice, operands, std::move(attributes)), axis);
}

Array Emit::with_element(const Array& a, const Array& value, const Array& index,
                         std::int64_t axis) {
  if (!is_usable(std::array{a, value, index})) return {};
  std::vector<Array> operands{a, unsqueeze(value, axis)};
  for (int i = 0; i < a.rank(); ++i) {
    operands.push_back(i == axis ? index : scalar(0, index.dtype()));
  }
  return make(Opcode::dynamic_update_slice, operands);
}

namespace {

Array with_number(Opcode opcode, const Array& a, double b) {
  if (a.is_null()) return {};
  return a.emit()->binary(opcode, a, a.emit()->scalar(b, a.dtype()));
}

Array with_number(Opcode opcode, double a, const Array& b) {
  if (b.is_null()) return {};
  return b.emit()->binary(opcode, b.emit()->scalar(a, b.dtype()), b);
}

Array of_two(Opcode opcode, const Array& a, const Array& b) {
  if (a.is_null() || b.is_null()) return {};
  return a.emit()->binary(opcode, a, b);
}

Array of_one(Opcode opcode, const Array& a) {
  return a.is_null() ? Array() : a.emit()->unary(opcode, a);
}

Array compared(ir::ComparisonDirection direction, const Array& a, const Array& b) {
  if (a.is_null() || b.is_null()) return {};
  return a.emit()->compare(direction, a, b);
}

Array compared(ir::ComparisonDirection direction, const Array& a, double b) {
  if (a.is_null()) return {};
  return a.emit()->compare(direction, a, a.emit()->scalar(b, a.dtype()));
}

}  // namespace

Array operator+(const Array& a, const Array& b) { return of_two(Opcode::add, a, b); }
Array operator-(const Array& a, const Array& b) { return of_two(Opcode::subtract, a, b); }
Array operator*(const Array& a, const Array& b) { return of_two(Opcode::multiply, a, b); }
Array operator/(const Array& a, const Array& b) { return of_two(Opcode::divide, a, b); }
Array operator-(const Array& a) { return of_one(Opcode::negate, a); }
Array operator+(const Array& a, double b) { return with_number(Opcode::add, a, b); }
Array operator-(const Array& a, double b) { return with_number(Opcode::subtract, a, b); }
Array operator*(const Array& a, double b) { return with_number(Opcode::multiply, a, b); }
Array operator/(const Array& a, double b) { return with_number(Opcode::divide, a, b); }
Array operator+(double a, const Array& b) { return with_number(Opcode::add, a, b); }
Array operator-(double a, const Array& b) { return with_number(Opcode::subtract, a, b); }
Array operator*(double a, const Array& b) { return with_number(Opcode::multiply, a, b); }
Array operator/(double a, const Array& b) { return with_number(Opcode::divide, a, b); }
Array operator<(const Array& a, const Array& b) {
  return compared(ir::ComparisonDirection::lt, a, b);
}
Array operator<(const Array& a, double b) { return compared(ir::ComparisonDirection::lt, a, b); }
Array operator>(const Array& a, double b) { return compared(ir::ComparisonDirection::gt, a, b); }
Array operator==(const Array& a, const Array& b) {
  return compared(ir::ComparisonDirection::eq, a, b);
}
Array operator==(const Array& a, double b) { return compared(ir::ComparisonDirection::eq, a, b); }
Array operator&(const Array& a, const Array& b) { return of_two(Opcode::and_, a, b); }
Array operator|(const Array& a, const Array& b) { return of_two(Opcode::or_, a, b); }
Array exp(const Array& a) { return of_one(Opcode::exponential, a); }
Array log(const Array& a) { return of_one(Opcode::log, a); }
Array sqrt(const Array& a) { return of_one(Opcode::sqrt, a); }
Array tanh(const Array& a) { return of_one(Opcode::tanh, a); }
Array abs(const Array& a) { return of_one(Opcode::abs, a); }
Array floor(const Array& a) { return of_one(Opcode::floor, a); }
Array logical_not(const Array& a) { return of_one(Opcode::not_, a); }

}  // namespace plimsoll::onnx
