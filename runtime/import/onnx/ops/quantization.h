// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/import/onnx/ops/node_context.h"

// Numbers as integers with a scale and a zero point, which may be missing (a null array).
namespace plimsoll::onnx {

// (x - zero) * scale, of the scale's dtype; `axis`: where several scales lie.
Array dequantized(NodeContext& n, const Array& x, const Array& scale, const Array& zero,
                  std::int64_t axis);
// x / scale + zero, rounded half to even and put into the range of `dtype`.
Array quantized(NodeContext& n, const Array& x, const Array& scale, const Array& zero,
                ir::DType dtype, std::int64_t axis);
// x - zero as s32; `axis`: where its zero points, if several, lie.
Array whole_numbers(NodeContext& n, const Array& x, const Array& zero, std::int64_t axis);
// (a - a_zero) times the matrix that input `b` is (or its transpose: `is_turned`), less its zero
// points (input `b_zero`), as s32.
Array whole_product(NodeContext& n, const Array& a, const Array& a_zero, int b, int b_zero,
                    bool is_turned = false);
// Input 0 less its zero point (input `zero`) convolved with input `kernel` less its zero points
// (input `kernel_zero`), as s32: by the windows that the node's attributes say.
Array whole_convolution(NodeContext& n, int zero, int kernel, int kernel_zero);

// Whether that reads bytes as they lie, as it does where that is faster than floats are.
bool convolves_bytes(NodeContext& n, int zero, int kernel, int kernel_zero);

// The product, or the convolution by the node's attributes, of inputs 0 and 1 where
// DequantizeLinear makes them of bytes, the second of known ones: sums of whole numbers, scaled.
// Null where they are not so, or floats do as well.
Array product_of_quantized(NodeContext& n, bool is_turned = false);
Array convolution_of_quantized(NodeContext& n);

// Whole numbers of one byte each.
bool is_of_bytes(ir::DType dtype);
std::vector<std::int32_t> whole_numbers_of(const ir::Literal& literal);
// The zero points that input `i` has, for each of `count` places: none where they are not known.
Sizes known_zeros(NodeContext& n, int i, std::int64_t count);

}  // namespace plimsoll::onnx
