// SPDX-License-Identifier: Apache-2.0
// Numbers as integers with a scale and a zero point.
#include <fmt/format.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/quantization.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Opcode;

// A scale or zero point as it meets the elements of `x`: one for all, one for each place of the
// axis, or one for each block of the axis.
Array spread(NodeContext& n, const Array& scale, const Array& x, std::int64_t axis) {
  if (scale.element_count() == 1 && scale.rank() <= 1) return n.e.reshape(scale, {});
  if (scale.rank() == 1) return n.e.along(scale, x.rank(), n.e.axis(axis, x.rank()));
  const std::int64_t block = n.number("block_size", 0);
  const std::int64_t place = n.e.axis(axis, x.rank());
  if (scale.rank() != x.rank() || block < 1 || block > x.dim(place)) {
    n.wrong("block_size", fmt::format("is {}, which does not fit the scale", block));
    return scale;
  }
  Sizes dims = scale.dims(), joined = scale.dims(), to;
  for (std::int64_t i = 0; i < scale.rank(); ++i) to.push_back(i <= place ? i : i + 1);
  dims.insert(dims.begin() + place + 1, block);
  joined[at(place)] *= block;
  const Array each = n.e.reshape(n.e.broadcast(scale, dims, to), joined);
  return n.e.slice(each, place, 0, x.dim(place));
}

// Whole numbers and 8-bit floats as they are computed with.
Array widened(Emit& e, const Array& x, DType dtype) { return e.convert(x, dtype); }

}  // namespace

Array dequantized(NodeContext& n, const Array& x, const Array& scale, const Array& zero,
                  std::int64_t axis) {
  Array made;
  if (ir::is_floating(x.dtype())) {
    made = widened(n.e, x, DType::f32);
  } else {
    Array whole = widened(n.e, x, DType::s32);
    if (!zero.is_null()) {
      whole = whole - spread(n, widened(n.e, zero, DType::s32), x, axis);
    }
    made = n.e.convert(whole, DType::f32);
  }
  return n.e.convert(made * spread(n, n.e.convert(scale, DType::f32), x, axis), scale.dtype());
}

Array quantized(NodeContext& n, const Array& x, const Array& scale, const Array& zero, DType dtype,
                std::int64_t axis) {
  Array made = n.e.convert(x, DType::f32) / spread(n, n.e.convert(scale, DType::f32), x, axis);
  if (ir::is_floating(dtype)) return n.e.saturate(made, dtype);
  made = n.e.unary(Opcode::round_nearest_even, made);
  if (!zero.is_null()) made = made + spread(n, widened(n.e, zero, DType::f32), x, axis);
  return n.e.saturate(made, dtype);
}

namespace {

void quantize(NodeContext& n) {
  const Array zero = n.has(2) ? n.in(2) : Array();
  const DType dtype = !zero.is_null()                    ? zero.dtype()
                      : n.number("output_dtype", 0) != 0 ? n.dtype("output_dtype", 0)
                                                         : DType::u8;
  n.set(0, quantized(n, n.in(0), n.in(1), zero, dtype, n.number("axis", 1)));
}

void dequantize(NodeContext& n) {
  const Array zero = n.has(2) ? n.in(2) : Array();
  const std::int64_t axis = n.number("axis", 1);
  Value made = Value::of(dequantized(n, n.in(0), n.in(1), zero, axis));
  if (is_of_bytes(n.in(0).dtype()) && n.in(1).rank() <= 1 && n.in(1).dtype() == DType::f32) {
    const auto part = [&](int i) {
      Value value = n.has(i) ? n.value(i) : Value::nothing();
      if (value.known != nullptr) value.array = {};  // which a computation that goes away may have
      return value;
    };
    made.quantized = std::make_shared<const Quantized>(Quantized{part(0), part(1), part(2), axis});
  }
  n.set(0, made);
}

void dynamic_quantize(NodeContext& n) {
  const Array x = n.in(0);
  Sizes axes(at(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  const Array none = n.e.scalar(0, x.dtype());
  const Array high = n.e.maximum(n.e.reduce(Opcode::maximum, x, axes, false), none);
  const Array low = n.e.minimum(n.e.reduce(Opcode::minimum, x, axes, false), none);
  const Array scale = (high - low) / 255.0;
  const Array zero = n.e.saturate((0.0 - low) / scale, DType::u8);
  n.set(0, quantized(n, x, scale, zero, DType::u8, 0));
  n.set(1, scale);
  n.set(2, zero);
}

}  // namespace

Array whole_numbers(NodeContext& n, const Array& x, const Array& zero, std::int64_t axis) {
  const Array made = widened(n.e, x, DType::s32);
  if (zero.is_null()) return made;
  const Array wide = widened(n.e, zero, DType::s32);
  if (wide.element_count() == 1) return made - n.e.reshape(wide, {});
  if (wide.rank() != 1) return made - wide;
  return made - n.e.along(wide, x.rank(), n.e.axis(axis, x.rank()));
}

bool is_of_bytes(DType dtype) { return dtype == DType::s8 || dtype == DType::u8; }

std::vector<std::int32_t> whole_numbers_of(const ir::Literal& literal) {
  const auto count = static_cast<std::size_t>(literal.shape().element_count());
  const auto bytes = literal.bytes();
  std::vector<std::int32_t> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    made[i] = literal.shape().dtype() == DType::s8 ? static_cast<std::int8_t>(bytes[i])
                                                   : static_cast<std::uint8_t>(bytes[i]);
  }
  return made;
}

namespace {

// The sums of the columns of a matrix of bytes, which are its rows where it is turned.
Sizes column_sums(const ir::Literal& matrix, bool is_turned) {
  const std::vector<std::int32_t> elements = whole_numbers_of(matrix);
  const auto width = static_cast<std::size_t>(matrix.shape().dim(1));
  Sizes sums(at(matrix.shape().dim(is_turned ? 0 : 1)), 0);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    sums[is_turned ? i / width : i % width] += elements[i];
  }
  return sums;
}

}  // namespace

