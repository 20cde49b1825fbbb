// SPDX-License-Identifier: Apache-2.0
#include "plugins/onnxruntime/model_bytes.h"

#include <memory>
#include <string_view>
#include <unordered_set>

#include "plugins/onnxruntime/error.h"
#include "plugins/onnxruntime/message_writer.h"

namespace plimsoll::ort {
namespace {

// Numbers of fields in onnx/onnx.proto3 of the standard.
namespace model_field {
constexpr int kIrVersion = 1, kGraph = 7, kOpsets = 8;
}
namespace opset_field {
constexpr int kDomain = 1, kVersion = 2;
}
namespace graph_field {
constexpr int kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12;
}
namespace node_field {
constexpr int kInput = 1, kOutput = 2, kName = 3, kType = 4, kAttribute = 5, kDomain = 7;
}
namespace attribute_field {
constexpr int kName = 1, kReal = 2, kNumber = 3, kText = 4, kTensor = 5, kGraph = 6, kReals = 7,
              kNumbers = 8, kTexts = 9, kType = 20;
}
namespace tensor_field {
constexpr int kDims = 1, kType = 2, kName = 8, kRaw = 9;
}
namespace value_field {
constexpr int kName = 1, kType = 2, kTensor = 1, kElement = 1;
}

// A tensor whose elements stay where they are.
struct Tensor {
  MessageWriter head;  // all of it but the elements
  std::string_view elements;
  std::uint64_t size() const {
    return head.text().size() + MessageWriter::size_of_bytes(tensor_field::kRaw, elements.size());
  }
};

MessageWriter value_info(const Port& port) {
  MessageWriter tensor, type, value;
  tensor.number(value_field::kElement, port.element_type);
  type.message(value_field::kTensor, tensor);
  value.bytes(value_field::kName, port.name);
  value.message(value_field::kType, type);
  return value;
}

class Encoder {
 public:
  explicit Encoder(const Api& api) : api_(api) {}

  Status* model(Part& part, std::string& out) {
    MessageWriter graph;
    graph.bytes(graph_field::kName, "part");
    std::vector<Tensor> constants;
    PLIMSOLL_ORT_RETURN_IF_ERROR(find_constants(part, constants));
    for (std::size_t i = 0; i < part.inputs.size(); ++i) rename(part.inputs[i], i, graph);
    for (const Port& port : part.outputs) graph.message(graph_field::kOutput, value_info(port));
    PLIMSOLL_ORT_RETURN_IF_ERROR(add_nodes(part.nodes, graph));
    // What is large is written once, straight into its place.
    std::uint64_t size = graph.text().size();
    for (const Tensor& one : constants) {
      size += MessageWriter::size_of_bytes(graph_field::kInitializer, one.size());
    }
    MessageWriter model;
    PLIMSOLL_ORT_RETURN_IF_ERROR(add_versions(part.graph, model));
    model.reserve(model.text().size() + size + 16);
    model.begin_bytes(model_field::kGraph, size);
    model.append(graph.text());
    for (const Tensor& one : constants) {
      model.begin_bytes(graph_field::kInitializer, one.size());
      model.append(one.head.text());
      model.bytes(tensor_field::kRaw, one.elements);
    }
    out = std::move(model).take();
    return nullptr;
  }

