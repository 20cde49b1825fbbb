// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/import/onnx/model/model.h"

namespace plimsoll::onnx {

// What a graph uses from outside, but for what is in `made`, goes into `free`.
void collect_free(const Graph& graph, std::set<std::string_view> made,
                  std::set<std::string_view>& free);

// The nodes such that each stands behind those that make what it and its graphs read. The standard
// wants them so, and they then stay as they are; some tools that change models append nodes that
// others read. `is_there`: what is a value before any of them. INVALID_ARGUMENT where a node reads
// what depends on its own result.
Result<std::vector<const Node*>> in_order(std::span<const Node> nodes,
                                          const std::function<bool(std::string_view)>& is_there);

}  // namespace plimsoll::onnx
