// SPDX-License-Identifier: Apache-2.0
#pragma once

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
// (a - a_zero) times the matrix that input `b` is, less its zero points (input `b_zero`), as s32.
Array whole_product(NodeContext& n, const Array& a, const Array& a_zero, int b, int b_zero);

}  // namespace plimsoll::onnx
