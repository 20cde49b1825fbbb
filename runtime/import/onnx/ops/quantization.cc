// SPDX-License-Identifier: Apache-2.0
// Numbers as integers with a scale and a zero point.
#include <fmt/format.h>
#include <algorithm>
#include <numeric>

#include "runtime/base/index.h"
#include "runtime/import/onnx/ops/quantization.h"
#include "runtime/import/onnx/ops/windows.h"

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
  n.set(0, dequantized(n, n.in(0), n.in(1), zero, n.number("axis", 1)));
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

namespace {

void integer_matmul(NodeContext& n) {
  const Array a = whole_numbers(n, n.in(0), n.has(2) ? n.in(2) : Array(), -2);
  const Array b = whole_numbers(n, n.in(1), n.has(3) ? n.in(3) : Array(), -1);
  n.set(0, n.e.matmul(a, b));
}

void quantized_matmul(NodeContext& n) {
  const Array a = whole_numbers(n, n.in(0), n.in(2), -2),
              b = whole_numbers(n, n.in(3), n.in(5), -1);
  const Array product = n.e.convert(n.e.matmul(a, b), DType::f32);
  const auto scale = [&](int i, const Array& x, std::int64_t axis) {
    const Array given = n.e.convert(n.in(i), DType::f32);
    if (given.element_count() == 1) return n.e.reshape(given, {});
    return given.rank() == 1 ? n.e.along(given, x.rank(), n.e.axis(axis, x.rank())) : given;
  };
  const Array scaled = product * (scale(1, a, -2) * scale(4, b, -1));
  n.set(0, quantized(n, scaled, n.in(6), n.in(7), n.in(7).dtype(), 0));
}

void quantized_convolution(NodeContext& n) {
  const Array x = whole_numbers(n, n.in(0), n.in(2), 1),
              kernel = whole_numbers(n, n.in(3), n.in(5), 0);
  if (x.rank() < 3 || kernel.rank() != x.rank()) return n.e.fail("takes arrays of equal rank");
  const Windows windows = windows_of(n, spatial_of(x), spatial_of(kernel));
  const std::int64_t groups = std::max<std::int64_t>(n.number("group", 1), 1);
  Array sums = convolve(n.e, x, kernel, window_dimensions(windows, 0), groups);
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
