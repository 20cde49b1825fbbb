// SPDX-License-Identifier: Apache-2.0
// Operators that compute each element of the result from the operands' elements at its place.
#include <fmt/format.h>
#include <array>
#include <cmath>
#include <numbers>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {
namespace {

using ir::ComparisonDirection;
using ir::DType;
using ir::Opcode;

// Both operands; before opset 7 the second may be aligned to a dim of the first.
std::array<Array, 2> two(NodeContext& n) {
  Array a = n.in(0), b = n.in(1);
  if (n.opset < 7 && n.number("broadcast", 0) != 0 && n.attribute("axis") != nullptr) {
    const std::int64_t axis = n.e.axis(n.number("axis", 0), a.rank());
    Sizes dims = b.dims();
    while (std::ssize(dims) + axis < a.rank()) dims.push_back(1);
    b = n.e.reshape(b, dims);
  }
  return {a, b};
}

Handler unary(Opcode opcode) {
  return [opcode](NodeContext& n) { n.set(0, n.e.unary(opcode, n.in(0))); };
}

Handler binary(Opcode opcode) {
  return [opcode](NodeContext& n) {
    const auto [a, b] = two(n);
    n.set(0, n.e.binary(opcode, a, b));
  };
}

Handler comparison(ComparisonDirection direction) {
  return [direction](NodeContext& n) {
    const auto [a, b] = two(n);
    n.set(0, n.e.compare(direction, a, b));
  };
}

// Of any number of operands, from the left.
Handler variadic(Opcode opcode, bool divides = false) {
  return [opcode, divides](NodeContext& n) {
    Array made = n.in(0);
    for (int i = 1; i < n.input_count(); ++i) made = n.e.binary(opcode, made, n.in(i));
    n.set(0, divides ? made / static_cast<double>(n.input_count()) : made);
  };
}

// A formula of one operand.
Handler formula(const std::function<Array(NodeContext&, const Array&)>& f) {
  return [f](NodeContext& n) { n.set(0, f(n, n.in(0))); };
}

Array exponential_minus_one(const Array& x) {
  return x.is_null() ? x : x.emit()->unary(Opcode::exponential_minus_one, x);
}

Array sigmoid(const Array& x) { return x.is_null() ? x : x.emit()->unary(Opcode::logistic, x); }

Array relu(Emit& e, const Array& x) { return e.maximum(x, e.scalar(0, x.dtype())); }

Array between(Emit& e, const Array& x, double low, double high) {
  return e.minimum(e.maximum(x, e.scalar(low, x.dtype())), e.scalar(high, x.dtype()));
}

// log(1 + exp(x)), without overflow.
Array softplus(Emit& e, const Array& x) {
  return relu(e, x) + e.unary(Opcode::log_plus_one, exp(-abs(x)));
}

Array gelu(NodeContext& n, const Array& x) {
  if (n.text("approximate", "none") == "tanh") {
    const double scale = std::sqrt(2 / std::numbers::pi);
    return x * 0.5 * (1.0 + tanh((x + x * x * x * 0.044715) * scale));
  }
  return x * 0.5 * (1.0 + n.e.unary(Opcode::erf, x / std::sqrt(2.0)));
}

void power(NodeContext& n) {
  auto [a, b] = two(n);
  const DType result = a.dtype();
  if (ir::is_floating(b.dtype()) && !ir::is_floating(a.dtype())) {
    a = n.e.convert(a, b.dtype());
  } else {
    b = n.e.convert(b, a.dtype());
  }
  n.set(0, n.e.convert(n.e.binary(Opcode::power, a, b), result));
}

// The remainder has the sign of the dividend in C (fmod), of the divisor in Python.
void modulo(NodeContext& n) {
  const Array a = n.in(0), b = n.in(1);
  const Array rest = n.e.binary(Opcode::remainder, a, b);
  if (n.number("fmod", 0) != 0 || ir::dtype_class(rest.dtype()) == ir::DTypeClass::unsigned_int) {
    return n.set(0, rest);
  }
  const Array zero = n.e.scalar(0, rest.dtype());
  const Array differs = n.e.binary(Opcode::xor_, n.e.compare(ComparisonDirection::lt, rest, zero),
                                   n.e.compare(ComparisonDirection::lt, b, zero));
  const Array is_not_zero = n.e.compare(ComparisonDirection::ne, rest, zero);
  n.set(0, n.e.select(differs & is_not_zero, rest + b, rest));
}

void shift(NodeContext& n) {
  const std::string direction = n.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return n.wrong("direction", "is '" + direction + "' (must be LEFT or RIGHT)");
  }
  const Opcode opcode = direction == "LEFT" ? Opcode::shift_left : Opcode::shift_right_logical;
  n.set(0, n.e.binary(opcode, n.in(0), n.in(1)));
}

