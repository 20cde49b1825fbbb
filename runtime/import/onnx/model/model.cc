// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/onnx/model/model.h"

#include <bit>
#include <utility>

#include "runtime/import/wire/wire.h"

namespace plimsoll::onnx {
namespace {

using wire::Field;
using wire::Message;

constexpr int kDeepest = 16;

Result<Graph> read_graph(std::string_view message, int depth);

// Numbers of floats: one, or several in one field.
bool take_reals(const Field& field, std::vector<float>& reals) {
  constexpr std::size_t kBytes = 4;
  if (field.kind == Field::Kind::number) {
    reals.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(field.number)));
    return field.width == kBytes;
  }
  if (field.bytes.size() % kBytes != 0) return false;
  for (std::size_t i = 0; i < field.bytes.size(); i += kBytes) {
    std::uint32_t bits = 0;
    for (std::size_t k = kBytes; k-- > 0;) {
      bits = bits << 8U | static_cast<std::uint8_t>(field.bytes[i + k]);
    }
    reals.push_back(std::bit_cast<float>(bits));
  }
  return true;
}

bool take_numbers(const Field& field, std::vector<std::int64_t>& numbers) {
  if (field.kind == Field::Kind::number) {
    numbers.push_back(static_cast<std::int64_t>(field.number));
    return true;
  }
  std::string_view left = field.bytes;
  for (std::uint64_t value = 0; !left.empty();) {
    if (!wire::take_varint(left, value)) return false;
    numbers.push_back(static_cast<std::int64_t>(value));
  }
  return true;
}

// What older writers leave out: the type, which the one field that is there says.
std::int64_t type_by_field(std::uint64_t id) {
  switch (id) {
    case 2:
      return Attribute::kFloat;
    case 3:
      return Attribute::kInt;
    case 4:
      return Attribute::kString;
    case 5:
      return Attribute::kTensor;
    case 6:
      return Attribute::kGraph;
    case 7:
      return Attribute::kFloats;
    case 8:
      return Attribute::kInts;
    case 9:
      return Attribute::kStrings;
    default:
      return Attribute::kNone;
  }
}

Result<Attribute> read_attribute(std::string_view message, int depth) {
  Attribute attribute;
  std::string_view graph;
  std::int64_t implied = Attribute::kNone;
  bool is_good = true;
  Message fields(message);
  for (Field field; is_good && fields.next(field);) {
    const bool is_number = field.kind == Field::Kind::number;
    if (const auto type = type_by_field(field.id); type != Attribute::kNone) implied = type;
    switch (field.id) {
      case 1:
        attribute.name = field.bytes;
        break;
      case 2:
        is_good = is_number && field.width == 4;
        attribute.real = std::bit_cast<float>(static_cast<std::uint32_t>(field.number));
        break;
      case 3:
        is_good = is_number;
        attribute.number = static_cast<std::int64_t>(field.number);
        break;
      case 4:
        attribute.text = field.bytes;
        break;
      case 5:
        attribute.tensor = field.bytes;
        break;
      case 6:
        graph = field.bytes;
        break;
      case 7:
        is_good = take_reals(field, attribute.reals);
        break;
      case 8:
        is_good = take_numbers(field, attribute.numbers);
        break;
      case 9:
        attribute.texts.push_back(field.bytes);
        break;
      case 14:
        attribute.type_proto = field.bytes;
        break;
      case 20:
        is_good = is_number;
        attribute.type = static_cast<std::int64_t>(field.number);
        break;
      case 21:
        attribute.reference = field.bytes;
        break;
      default:
        break;
    }
  }
  if (!is_good || fields.is_bad()) {
    return broken("attribute '" + std::string(attribute.name) + "'");
  }
  if (attribute.type == Attribute::kNone) attribute.type = implied;
  if (attribute.type == Attribute::kGraph && attribute.reference.empty()) {
    PLIMSOLL_ASSIGN_OR_RETURN(Graph inner, read_graph(graph, depth + 1));
    attribute.graph = std::make_shared<const Graph>(std::move(inner));
  }
  return attribute;
}

Result<Node> read_node(std::string_view message, int depth) {
  Node node;
  std::vector<std::string_view> attributes;
  if (!wire::read_fields(message, {{1, &node.inputs},
                                   {2, &node.outputs},
                                   {3, &node.name},
                                   {4, &node.op_type},
                                   {5, &attributes},
                                   {7, &node.domain},
                                   {8, &node.overload}})) {
    return broken("a node");
  }
  if (node.domain == "ai.onnx") node.domain = {};
  for (const std::string_view attribute : attributes) {
    auto read = read_attribute(attribute, depth);
    if (!read.ok()) return read.status().with_context(node.describe());
    node.attributes.push_back(std::move(*read));
  }
  return node;
}

Result<ValueInfo> read_value_info(std::string_view message) {
  ValueInfo info;
  std::string_view type;
  if (!wire::read_fields(message, {{1, &info.name}, {2, &type}})) return broken("a value's type");
  auto read = read_type(type);
  if (!read.ok()) return read.status().with_context("value '" + std::string(info.name) + "'");
  info.type = std::move(*read);
  return info;
}