Sizes known_zeros(NodeContext& n, int i, std::int64_t count) {
  constexpr std::int64_t kMost = 1 << 24;  // an empty array may have any size
  if (count > kMost) return {};
  if (!n.has(i)) return Sizes(at(count), 0);
  const ir::Literal* const zeros = n.known(i);
  if (zeros == nullptr || !is_of_bytes(zeros->shape().dtype())) return {};
  const std::vector<std::int32_t> each = whole_numbers_of(*zeros);
  if (each.size() == 1) return Sizes(at(count), each[0]);
  return std::ssize(each) == count ? Sizes(each.begin(), each.end()) : Sizes();
}

Array whole_product(NodeContext& n, const Array& a, const Array& a_zero, int b, int b_zero,
                    bool is_turned) {
  Emit& e = n.e;
  const Array right = n.in(b);
  const ir::Literal* const weights = n.known(b);
  constexpr std::int64_t kDeepest = 1 << 20;  // whose sums are s32
  const std::int64_t columns = right.dim(is_turned ? 0 : 1), depth = right.dim(is_turned ? 1 : 0);
  const Sizes zeros = right.rank() == 2 ? known_zeros(n, b_zero, columns) : Sizes();
  if (weights == nullptr || right.rank() != 2 || a.rank() < 2 || !is_of_bytes(a.dtype()) ||
      !is_of_bytes(right.dtype()) || a.dim(a.rank() - 1) != depth || depth > kDeepest ||
      zeros.empty() ||
      (!a_zero.is_null() && (a_zero.element_count() != 1 || !is_of_bytes(a_zero.dtype())))) {
    const Array whole =
        whole_numbers(n, right, n.has(b_zero) ? n.in(b_zero) : Array(), is_turned ? 0 : -1);
    return e.matmul(whole_numbers(n, a, a_zero, -2),
                    is_turned ? e.transpose(whole, {1, 0}) : whole);
  }
  // (a - zero) (b - zeros) = a b - zero (1 b - depth zeros) - (a 1) zeros, which reads both sides
  // as they lie.
  Sizes dims = a.dims();
  dims.back() = columns;
  ir::Attributes attributes;
  attributes.dot = std::make_shared<const ir::DotDimensions>(
      ir::DotDimensions{{a.rank() - 1}, {is_turned ? 1 : 0}, {}, {}});
  const ir::Shape shape(DType::s32, ir::Dims(dims));
  Array made = e.make(Opcode::dot, {a, right}, std::move(attributes), {}, &shape);
  const bool is_shifted =
      std::any_of(zeros.begin(), zeros.end(), [](std::int64_t zero) { return zero != 0; });
  if (is_shifted) {
    const Array rows = e.sum(e.convert(a, DType::s32), {a.rank() - 1}, true);
    made = made - rows * e.numbers(zeros, DType::s32);
  }
  if (a_zero.is_null()) return made;
  Sizes sums = column_sums(*weights, is_turned);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] -= depth * zeros[i];
  return made - e.reshape(e.convert(a_zero, DType::s32), {}) * e.numbers(sums, DType::s32);
}