void clip(NodeContext& n) {
  Array x = n.in(0);
  const DType dtype = x.dtype();
  if (n.opset < 11) {
    if (n.attribute("min") != nullptr) x = n.e.maximum(x, n.e.scalar(n.real("min", 0), dtype));
    if (n.attribute("max") != nullptr) x = n.e.minimum(x, n.e.scalar(n.real("max", 0), dtype));
  } else {
    if (n.has(1)) x = n.e.maximum(x, n.in(1));
    if (n.has(2)) x = n.e.minimum(x, n.in(2));
  }
  n.set(0, x);
}

void cast_to(NodeContext& n, DType dtype) {
  const Array x = n.in(0);
  const bool saturates = n.number("saturate", 1) != 0;
  if (ir::is_narrow(dtype) && ir::is_floating(dtype) && saturates) {
    return n.set(0, n.e.saturate(x, dtype));
  }
  // Floats lose their fraction, and what is beyond the range of an integer is undefined.
  n.set(0, n.e.convert(x, dtype));
}

void cast(NodeContext& n) { cast_to(n, n.dtype("to", 0)); }

void cast_like(NodeContext& n) { cast_to(n, n.in(1).dtype()); }

void is_infinite(NodeContext& n) {
  const Array x = n.in(0);
  const double infinity = HUGE_VAL;
  Array found = n.e.compare(ComparisonDirection::ne, x, x);
  found = found & logical_not(found);
  if (n.number("detect_positive", 1) != 0) found = found | (x == infinity);
  if (n.number("detect_negative", 1) != 0) found = found | (x == -infinity);
  n.set(0, found);
}

void prelu(NodeContext& n) {
  const Array x = n.in(0);
  Array slope = n.in(1);
  // Old models have a slope for each channel, the dim behind the batch.
  if (n.opset < 9 && slope.rank() == 1 && slope.dim(0) != 1 && x.rank() > 2) {
    slope = n.e.along(slope, x.rank(), 1);
  }
  n.set(0, n.e.select(x < 0, x * slope, x));
}

}  // namespace

