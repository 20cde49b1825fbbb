// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/onnx/emit/emit.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/ir/narrow.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::onnx {

using ir::Attributes;
using ir::DType;
using ir::Literal;
using ir::Opcode;
using ir::Shape;

DType Array::dtype() const { return is_null() ? DType::f32 : instruction_->shape().dtype(); }

int Array::rank() const { return is_null() ? 0 : instruction_->shape().rank(); }

std::int64_t Array::dim(std::int64_t i) const {
  return i < 0 || i >= rank() ? 1 : instruction_->shape().dim(static_cast<int>(i));
}

Sizes Array::dims() const { return is_null() ? Sizes() : instruction_->shape().dims().to_vector(); }

std::int64_t Array::element_count() const {
  return is_null() ? 1 : instruction_->shape().element_count();
}

void Emit::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

bool Emit::is_usable(std::span<const Array> arrays) {
  if (!status_.ok()) return false;
  for (const Array& one : arrays) {
    if (!one.is_null()) continue;
    fail("a value is missing");
    return false;
  }
  return true;
}

Array Emit::make(Opcode opcode, const std::vector<Array>& operands, Attributes attributes,
                 std::vector<ir::Computation*> called, const Shape* given, std::string_view name) {
  if (!is_usable(operands)) return {};
  std::vector<ir::Instruction*> instructions;
  for (const Array& operand : operands) instructions.push_back(operand.instruction());
  auto made = ir::build(*computation_, opcode, std::move(instructions), std::move(attributes),
                        std::move(called), given, name);
  if (!made.ok()) {
    fail(made.status());
    return {};
  }
  return {this, *made};
}

Array Emit::constant(Literal literal) {
  if (!status_.ok()) return {};
  return {this, computation_->add_constant(std::move(literal))};
}

Array Emit::scalar(double value, DType dtype) {
  Literal literal(Shape(dtype, {}));
  if (dtype == DType::s64 || dtype == DType::u64) {
    const auto whole = static_cast<std::int64_t>(value);
    std::memcpy(literal.mutable_bytes().data(), &whole, sizeof whole);
  } else {
    literal.set(0, value);
  }
  return constant(std::move(literal));
}