 private:
  // The format's version first: it is what models are told from other programs by.
  Status* add_versions(const abi::Graph* graph, MessageWriter& model) {
    std::int64_t version = 0;
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.ir_version(graph, &version));
    model.number(model_field::kIrVersion, version);
    std::size_t count = 0;
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.operator_set_count(graph, &count));
    std::vector<const char*> domains(count);
    std::vector<std::int64_t> versions(count);
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.operator_sets(graph, domains.data(), versions.data(), count));
    for (std::size_t i = 0; i < count; ++i) {
      MessageWriter opset;
      opset.bytes(opset_field::kDomain, domains[i]);
      opset.number(opset_field::kVersion, versions[i]);
      model.message(model_field::kOpsets, opset);
    }
    return nullptr;
  }

  // The input by a name that parameters keep, whatever the model calls it.
  static void rename(const Port& port, std::size_t i, MessageWriter& graph) {
    Port renamed = port;
    renamed.name = input_name(i);
    graph.message(graph_field::kInput, value_info(renamed));
    MessageWriter node;
    node.bytes(node_field::kInput, renamed.name);
    node.bytes(node_field::kOutput, port.name);
    node.bytes(node_field::kType, "Identity");
    graph.message(graph_field::kNode, node);
  }

  Status* find_constants(Part& part, std::vector<Tensor>& out) {
    std::unordered_set<std::string> seen;
    for (const abi::Node* node : part.nodes) {
      std::vector<const abi::ValueInfo*> values, implicit;
      PLIMSOLL_ORT_RETURN_IF_ERROR(list(api_.node_input_count, api_.node_inputs, node, values));
      PLIMSOLL_ORT_RETURN_IF_ERROR(
          list(api_.implicit_input_count, api_.implicit_inputs, node, implicit));
      values.insert(values.end(), implicit.begin(), implicit.end());
      for (const abi::ValueInfo* value : values) {
        if (value == nullptr) continue;
        bool is_constant = false;
        PLIMSOLL_ORT_RETURN_IF_ERROR(api_.is_constant_initializer(value, &is_constant));
        Port port;
        if (is_constant) PLIMSOLL_ORT_RETURN_IF_ERROR(describe(api_, value, port));
        if (!is_constant || !seen.insert(port.name).second) continue;
        const abi::Value* elements = nullptr;
        PLIMSOLL_ORT_RETURN_IF_ERROR(api_.initializer_value(value, &elements));
        if (elements == nullptr) {
          return make_error(api_, abi::kFail, "constant '" + port.name + "' has no value");
        }
        Tensor tensor;
        PLIMSOLL_ORT_RETURN_IF_ERROR(describe_tensor(elements, port.name, tensor));
        if (static_cast<std::int64_t>(tensor.elements.size()) > part.largest_constant) {
          part.inputs.push_back(std::move(port));
        } else {
          out.push_back(std::move(tensor));
        }
      }
    }
    return nullptr;
  }

  Status* describe_tensor(const abi::Value* value, const std::string& name, Tensor& out) {
    abi::TensorInfo* made = nullptr;
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.type_and_shape(value, &made));
    const std::unique_ptr<abi::TensorInfo, void (*)(abi::TensorInfo*)> info(
        made, api_.release_tensor_info);
    int type = 0;
    std::size_t rank = 0, size = 0;
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.element_type(made, &type));
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.rank(made, &rank));
    std::vector<std::int64_t> dims(rank);
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.dims(made, dims.data(), rank));
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.tensor_bytes(value, &size));
    const void* data = nullptr;
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.tensor_data(value, &data));
    for (const std::int64_t dim : dims) out.head.number(tensor_field::kDims, dim);
    out.head.number(tensor_field::kType, type);
    out.head.bytes(tensor_field::kName, name);
    out.elements = {static_cast<const char*>(data), size};
    return nullptr;
  }

  Status* add_tensor(const abi::Value* value, const std::string& name, std::uint64_t field,
                     MessageWriter& out) {
    Tensor tensor;
    PLIMSOLL_ORT_RETURN_IF_ERROR(describe_tensor(value, name, tensor));
    tensor.head.bytes(tensor_field::kRaw, tensor.elements);
    out.message(field, tensor.head);
    return nullptr;
  }

  Status* add_nodes(const std::vector<const abi::Node*>& nodes, MessageWriter& graph) {
    for (const abi::Node* node : nodes) {
      MessageWriter written;
      PLIMSOLL_ORT_RETURN_IF_ERROR(add_node(node, written));
      graph.message(graph_field::kNode, written);
    }
    return nullptr;
  }

  Status* add_node(const abi::Node* node, MessageWriter& out) {
    std::vector<const abi::ValueInfo*> inputs, outputs;
    PLIMSOLL_ORT_RETURN_IF_ERROR(list(api_.node_input_count, api_.node_inputs, node, inputs));
    PLIMSOLL_ORT_RETURN_IF_ERROR(list(api_.node_output_count, api_.node_outputs, node, outputs));
    PLIMSOLL_ORT_RETURN_IF_ERROR(add_names(inputs, node_field::kInput, out));
    PLIMSOLL_ORT_RETURN_IF_ERROR(add_names(outputs, node_field::kOutput, out));
    const char *name = nullptr, *type = nullptr, *domain = nullptr;
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.node_name(node, &name));
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.operator_type(node, &type));
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.domain(node, &domain));
    out.bytes(node_field::kName, name);
    out.bytes(node_field::kType, type);
    out.bytes(node_field::kDomain, domain);
    std::vector<const abi::OpAttribute*> attributes;
    PLIMSOLL_ORT_RETURN_IF_ERROR(list(api_.attribute_count, api_.attributes, node, attributes));
    for (const abi::OpAttribute* attribute : attributes) {
      int kind = 0;
      PLIMSOLL_ORT_RETURN_IF_ERROR(api_.attribute_type(attribute, &kind));
      if (kind == abi::kAttributeGraph) continue;  // those of all attributes are listed below
      MessageWriter written;
      PLIMSOLL_ORT_RETURN_IF_ERROR(add_attribute(attribute, kind, written));
      out.message(node_field::kAttribute, written);
    }
    return add_subgraphs(node, out);
  }

  // A missing one has no name.
  Status* add_names(const std::vector<const abi::ValueInfo*>& values, std::uint64_t field,
                    MessageWriter& out) {
    for (const abi::ValueInfo* value : values) {
      const char* name = "";
      if (value != nullptr) PLIMSOLL_ORT_RETURN_IF_ERROR(api_.value_name(value, &name));
      out.bytes(field, name);
    }
    return nullptr;
  }

  template <typename T>
  Status* read_list(const abi::OpAttribute* attribute, int kind, std::vector<T>& out) {
    std::size_t bytes = 0;
    // Fails where there is no room, and says how much there has to be.
    if (Status* const no_room = api_.read_attribute(attribute, kind, nullptr, 0, &bytes)) {
      api_.release_status(no_room);
    }
    out.resize(bytes / sizeof(T));
    return out.empty() ? nullptr : api_.read_attribute(attribute, kind, out.data(), bytes, &bytes);
  }

  Status* add_attribute(const abi::OpAttribute* attribute, int kind, MessageWriter& out) {
    const char* name = nullptr;
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.attribute_name(attribute, &name));
    out.bytes(attribute_field::kName, name);
    std::size_t size = 0;
    // The standard's numbers of types.
    constexpr int kReal = 1, kNumber = 2, kText = 3, kTensor = 4, kReals = 6, kNumbers = 7,
                  kTexts = 8;
    switch (kind) {
      case abi::kAttributeInt: {
        std::int64_t value = 0;
        PLIMSOLL_ORT_RETURN_IF_ERROR(
            api_.read_attribute(attribute, kind, &value, sizeof value, &size));
        out.number(attribute_field::kNumber, value);
        out.number(attribute_field::kType, kNumber);
        return nullptr;
      }
      case abi::kAttributeFloat: {
        float value = 0;
        PLIMSOLL_ORT_RETURN_IF_ERROR(
            api_.read_attribute(attribute, kind, &value, sizeof value, &size));
        out.real(attribute_field::kReal, value);
        out.number(attribute_field::kType, kReal);
        return nullptr;
      }
      case abi::kAttributeInts: {
        std::vector<std::int64_t> values;
        PLIMSOLL_ORT_RETURN_IF_ERROR(read_list(attribute, kind, values));
        for (const std::int64_t value : values) out.number(attribute_field::kNumbers, value);
        out.number(attribute_field::kType, kNumbers);
        return nullptr;
      }
      case abi::kAttributeFloats: {
        std::vector<float> values;
        PLIMSOLL_ORT_RETURN_IF_ERROR(read_list(attribute, kind, values));
        for (const float value : values) out.real(attribute_field::kReals, value);
        out.number(attribute_field::kType, kReals);
        return nullptr;
      }
      case abi::kAttributeString: {
        std::vector<char> text;
        PLIMSOLL_ORT_RETURN_IF_ERROR(read_list(attribute, kind, text));
        out.bytes(attribute_field::kText, {text.data(), text.size()});
        out.number(attribute_field::kType, kText);
        return nullptr;
      }
      case abi::kAttributeStrings: {  // one behind the other, each with a zero at its end
        std::vector<char> texts;
        PLIMSOLL_ORT_RETURN_IF_ERROR(read_list(attribute, kind, texts));
        for (std::size_t i = 0; i < texts.size();) {
          const std::string_view text(texts.data() + i);
          out.bytes(attribute_field::kTexts, text);
          i += text.size() + 1;
        }
        out.number(attribute_field::kType, kTexts);
        return nullptr;
      }
      case abi::kAttributeTensor: {
        abi::Value* made = nullptr;
        PLIMSOLL_ORT_RETURN_IF_ERROR(api_.attribute_tensor(attribute, &made));
        const std::unique_ptr<abi::Value, void (*)(abi::Value*)> value(made, api_.release_value);
        PLIMSOLL_ORT_RETURN_IF_ERROR(add_tensor(made, "", attribute_field::kTensor, out));
        out.number(attribute_field::kType, kTensor);
        return nullptr;
      }
      default:
        return make_error(api_, abi::kNotImplemented,
                          std::string("attribute '") + name + "' is of a type that is not read");
    }
  }

  Status* add_subgraphs(const abi::Node* node, MessageWriter& out) {
    std::size_t count = 0;
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.subgraph_count(node, &count));
    if (count == 0) return nullptr;
    std::vector<const abi::Graph*> graphs(count);
    std::vector<const char*> names(count);
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.subgraphs(node, graphs.data(), count, names.data()));
    for (std::size_t i = 0; i < count; ++i) {
      MessageWriter graph, attribute;
      PLIMSOLL_ORT_RETURN_IF_ERROR(add_subgraph(graphs[i], graph));
      constexpr int kGraph = 5;
      attribute.bytes(attribute_field::kName, names[i]);
      attribute.message(attribute_field::kGraph, graph);
      attribute.number(attribute_field::kType, kGraph);
      out.message(node_field::kAttribute, attribute);
    }
    return nullptr;
  }

  // A branch or a body: names of graphs around it are seen in it.
  Status* add_subgraph(const abi::Graph* graph, MessageWriter& out) {
    out.bytes(graph_field::kName, "body");
    std::vector<const abi::ValueInfo*> inputs, outputs, constants;
    PLIMSOLL_ORT_RETURN_IF_ERROR(list(api_.graph_input_count, api_.graph_inputs, graph, inputs));
    PLIMSOLL_ORT_RETURN_IF_ERROR(list(api_.graph_output_count, api_.graph_outputs, graph, outputs));
    PLIMSOLL_ORT_RETURN_IF_ERROR(list(api_.initializer_count, api_.initializers, graph, constants));
    for (const abi::ValueInfo* value : inputs) {
      Port port;
      PLIMSOLL_ORT_RETURN_IF_ERROR(describe(api_, value, port));
      out.message(graph_field::kInput, value_info(port));
    }
    for (const abi::ValueInfo* value : outputs) {
      Port port;
      PLIMSOLL_ORT_RETURN_IF_ERROR(describe(api_, value, port));
      out.message(graph_field::kOutput, value_info(port));
    }
    for (const abi::ValueInfo* value : constants) {
      const char* name = nullptr;
      const abi::Value* elements = nullptr;
      PLIMSOLL_ORT_RETURN_IF_ERROR(api_.value_name(value, &name));
      PLIMSOLL_ORT_RETURN_IF_ERROR(api_.initializer_value(value, &elements));
      if (elements == nullptr) continue;
      PLIMSOLL_ORT_RETURN_IF_ERROR(add_tensor(elements, name, graph_field::kInitializer, out));
    }
    std::vector<const abi::Node*> nodes;
    PLIMSOLL_ORT_RETURN_IF_ERROR(list(api_.node_count, api_.nodes, graph, nodes));
    return add_nodes(nodes, out);
  }

  const Api& api_;
};

}  // namespace

