// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {

// f32 in [0, 1), drawn at random by the node's seed, or by its name where it has none. `stream`:
// one of several draws of the same node.
Array uniform(NodeContext& n, const Sizes& dims, std::uint64_t stream);

}  // namespace plimsoll::onnx