Result<Graph> read_graph(std::string_view message, int depth) {
  if (depth > kDeepest) return invalid_argument("graphs stand more than 16 deep in each other");
  Graph graph;
  std::vector<std::string_view> nodes, initializers, inputs, outputs, sparse;
  if (!wire::read_fields(message, {{1, &nodes},
                                   {2, &graph.name},
                                   {5, &initializers},
                                   {11, &inputs},
                                   {12, &outputs},
                                   {15, &sparse}})) {
    return broken("a graph");
  }
  if (!sparse.empty()) {
    return unimplemented("graph '" + std::string(graph.name) +
                         "': sparse initializers (write them as dense tensors)");
  }
  for (const std::string_view node : nodes) {
    PLIMSOLL_ASSIGN_OR_RETURN(Node read, read_node(node, depth));
    graph.nodes.push_back(std::move(read));
  }
  for (const std::string_view initializer : initializers) {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view name, tensor_name(initializer));
    graph.initializers.push_back({name, initializer});
  }
  for (const std::string_view input : inputs) {
    PLIMSOLL_ASSIGN_OR_RETURN(ValueInfo read, read_value_info(input));
    graph.inputs.push_back(std::move(read));
  }
  for (const std::string_view output : outputs) {
    PLIMSOLL_ASSIGN_OR_RETURN(ValueInfo read, read_value_info(output));
    graph.outputs.push_back(std::move(read));
  }
  return graph;
}

Result<Opsets> read_opsets(const std::vector<std::string_view>& messages) {
  Opsets opsets;
  for (const std::string_view message : messages) {
    std::string_view domain;
    std::int64_t version = 0;
    if (!wire::read_fields(message, {{1, &domain}, {2, &version}})) return broken("an opset");
    opsets[domain == "ai.onnx" ? std::string_view() : domain] = version;
  }
  return opsets;
}

Result<Function> read_function(std::string_view message) {
  Function function;
  std::vector<std::string_view> nodes, opsets, defaults;
  if (!wire::read_fields(message, {{1, &function.name},
                                   {4, &function.inputs},
                                   {5, &function.outputs},
                                   {7, &nodes},
                                   {9, &opsets},
                                   {10, &function.domain},
                                   {11, &defaults},
                                   {13, &function.overload}})) {
    return broken("a function");
  }
  for (const std::string_view attribute : defaults) {
    PLIMSOLL_ASSIGN_OR_RETURN(Attribute read, read_attribute(attribute, 1));
    function.defaults.push_back(std::move(read));
  }
  for (const std::string_view node : nodes) {
    PLIMSOLL_ASSIGN_OR_RETURN(Node read, read_node(node, 1));
    function.nodes.push_back(std::move(read));
  }
  PLIMSOLL_ASSIGN_OR_RETURN(function.opsets, read_opsets(opsets));
  return function;
}

Result<ValueType> read_type_at(std::string_view message, int depth) {
  ValueType type;
  std::string_view tensor, sequence, optional, map, sparse;
  if (depth > kDeepest ||
      !wire::read_fields(message,
                         {{1, &tensor}, {4, &sequence}, {5, &map}, {8, &sparse}, {9, &optional}})) {
    return broken("a type");
  }
  for (const auto& [inner, kind] : {std::pair{sequence, ValueType::Kind::sequence},
                                    std::pair{optional, ValueType::Kind::optional}}) {
    if (inner.empty()) continue;
    std::string_view element;
    if (!wire::read_fields(inner, {{1, &element}})) return broken("a type");
    PLIMSOLL_ASSIGN_OR_RETURN(type, read_type_at(element, depth + 1));
    type.kind = kind;
    return type;
  }
  if (!map.empty() || !sparse.empty()) {
    type.kind = ValueType::Kind::other;
    return type;
  }
  if (tensor.data() == nullptr) return type;
  std::string_view shape;
  if (!wire::read_fields(tensor, {{1, &type.element}, {2, &shape}})) return broken("a type");
  type.kind = ValueType::Kind::tensor;
  type.has_shape = shape.data() != nullptr;
  std::vector<std::string_view> dims;
  if (!wire::read_fields(shape, {{1, &dims}})) return broken("a shape");
  for (const std::string_view dim : dims) {
    Dimension read;
    if (!wire::read_fields(dim, {{1, &read.size}, {2, &read.parameter}})) return broken("a shape");
    type.dims.push_back(read);
  }
  return type;
}

}  // namespace

const Attribute* Node::find(std::string_view attribute) const {
  for (const Attribute& one : attributes) {
    if (one.name == attribute) return &one;
  }
  return nullptr;
}

std::string Node::describe() const {
  std::string_view called = name;
  if (called.empty() && !outputs.empty()) called = outputs.front();
  std::string text = "node '" + std::string(called) + "' (";
  if (!domain.empty()) text += std::string(domain) + ".";
  return text + std::string(op_type) + ")";
}

bool looks_like_model(std::string_view bytes) { return bytes.starts_with('\x08'); }

Result<Model> read_model(std::string_view bytes) {
  Model model;
  std::string_view graph;
  std::vector<std::string_view> opsets, functions;
  if (!wire::read_fields(bytes,
                         {{1, &model.ir_version}, {7, &graph}, {8, &opsets}, {25, &functions}})) {
    return broken("the model (perhaps its file is not whole)");
  }
  if (graph.data() == nullptr) return invalid_argument("ONNX: the model has no graph");
  PLIMSOLL_ASSIGN_OR_RETURN(model.opsets, read_opsets(opsets));
  PLIMSOLL_ASSIGN_OR_RETURN(model.graph, read_graph(graph, 1));
  for (const std::string_view function : functions) {
    PLIMSOLL_ASSIGN_OR_RETURN(Function read, read_function(function));
    model.functions.push_back(std::move(read));
  }
  return model;
}

Result<ValueType> read_type(std::string_view message) { return read_type_at(message, 1); }

Result<std::string_view> tensor_name(std::string_view message) {
  std::string_view name;
  if (!wire::read_fields(message, {{8, &name}})) return broken("a tensor");
  return name;
}

Status broken(std::string_view part) {
  return invalid_argument("ONNX: " + std::string(part) + " makes no sense");
}

}  // namespace plimsoll::onnx