// A name that no exporter gives: values within the graph keep theirs.
std::string input_name(std::size_t i) { return "plimsoll input." + std::to_string(i); }

Status* describe(const Api& api, const abi::ValueInfo* value, Port& out) {
  const char* name = nullptr;
  const abi::TypeInfo* type = nullptr;
  PLIMSOLL_ORT_RETURN_IF_ERROR(api.value_name(value, &name));
  PLIMSOLL_ORT_RETURN_IF_ERROR(api.value_type(value, &type));
  out = {name, 0, {}};
  int kind = 0;
  if (type != nullptr) PLIMSOLL_ORT_RETURN_IF_ERROR(api.kind_of(type, &kind));
  if (kind != abi::kTensor) return nullptr;
  const abi::TensorInfo* tensor = nullptr;
  PLIMSOLL_ORT_RETURN_IF_ERROR(api.tensor_info_of(type, &tensor));
  if (tensor == nullptr) return nullptr;
  std::size_t rank = 0;
  PLIMSOLL_ORT_RETURN_IF_ERROR(api.element_type(tensor, &out.element_type));
  PLIMSOLL_ORT_RETURN_IF_ERROR(api.rank(tensor, &rank));
  out.dims.resize(rank);
  return rank == 0 ? nullptr : api.dims(tensor, out.dims.data(), rank);
}

Status* model_bytes(const Api& api, Part& part, std::string& out) {
  return Encoder(api).model(part, out);
}

}  // namespace plimsoll::ort
