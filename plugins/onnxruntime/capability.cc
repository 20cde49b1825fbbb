// SPDX-License-Identifier: Apache-2.0
#include "plugins/onnxruntime/capability.h"

#include <plimsoll/plimsoll.h>

#include <algorithm>
#include <string>
#include <unordered_set>

#include "plugins/onnxruntime/element_type.h"
#include "plugins/onnxruntime/error.h"
#include "plugins/onnxruntime/model_bytes.h"

namespace plimsoll::ort {
namespace {

// What decides shapes has few elements; weights need not be copied to see whether a node is read.
constexpr std::int64_t kLargestConstant = 4096;
// Stands for a size that is not known yet.
constexpr std::int64_t kSomeSize = 2;

bool is_whole_number(int element_type) {
  const auto dtype = dtype_of(element_type);
  return dtype && (*dtype == PLM_S32 || *dtype == PLM_S64);
}

class Reader {
 public:
  Reader(const Api& api, const abi::Graph* graph) : api_(api), graph_(graph) {}

  Status* reads(const abi::Node* node, bool& out) {
    out = false;
    Part part{graph_, {node}, {}, {}, kLargestConstant};
    bool holds = true;
    PLIMSOLL_ORT_RETURN_IF_ERROR(add_ports(node, part, holds));
    if (!holds) return nullptr;
    std::string bytes;
    if (Status* const failed = model_bytes(api_, part, bytes)) {
      api_.release_status(failed);  // of a type that is not read
      return nullptr;
    }
    std::vector<std::string> names;
    std::vector<plm_model_input> inputs;
    bool is_open = false;
    for (std::size_t i = 0; i < part.inputs.size(); ++i) names.push_back(input_name(i));
    for (std::size_t i = 0; i < part.inputs.size(); ++i) {
      Port& port = part.inputs[i];
      const auto dtype = dtype_of(port.element_type);
      if (!dtype) return nullptr;
      // Scalars look like arrays of which nothing is known; what decides shapes is known only when
      // the model runs.
      is_open = is_open || port.dims.empty() ||
                (is_whole_number(port.element_type) && port.dims.size() == 1);
      for (std::int64_t& dim : port.dims) {
        is_open = is_open || dim < 0;
        if (dim < 0) dim = kSomeSize;
      }
      inputs.push_back({names[i].c_str(), *dtype, port.dims.size(), port.dims.data(), nullptr});
    }
    plm_status* const status =
        plm_program_check(bytes.data(), bytes.size(), "node", inputs.data(), inputs.size());
    const plm_code code = plm_status_code(status);
    plm_status_free(status);
    out = code == PLM_OK || (code == PLM_INVALID_ARGUMENT && is_open);
    return nullptr;
  }

 private:
  // `holds`: whether all are tensors of dtypes that programs hold.
  Status* add_ports(const abi::Node* node, Part& part, bool& holds) {
    std::vector<const abi::ValueInfo*> inputs, implicit, outputs;
    PLIMSOLL_ORT_RETURN_IF_ERROR(list(api_.node_input_count, api_.node_inputs, node, inputs));
    PLIMSOLL_ORT_RETURN_IF_ERROR(
        list(api_.implicit_input_count, api_.implicit_inputs, node, implicit));
    PLIMSOLL_ORT_RETURN_IF_ERROR(list(api_.node_output_count, api_.node_outputs, node, outputs));
    inputs.insert(inputs.end(), implicit.begin(), implicit.end());
    std::unordered_set<std::string> seen;
    for (const abi::ValueInfo* value : inputs) {
      if (value == nullptr) continue;
      Port port;
      PLIMSOLL_ORT_RETURN_IF_ERROR(describe(api_, value, port));
      if (port.name.empty() || !seen.insert(port.name).second) continue;
      holds = holds && dtype_of(port.element_type).has_value();
      bool is_constant = false;
      PLIMSOLL_ORT_RETURN_IF_ERROR(api_.is_constant_initializer(value, &is_constant));
      if (!is_constant) part.inputs.push_back(std::move(port));
    }
    for (const abi::ValueInfo* value : outputs) {
      if (value == nullptr) continue;
      Port port;
      PLIMSOLL_ORT_RETURN_IF_ERROR(describe(api_, value, port));
      if (port.name.empty()) continue;
      holds = holds && dtype_of(port.element_type).has_value();
      part.outputs.push_back(std::move(port));
    }
    return nullptr;
  }

  const Api& api_;
  const abi::Graph* const graph_;
};

}  // namespace

Status* find_capability(const Api& api, const abi::Graph* graph, Capability& out) {
  const abi::Node* parent = nullptr;
  PLIMSOLL_ORT_RETURN_IF_ERROR(api.parent_node(graph, &parent));
  if (parent != nullptr) return nullptr;
  std::vector<const abi::Node*> nodes;
  PLIMSOLL_ORT_RETURN_IF_ERROR(list(api.node_count, api.nodes, graph, nodes));
  out.nodes = nodes.size();
  Reader reader(api, graph);
  bool goes_on = false;
  for (const abi::Node* node : nodes) {
    bool reads = false;
    PLIMSOLL_ORT_RETURN_IF_ERROR(reader.reads(node, reads));
    if (reads && !goes_on) out.parts.emplace_back();
    if (reads) out.parts.back().push_back(node);
    out.taken += reads ? 1 : 0;
    goes_on = reads;
  }
  return nullptr;
}

}  // namespace plimsoll::ort
