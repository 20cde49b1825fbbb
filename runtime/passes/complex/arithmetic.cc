// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <utility>
#include <vector>

#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/complex/parts.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::ComparisonDirection;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

// A real array, so that formulas read as formulas.
struct Real {
  Instruction* value = nullptr;

  Real make(Opcode opcode, std::vector<Instruction*> operands) const {
    return {value->parent()->add(opcode, value->shape(), std::move(operands))};
  }
  // The same number for every element.
  Real constant(double number) const {
    ir::Literal literal(Shape(value->shape().dtype(), {}));
    literal.set(0, number);
    Instruction* const scalar = value->parent()->add_constant(std::move(literal));
    return value->shape().rank() == 0 ? Real{scalar} : make(Opcode::broadcast, {scalar});
  }
};

Real operator+(Real a, Real b) { return a.make(Opcode::add, {a.value, b.value}); }
Real operator-(Real a, Real b) { return a.make(Opcode::subtract, {a.value, b.value}); }
Real operator*(Real a, Real b) { return a.make(Opcode::multiply, {a.value, b.value}); }
Real operator/(Real a, Real b) { return a.make(Opcode::divide, {a.value, b.value}); }
Real operator-(Real a) { return a.make(Opcode::negate, {a.value}); }
Real operator+(Real a, double b) { return a + a.constant(b); }
Real operator*(Real a, double b) { return a * a.constant(b); }
Real apply(Opcode opcode, Real a) { return a.make(opcode, {a.value}); }
Real abs(Real a) { return apply(Opcode::abs, a); }
Real exp(Real a) { return apply(Opcode::exponential, a); }
Real log(Real a) { return apply(Opcode::log, a); }
Real sqrt(Real a) { return apply(Opcode::sqrt, a); }
Real sin(Real a) { return apply(Opcode::sine, a); }
Real cos(Real a) { return apply(Opcode::cosine, a); }
Real larger(Real a, Real b) { return a.make(Opcode::maximum, {a.value, b.value}); }
Real smaller(Real a, Real b) { return a.make(Opcode::minimum, {a.value, b.value}); }
Real atan2(Real y, Real x) { return y.make(Opcode::atan2, {y.value, x.value}); }

struct Truth {
  Instruction* value = nullptr;
};
Truth compare(Real a, ComparisonDirection direction, Real b) {
  Attributes attributes;
  attributes.comparison_direction = direction;
  return {a.value->parent()->add(Opcode::compare, Shape(ir::DType::pred, a.value->shape().dims()),
                                 {a.value, b.value}, {}, std::move(attributes))};
}
Truth operator==(Real a, double b) { return compare(a, ComparisonDirection::eq, a.constant(b)); }
Truth operator<(Real a, double b) { return compare(a, ComparisonDirection::lt, a.constant(b)); }
Truth operator>(Real a, double b) { return compare(a, ComparisonDirection::gt, a.constant(b)); }
Truth operator>=(Real a, Real b) { return compare(a, ComparisonDirection::ge, b); }
Truth operator&(Truth a, Truth b) {
  return {a.value->parent()->add(Opcode::and_, a.value->shape(), {a.value, b.value})};
}
Real choose(Truth where, Real a, Real b) {
  return a.make(Opcode::select, {where.value, a.value, b.value});
}
// |a| with the sign bit of b.
Real with_sign(Real a, Real b) {
  const Real size = abs(a);
  // atan2 tells -0 from 0: its result is pi or -pi for a negative first coordinate.
  return choose(atan2(b, b.constant(-1)) < 0, -size, size);
}

struct Number {
  Real re, im;
  operator Parts() const { return {re.value, im.value}; }
};
Number of(Parts z) { return {{z.real}, {z.imaginary}}; }

