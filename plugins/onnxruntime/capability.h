// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plugins/onnxruntime/api.h"

namespace plimsoll::ort {

// Which nodes of a graph may be run here: those whose arrays are tensors of dtypes that programs
// hold, and that are read as a model of that node alone. Branches and bodies go with their node.
// Each of `parts` is a run of such nodes in the order in which ONNX Runtime lists them, so that
// nothing else stands between them.
struct Capability {
  std::size_t nodes = 0, taken = 0;
  std::vector<std::vector<const abi::Node*>> parts;
};
Status* find_capability(const Api& api, const abi::Graph* graph, Capability& out);

}  // namespace plimsoll::ort