namespace {

// Whether the weights that input 1 is made of are known, have a scale for all or one for each place
// of `axis`, and products of them with any bytes have sums that are s32.
bool has_known_weights(NodeContext& n, int rank, std::int64_t axis) {
  const Quantized* const weights = n.quantized(1);
  if (weights == nullptr || weights->x.known == nullptr || weights->scale.known == nullptr) {
    return false;
  }
  const ir::Shape& shape = weights->x.known->shape();
  constexpr std::int64_t kDeepest = std::numeric_limits<std::int32_t>::max() / (255 * 255);
  if (shape.rank() != rank || shape.element_count() > kDeepest * shape.dim(axis)) return false;
  const std::int64_t given = weights->axis < 0 ? weights->axis + rank : weights->axis;
  return weights->scale.known->shape().element_count() == 1 || given == axis;
}

// Whether input 0 is made of bytes with one scale.
bool has_one_scale(NodeContext& n, const Quantized& x) {
  Value scale = x.scale, zero = x.zero;
  return n.array_of(scale).element_count() == 1 &&
         (zero.kind == Value::Kind::nothing || n.array_of(zero).element_count() == 1);
}

}  // namespace

Array product_of_quantized(NodeContext& n, bool is_turned) {
  const Quantized* const left = n.quantized(0);
  if (left == nullptr || !has_known_weights(n, 2, is_turned ? 0 : 1) || !has_one_scale(n, *left)) {
    return {};
  }
  const Quantized& right = *n.quantized(1);
  NodeContext inner =
      n.with({left->x, right.x, left->zero, right.zero, left->scale, right.scale}, n.opset);
  const std::int64_t columns = right.x.known->shape().dim(is_turned ? 0 : 1);
  if (inner.in(0).rank() < 2 || known_zeros(inner, 3, columns).empty()) return {};
  const Array sums =
      whole_product(inner, inner.in(0), inner.has(2) ? inner.in(2) : Array(), 1, 3, is_turned);
  const auto scale = [&](int i) {
    const Array given = inner.in(i);
    return given.element_count() == 1 ? n.e.reshape(given, {}) : given;
  };
  return n.e.convert(sums, DType::f32) * (scale(4) * scale(5));
}

Array convolution_of_quantized(NodeContext& n) {
  const Quantized* const left = n.quantized(0);
  const int rank = n.in(0).rank();
  if (left == nullptr || !has_known_weights(n, rank, 0) || !has_one_scale(n, *left)) return {};
  const Quantized& right = *n.quantized(1);
  NodeContext inner =
      n.with({left->x, right.x, left->zero, right.zero, left->scale, right.scale}, n.opset);
  if (!convolves_bytes(inner, 2, 1, 3)) return {};
  const Array sums = whole_convolution(inner, 2, 1, 3);
  Array scale = inner.in(5);
  scale = scale.element_count() == 1 ? n.e.reshape(scale, {}) : n.e.along(scale, rank, 1);
  return n.e.convert(sums, DType::f32) * (scale * n.e.reshape(inner.in(4), {}));
}

namespace {

void integer_matmul(NodeContext& n) {
  n.set(0, whole_product(n, n.in(0), n.has(2) ? n.in(2) : Array(), 1, 3));
}

void quantized_matmul(NodeContext& n) {
  const Array a = n.in(0), b = n.in(3);
  const Array product = n.e.convert(whole_product(n, a, n.in(2), 3, 5), DType::f32);
  const auto scale = [&](int i, const Array& x, std::int64_t axis) {
    const Array given = n.e.convert(n.in(i), DType::f32);
    if (given.element_count() == 1) return n.e.reshape(given, {});
    return given.rank() == 1 ? n.e.along(given, x.rank(), n.e.axis(axis, x.rank())) : given;
  };
  const Array scaled = product * (scale(1, a, -2) * scale(4, b, -1));
  n.set(0, quantized(n, scaled, n.in(6), n.in(7), n.in(7).dtype(), 0));
}

void quantized_convolution(NodeContext& n) {
  const Array x = n.in(0);
  Array sums = whole_convolution(n, 2, 3, 5);
  if (n.has(8)) sums = sums + n.e.along(n.in(8), x.rank(), 1);
  Array scale = n.in(4);
  scale = scale.element_count() == 1 ? n.e.reshape(scale, {}) : n.e.along(scale, x.rank(), 1);
  const Array scaled = n.e.convert(sums, DType::f32) * (scale * n.e.reshape(n.in(1), {}));
  n.set(0, quantized(n, scaled, n.in(6), n.in(7), n.in(7).dtype(), 1));
}

}  // namespace

void add_quantization(OpTable& t) {
  t["QuantizeLinear"] = {quantize};
  t["DequantizeLinear"] = {dequantize};
  t["com.microsoft:QuantizeLinear"] = {quantize};
  t["com.microsoft:DequantizeLinear"] = {dequantize};
  t["DynamicQuantizeLinear"] = {dynamic_quantize};
  t["MatMulInteger"] = {integer_matmul};
  t["QLinearMatMul"] = {quantized_matmul};
  t["QLinearConv"] = {quantized_convolution};
}

}  // namespace plimsoll::onnx