namespace {

// The bits of an integer dtype's least or greatest number.
Literal extreme(DType dtype, bool is_least) {
  Literal literal(Shape(dtype, {}));
  if (dtype == DType::pred || ir::is_floating(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    literal.set(0, dtype == DType::pred ? !is_least : is_least ? -infinity : infinity);
    return literal;
  }
  const int bits = ir::dtype_bits(dtype);
  const bool is_signed = ir::dtype_class(dtype) == ir::DTypeClass::signed_int;
  std::uint64_t value = ~std::uint64_t{0} >> (64 - bits);
  if (is_signed) value = is_least ? std::uint64_t{1} << (bits - 1) : value >> 1U;
  if (!is_signed && is_least) value = 0;
  std::memcpy(literal.mutable_bytes().data(), &value, literal.mutable_bytes().size());
  return literal;
}

}  // namespace

Array Emit::lowest(DType dtype) { return constant(extreme(dtype, true)); }
Array Emit::highest(DType dtype) { return constant(extreme(dtype, false)); }

Array Emit::splat(double value, DType dtype, const Sizes& dims) {
  return broadcast_to(scalar(value, dtype), dims);
}

Array Emit::numbers(const Sizes& values, DType dtype) {
  Literal literal = Literal::array<std::int64_t>({std::ssize(values)}, values);
  return convert(constant(std::move(literal)), dtype);
}

Array Emit::reals(const std::vector<double>& values, DType dtype, const Sizes& dims) {
  Literal literal(Shape(dtype, dims.empty() ? ir::Dims{std::ssize(values)} : ir::Dims(dims)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    literal.set(static_cast<std::int64_t>(i), values[i]);
  }
  return constant(std::move(literal));
}

Array Emit::iota(DType dtype, const Sizes& dims, std::int64_t dim) {
  if (dims.size() > at(ir::kMaxRank)) {
    fail(unimplemented(fmt::format("{} dims (at most {})", dims.size(), ir::kMaxRank)));
    return {};
  }
  Attributes attributes;
  attributes.dimensions = {dim};
  const Shape shape(dtype, dims);
  return make(Opcode::iota, {}, std::move(attributes), {}, &shape);
}

Array Emit::unary(Opcode opcode, const Array& a) { return make(opcode, {a}); }

// Both of the same dims.
void Emit::match(Array& a, Array& b) {
  if (!is_usable(std::array{a, b}) || a.dims() == b.dims()) return;
  const int rank = std::max(a.rank(), b.rank());
  Sizes dims(at(rank), 1);
  for (int i = 0; i < rank; ++i) {
    const std::int64_t x = a.dim(i - (rank - a.rank())), y = b.dim(i - (rank - b.rank()));
    dims[at(i)] = x == 1 ? y : x;
    if (x != y && x != 1 && y != 1) {
      fail(fmt::format("{} and {} can't be broadcast to each other",
                       a.instruction()->shape().to_string(), b.instruction()->shape().to_string()));
      return;
    }
  }
  a = broadcast_to(a, dims);
  b = broadcast_to(b, dims);
}

Array Emit::binary(Opcode opcode, const Array& a, const Array& b) {
  Array x = a, y = b;
  match(x, y);
  return make(opcode, {x, y});
}

Array Emit::compare(ir::ComparisonDirection direction, const Array& a, const Array& b) {
  Array x = a, y = b;
  match(x, y);
  Attributes attributes;
  attributes.comparison_direction = direction;
  return make(Opcode::compare, {x, y}, std::move(attributes));
}

Array Emit::select(const Array& which, const Array& yes, const Array& no) {
  Array p = which, x = yes, y = no;
  match(x, y);
  match(p, x);
  match(p, y);
  return make(Opcode::select, {p, x, y});
}

Array Emit::convert(const Array& a, DType dtype) {
  if (!is_usable(std::array{a})) return {};
  if (a.dtype() == dtype) return a;
  if (ir::is_complex(a.dtype()) != ir::is_complex(dtype)) {
    fail(unimplemented("a cast between complex and real numbers"));
    return {};
  }
  // HLO's is the lowest bit of the truncated number, which no number but 0 and 1 has alike.
  if (dtype == DType::pred) {
    return compare(ir::ComparisonDirection::ne, a, scalar(0, a.dtype()));
  }
  const Shape shape(dtype, a.dims());
  return make(Opcode::convert, {a}, {}, {}, &shape);
}

Array Emit::saturate(const Array& a, DType dtype) {
  if (!is_usable(std::array{a})) return {};
  if (ir::is_floating(dtype)) {
    if (!ir::is_narrow(dtype)) return convert(a, dtype);
    // The greatest number that the codes have.
    double greatest = 0;
    for (int code = 0; code < 1 << ir::dtype_bits(dtype); ++code) {
      const double value = ir::narrow_number(dtype, static_cast<std::uint8_t>(code));
      if (std::isfinite(value)) greatest = std::max(greatest, value);
    }
    return convert(maximum(minimum(a, scalar(greatest, a.dtype())), scalar(-greatest, a.dtype())),
                   dtype);
  }
  const int bits = ir::dtype_bits(dtype);
  const bool is_signed = ir::dtype_class(dtype) == ir::DTypeClass::signed_int;
  const double high = std::ldexp(1, is_signed ? bits - 1 : bits) - 1;
  const double low = is_signed ? -high - 1 : 0;
  const Array whole = ir::is_floating(a.dtype()) ? unary(Opcode::round_nearest_even, a) : a;
  return convert(maximum(minimum(whole, scalar(high, a.dtype())), scalar(low, a.dtype())), dtype);
}

Array Emit::reshape(const Array& a, const Sizes& dims) {
  if (!is_usable(std::array{a})) return {};
  if (a.dims() == dims) return a;
  if (dims.size() > at(ir::kMaxRank)) {
    fail(unimplemented(fmt::format("{} dims (at most {})", dims.size(), ir::kMaxRank)));
    return {};
  }
  const Shape shape(a.dtype(), dims);
  return make(Opcode::reshape, {a}, {}, {}, &shape);
}

Array Emit::transpose(const Array& a, const Sizes& order) {
  Sizes same(order.size());
  std::iota(same.begin(), same.end(), 0);
  if (order == same && std::ssize(order) == a.rank()) return a;
  Attributes attributes;
  attributes.dimensions = order;
  return make(Opcode::transpose, {a}, std::move(attributes));
}

Array Emit::broadcast(const Array& a, const Sizes& dims, const Sizes& to) {
  if (!is_usable(std::array{a})) return {};
  if (dims.size() > at(ir::kMaxRank)) {
    fail(unimplemented(fmt::format("{} dims (at most {})", dims.size(), ir::kMaxRank)));
    return {};
  }
  if (!ir::fits_address_space(a.dtype(), ir::Dims(dims))) {
    fail("a value that no memory could hold");
    return {};
  }
  Attributes attributes;
  attributes.dimensions = to;
  const Shape shape(a.dtype(), dims);
  return make(Opcode::broadcast, {a}, std::move(attributes), {}, &shape);
}

Array Emit::broadcast_to(const Array& a, const Sizes& dims) {
  if (!is_usable(std::array{a})) return {};
  if (a.dims() == dims) return a;
  const std::int64_t rank = std::ssize(dims), skip = rank - a.rank();
  Sizes kept, to;
  for (std::int64_t i = 0; i < a.rank(); ++i) {
    const std::int64_t target = i + skip < 0 ? 0 : dims[at(i + skip)];
    if (i + skip < 0 || (a.dim(i) != 1 && a.dim(i) != target)) {
      fail(fmt::format("{} can't be broadcast to [{}]", a.instruction()->shape().to_string(),
                       fmt::join(dims, ",")));
      return {};
    }
    if (a.dim(i) == 1 && target != 1) continue;
    kept.push_back(a.dim(i));
    to.push_back(i + skip);
  }
  return broadcast(reshape(a, kept), dims, to);
}

Array Emit::along(const Array& vector, std::int64_t rank, std::int64_t axis) {
  Sizes dims(at(std::max<std::int64_t>(rank, 1)), 1);
  if (axis < 0 || axis >= std::ssize(dims) || rank > ir::kMaxRank) {
    fail("there is no such dim");
    return {};
  }
  dims[at(axis)] = vector.element_count();
  return reshape(vector, dims);
}

Array Emit::raise(const Array& a, int rank) {
  Sizes dims = a.dims();
  while (std::ssize(dims) < rank) dims.insert(dims.begin(), 1);
  return reshape(a, dims);
}

Array Emit::unsqueeze(const Array& a, std::int64_t axis) {
  Sizes dims = a.dims();
  if (axis < 0 || axis > std::ssize(dims)) {
    fail("there is no such dim");
    return {};
  }
  dims.insert(dims.begin() + axis, 1);
  return reshape(a, dims);
}

Array Emit::squeeze(const Array& a, std::int64_t axis) {
  Sizes dims = a.dims();
  if (axis < 0 || axis >= std::ssize(dims) || dims[at(axis)] != 1) {
    fail("a dim that is squeezed is not of size 1");
    return {};
  }
  dims.erase(dims.begin() + axis);
  return reshape(a, dims);
}

Array Emit::slice(const Array& a, std::int64_t axis, std::int64_t first, std::int64_t last,
                  std::int64_t step) {
  if (!is_usable(std::array{a})) return {};
  if (axis < 0 || axis >= a.rank()) {
    fail("there is no such dim");
    return {};
  }
  if (first == 0 && last == a.dim(axis) && step == 1) return a;
  Attributes attributes;
  attributes.slice_starts.assign(at(a.rank()), 0);
  attributes.slice_limits = a.dims();
  attributes.slice_strides.assign(at(a.rank()), 1);
  attributes.slice_starts[at(axis)] = first;
  attributes.slice_limits[at(axis)] = last;
  attributes.slice_strides[at(axis)] = step;
  return make(Opcode::slice, {a}, std::move(attributes));
}

Array Emit::pad(const Array& a, const Array& value,
                const std::vector<ir::PaddingDimension>& padding) {
  Attributes attributes;
  attributes.padding = padding;
  return make(Opcode::pad, {a, value}, std::move(attributes));
}

Array Emit::concatenate(const std::vector<Array>& parts, std::int64_t axis) {
  if (parts.size() == 1) return parts[0];
  Attributes attributes;
  attributes.dimensions = {axis};
  return make(Opcode::concatenate, parts, std::move(attributes));
}

Array Emit::reverse(const Array& a, const Sizes& axes) {
  if (axes.empty()) return a;
  Attributes attributes;
  attributes.dimensions = axes;
  return make(Opcode::reverse, {a}, std::move(attributes));
}

Array Emit::take(const Array& a, const Array& indices, std::int64_t axis) {
  if (!is_usable(std::array{a, indices})) return {};
  const std::int64_t rank = a.rank(), extra = indices.rank();
  if (axis < 0 || axis >= rank) {
    fail("there is no such dim");
    return {};
  }
  auto dims = std::make_shared<ir::GatherDimensions>();
  dims->collapsed_slice_dims = {axis};
  dims->start_index_map = {axis};
  dims->index_vector_dim = extra;
  for (std::int64_t i = 0; i + 1 < rank; ++i) dims->offset_dims.push_back(i < axis ? i : i + extra);
  Attributes attributes;
  attributes.gather = std::move(dims);
  attributes.slice_sizes = a.dims();
  attributes.slice_sizes[at(axis)] = std::min<std::int64_t>(1, a.dim(axis));
  return make(Opcode::gather, {a, indices}, std::move(attributes));
}

Array Emit::take_along(const Array& a, const Array& indices, std::int64_t axis) {
  if (!is_usable(std::array{a, indices})) return {};
  auto dims = std::make_shared<ir::GatherDimensions>();
  dims->collapsed_slice_dims = {axis};
  dims->start_index_map = {axis};
  dims->index_vector_dim = indices.rank();
  for (std::int64_t i = 0; i < a.rank(); ++i) {
    if (i == axis) continue;
    dims->operand_batching_dims.push_back(i);
    dims->start_indices_batching_dims.push_back(i);
  }
  Attributes attributes;
  attributes.gather = std::move(dims);
  attributes.slice_sizes.assign(at(a.rank()), 1);
  return make(Opcode::gather, {a, indices}, std::move(attributes));
}

std::int64_t Emit::axis(std::int64_t axis, std::int64_t rank, std::string_view what) {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  fail(fmt::format("{} is {} (must be in [{}, {}))", what, axis, -rank, rank));
  return 0;
}

std::int64_t product(std::span<const std::int64_t> sizes) {
  std::int64_t made = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(made, size, &made)) return -1;
  }
  return made;
}

}  // namespace plimsoll::onnx