Number multiply(Number a, Number b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// Scaled by the divisor's larger part (R. L. Smith, "Algorithm 116: Complex division", 1962), so
// that no square overflows.
Number divide(Number a, Number b) {
  const Truth is_wide = abs(b.re) >= abs(b.im);
  const Real large = choose(is_wide, b.re, b.im), small = choose(is_wide, b.im, b.re);
  const Real ratio = choose(large == 0, large * 0, small / large);
  const Real scale = large + small * ratio;
  const Real p = choose(is_wide, a.re, a.im), q = choose(is_wide, a.im, a.re);
  const Real re = (p + q * ratio) / scale;
  const Real cross = (q - p * ratio) / scale;
  return {re, choose(is_wide, cross, -cross)};
}

Real modulus(Number z) {
  const Real a = abs(z.re), b = abs(z.im);
  const Real large = larger(a, b), small = smaller(a, b);
  const Real ratio = choose(large == 0, large, small / large);
  // inf / inf is no number, but the modulus is inf.
  const Real scaled = large * sqrt(ratio * ratio + 1);
  const Real infinity = z.re.constant(std::numeric_limits<double>::infinity());
  return choose(compare(large, ComparisonDirection::eq, infinity), infinity, scaled);
}

// log |z| from the larger part, and what the smaller one adds, which is exact near |z| = 1.
Number log(Number z) {
  const Real a = abs(z.re), b = abs(z.im);
  const Real large = larger(a, b), small = smaller(a, b);
  const Real ratio = choose(large == 0, large, small / large);
  const Real infinity = large.constant(std::numeric_limits<double>::infinity());
  const Real added = apply(Opcode::log_plus_one, ratio * ratio) * 0.5;
  const Real sum = log(large) + added;
  return {choose(compare(large, ComparisonDirection::eq, infinity), infinity, sum),
          atan2(z.im, z.re)};
}

// Near zero 1 + z would lose what z has: log|1+z|^2 = log1p(re (2 + re) + im^2).
Number log_plus_one(Number z) {
  const Number shifted = log(Number{z.re + 1, z.im});
  const Real near = apply(Opcode::log_plus_one, z.re * (z.re + 2) + z.im * z.im) * 0.5;
  const Truth is_near = (abs(z.re) < 0.5) & (abs(z.im) < 0.5);
  return {choose(is_near, near, shifted.re), shifted.im};
}

// Halves of the exponent, so that e^re may overflow where its product with a cosine does not.
Number exp(Number z) {
  const Real half = exp(z.re * 0.5);
  const Truth is_real = z.im == 0;
  return {choose(is_real, exp(z.re), half * cos(z.im) * half),
          choose(is_real, z.im, half * sin(z.im) * half)};
}

// e^re cos im - 1 = (e^re - 1) cos im + (cos im - 1), and cos t - 1 = -2 sin^2(t/2).
Number exp_minus_one(Number z) {
  const Real half_sine = sin(z.im * 0.5);
  const Real re =
      apply(Opcode::exponential_minus_one, z.re) * cos(z.im) - half_sine * half_sine * 2;
  return {re, choose(z.im == 0, z.im, exp(z.re) * sin(z.im))};
}

// The root with a part that is not negative: t = sqrt((|re| + |z|) / 2), and the other part from
// it, without cancellation. Halved before the sum, which else might overflow.
Number sqrt(Number z) {
  const Real t = sqrt(abs(z.re) * 0.5 + modulus(z) * 0.5);
  const Real other = z.im / (t * 2);
  const Truth is_right = z.re >= z.re.constant(0);
  const Truth is_zero = t == 0;
  const Real re = choose(is_right, t, abs(other));
  const Real im = choose(is_right, other, with_sign(t, z.im));
  const Real infinity = t.constant(std::numeric_limits<double>::infinity());
  const Truth is_endless = compare(abs(z.im), ComparisonDirection::eq, infinity);
  return {choose(is_endless, infinity, choose(is_zero, t, re)),
          choose(is_endless, z.im, choose(is_zero, z.im, im))};
}

Number reciprocal(Number z) { return divide({z.re.constant(1), z.re.constant(0)}, z); }

// W. Kahan, "Branch cuts for complex elementary functions", 1987: with t = tan im, s = sinh re,
// b = 1 + t^2, r = sqrt(1 + s^2): (b r s + i t) / (1 + b s^2). Where sinh overflows it is +-1.
Number tanh(Number z) {
  const Real t = apply(Opcode::tan, z.im);
  const Real s = apply(Opcode::sinh, z.re);
  const Real b = t * t + 1, r = sqrt(s * s + 1);
  const Real scale = b * s * s + 1;
  const Truth is_far = abs(z.re) > 20;
  const Real far = sin(z.im) * cos(z.im) * exp(abs(z.re) * -2) * 4;
  // Of an infinite angle there is no number but where sinh is infinite, too.
  const Real side = apply(Opcode::sign, z.re);
  const Real infinity = z.re.constant(std::numeric_limits<double>::infinity());
  const Truth is_infinite = compare(abs(z.re), ComparisonDirection::eq, infinity);
  const Real far_side = choose(is_infinite, side, side + far * 0);
  const Real far_rest = choose(is_infinite, choose(far == 0, far, far.constant(0)), far);
  return {choose(is_far, far_side, b * r * s / scale), choose(is_far, far_rest, t / scale)};
}

Number sine(Number z) {
  return {sin(z.re) * apply(Opcode::cosh, z.im), cos(z.re) * apply(Opcode::sinh, z.im)};
}

Number cosine(Number z) {
  return {cos(z.re) * apply(Opcode::cosh, z.im), -(sin(z.re) * apply(Opcode::sinh, z.im))};
}

// tan z = -i tanh(i z).
Number tan(Number z) {
  const Number turned = tanh({-z.im, z.re});
  return {turned.im, -turned.re};
}

// By the polar form.
Number cube_root(Number z) {
  const Real size = apply(Opcode::cbrt, modulus(z));
  const Real angle = atan2(z.im, z.re) * (1.0 / 3);
  return {size * cos(angle), size * sin(angle)};
}

Number sign(Number z) {
  const Real size = modulus(z);
  const Truth is_zero = size == 0;
  return {choose(is_zero, z.re, z.re / size), choose(is_zero, z.im, z.im / size)};
}

Number logistic(Number z) {
  const Number e = exp(Number{-z.re, -z.im});
  return reciprocal({e.re + 1, e.im});
}

// e^(w log z); zero to a power of positive real part is zero, to the power zero one.
Number power(Number z, Number w) {
  const Number result = exp(multiply(w, log(z)));
  const Real one = z.re.constant(1), zero = z.re.constant(0);
  const Truth base_is_zero = (z.re == 0) & (z.im == 0);
  const Truth is_flat = (w.re == 0) & (w.im == 0);
  const Truth vanishes = base_is_zero & (w.re > 0);
  return {choose(is_flat, one, choose(vanishes, zero, result.re)),
          choose(is_flat, zero, choose(vanishes, zero, result.im))};
}

}  // namespace

