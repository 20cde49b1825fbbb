// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/import/onnx/ops/node_context.h"

// What the operators of attention have in common.
namespace plimsoll::onnx {

// [batch, length, heads * depth] as [batch, heads, length, depth]; others as they are. An error
// that names the attribute where the columns are no such number of heads.
Array heads_apart(NodeContext& n, const Array& x, std::int64_t heads, std::string_view attribute);
Array heads_together(Emit& e, const Array& x);
// [batch, heads, length, depth] with each head `times` times, side by side.
Array heads_repeated(Emit& e, const Array& x, std::int64_t times);
// The first `turned` columns of [batch, heads, length, depth] turned in pairs by angles, whose
// cosines and sines are [batch, 1, length, turned / 2]: halves, or neighbours (`is_interleaved`).
Array columns_turned(Emit& e, const Array& x, const Array& cosine, const Array& sine,
                     std::int64_t turned, bool is_interleaved);

}  // namespace plimsoll::onnx