void add_elementwise(OpTable& t) {
  const std::pair<const char*, Opcode> of_one[] = {{"Abs", Opcode::abs},
                                                   {"Acos", Opcode::acos},
                                                   {"Acosh", Opcode::acosh},
                                                   {"Asin", Opcode::asin},
                                                   {"Asinh", Opcode::asinh},
                                                   {"Atan", Opcode::atan},
                                                   {"Atanh", Opcode::atanh},
                                                   {"Ceil", Opcode::ceil},
                                                   {"Cos", Opcode::cosine},
                                                   {"Cosh", Opcode::cosh},
                                                   {"Erf", Opcode::erf},
                                                   {"Exp", Opcode::exponential},
                                                   {"Floor", Opcode::floor},
                                                   {"Log", Opcode::log},
                                                   {"Neg", Opcode::negate},
                                                   {"Not", Opcode::not_},
                                                   {"Sign", Opcode::sign},
                                                   {"Sin", Opcode::sine},
                                                   {"Sinh", Opcode::sinh},
                                                   {"Sqrt", Opcode::sqrt},
                                                   {"Tan", Opcode::tan},
                                                   {"Tanh", Opcode::tanh},
                                                   {"Sigmoid", Opcode::logistic},
                                                   {"BitwiseNot", Opcode::not_},
                                                   {"Round", Opcode::round_nearest_even}};
  for (const auto& [name, opcode] : of_one) t[name] = {unary(opcode)};
  const std::pair<const char*, Opcode> of_two[] = {
      {"Add", Opcode::add},        {"Sub", Opcode::subtract},    {"Mul", Opcode::multiply},
      {"Div", Opcode::divide},     {"And", Opcode::and_},        {"Or", Opcode::or_},
      {"Xor", Opcode::xor_},       {"BitwiseAnd", Opcode::and_}, {"BitwiseOr", Opcode::or_},
      {"BitwiseXor", Opcode::xor_}};
  for (const auto& [name, opcode] : of_two) t[name] = {binary(opcode)};
  t["Equal"] = {comparison(ComparisonDirection::eq)};
  t["Greater"] = {comparison(ComparisonDirection::gt)};
  t["GreaterOrEqual"] = {comparison(ComparisonDirection::ge)};
  t["Less"] = {comparison(ComparisonDirection::lt)};
  t["LessOrEqual"] = {comparison(ComparisonDirection::le)};
  t["Max"] = {variadic(Opcode::maximum)};
  t["Min"] = {variadic(Opcode::minimum)};
  t["Sum"] = {variadic(Opcode::add)};
  t["Mean"] = {variadic(Opcode::add, true)};
  t["Pow"] = {power};
  t["Mod"] = {modulo};
  t["BitShift"] = {shift};
  t["Clip"] = {clip};
  t["Cast"] = {cast};
  t["CastLike"] = {cast_like};
  t["IsInf"] = {is_infinite};
  t["PRelu"] = {prelu};
  t["Where"] = {[](NodeContext& n) { n.set(0, n.e.select(n.in(0), n.in(1), n.in(2))); }};
  t["IsNaN"] = {formula(
      [](NodeContext& n, const Array& x) { return n.e.compare(ComparisonDirection::ne, x, x); })};
  t["Reciprocal"] = {formula([](NodeContext&, const Array& x) { return 1.0 / x; })};
  t["Relu"] = {formula([](NodeContext& n, const Array& x) { return relu(n.e, x); })};
  t["LeakyRelu"] = {formula([](NodeContext& n, const Array& x) {
    return n.e.select(x < 0, x * n.real("alpha", 0.01F), x);
  })};
  t["ThresholdedRelu"] = {formula([](NodeContext& n, const Array& x) {
    return n.e.select(x > n.real("alpha", 1), x, n.e.scalar(0, x.dtype()));
  })};
  t["Elu"] = {formula([](NodeContext& n, const Array& x) {
    return n.e.select(x < 0, exponential_minus_one(x) * n.real("alpha", 1), x);
  })};
  t["Celu"] = {formula([](NodeContext& n, const Array& x) {
    const double alpha = n.real("alpha", 1);
    const Array below = exponential_minus_one(x / alpha) * alpha;
    return relu(n.e, x) + n.e.minimum(below, n.e.scalar(0, x.dtype()));
  })};
  t["Selu"] = {formula([](NodeContext& n, const Array& x) {
    const double alpha = n.real("alpha", 1.67326319217681884765625);
    const double gamma = n.real("gamma", 1.05070102214813232421875);
    return n.e.select(x > 0, x, exponential_minus_one(x) * alpha) * gamma;
  })};
  t["Gelu"] = {formula(gelu)};
  t["com.microsoft:Gelu"] = {formula(gelu)};
  t["HardSigmoid"] = {formula([](NodeContext& n, const Array& x) {
    return between(n.e, x * n.real("alpha", 0.2F) + n.real("beta", 0.5), 0, 1);
  })};
  t["HardSwish"] = {formula(
      [](NodeContext& n, const Array& x) { return x * between(n.e, x * (1.0 / 6) + 0.5, 0, 1); })};
  t["Swish"] = {
      formula([](NodeContext& n, const Array& x) { return x * sigmoid(x * n.real("alpha", 1)); })};
  t["Mish"] = {formula([](NodeContext& n, const Array& x) { return x * tanh(softplus(n.e, x)); })};
  t["Softplus"] = {formula([](NodeContext& n, const Array& x) { return softplus(n.e, x); })};
  t["Softsign"] = {formula([](NodeContext&, const Array& x) { return x / (1.0 + abs(x)); })};
  t["Shrink"] = {formula([](NodeContext& n, const Array& x) {
    const double lambda = n.real("lambd", 0.5), bias = n.real("bias", 0);
    const Array zero = n.e.scalar(0, x.dtype());
    const Array above = n.e.select(x > lambda, x - bias, zero);
    return n.e.select(x < -lambda, x + bias, above);
  })};
}

}  // namespace plimsoll::onnx