Instruction* complex_abs(Parts z) { return modulus(of(z)).value; }

std::optional<Parts> complex_unary(Opcode opcode, Parts parts) {
  const Number z = of(parts);
  switch (opcode) {
    case Opcode::negate:
      return Number{-z.re, -z.im};
    case Opcode::sign:
      return sign(z);
    case Opcode::exponential:
      return exp(z);
    case Opcode::exponential_minus_one:
      return exp_minus_one(z);
    case Opcode::log:
      return log(z);
    case Opcode::log_plus_one:
      return log_plus_one(z);
    case Opcode::logistic:
      return logistic(z);
    case Opcode::tanh:
      return tanh(z);
    case Opcode::sine:
      return sine(z);
    case Opcode::cosine:
      return cosine(z);
    case Opcode::tan:
      return tan(z);
    case Opcode::sqrt:
      return sqrt(z);
    case Opcode::rsqrt:
      return reciprocal(sqrt(z));
    case Opcode::cbrt:
      return cube_root(z);
    default:
      return std::nullopt;
  }
}

std::optional<Parts> complex_binary(Opcode opcode, Parts x, Parts y) {
  const Number a = of(x), b = of(y);
  switch (opcode) {
    case Opcode::add:
      return Number{a.re + b.re, a.im + b.im};
    case Opcode::subtract:
      return Number{a.re - b.re, a.im - b.im};
    case Opcode::multiply:
      return multiply(a, b);
    case Opcode::divide:
      return divide(a, b);
    case Opcode::power:
      return power(a, b);
    default:
      return std::nullopt;
  }
}

}  // namespace plimsoll::passes
