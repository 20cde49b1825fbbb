// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/onnxruntime/api.h"

namespace plimsoll::ort {

// An array that goes into a graph or comes out of it.
struct Port {
  std::string name;
  int element_type = 0;            // 0: no tensor
  std::vector<std::int64_t> dims;  // below zero: not said. Empty for scalars and where nothing is
                                   // known.
};
Status* describe(const Api& api, const abi::ValueInfo* value, Port& out);

// What a model is made of: nodes of `graph`, each behind those that it reads.
struct Part {
  const abi::Graph* graph = nullptr;
  std::vector<const abi::Node*> nodes;
  std::vector<Port> inputs, outputs;  // in their order
  // Constants of more bytes become inputs, behind the others.
  std::int64_t largest_constant = INT64_MAX;
};

// The name that input `i` has in the model.
std::string input_name(std::size_t i);

// A model in ONNX (ModelProto) of the part, whose inputs have dtypes and no sizes. Constants are
// copied once. Fails on types that are no tensors, and with what ONNX Runtime says.
Status* model_bytes(const Api& api, Part& part, std::string& out);

}  // namespace plimsoll::ort
