// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

// What an ONNX file says (onnx/onnx.proto3 of the standard), as it says it. Texts and the messages
// of tensors point into the bytes of the file, which must outlive the model.
namespace plimsoll::onnx {

struct Graph;

// One attribute of a node. What it holds is what `type` says, in the standard's numbers.
struct Attribute {
  enum Type : std::int64_t {
    kNone = 0,
    kFloat = 1,
    kInt = 2,
    kString = 3,
    kTensor = 4,
    kGraph = 5,
    kFloats = 6,
    kInts = 7,
    kStrings = 8,
    kTensors = 9,
    kGraphs = 10,
    kTypeProto = 13,
  };
  std::string_view name;
  std::int64_t type = kNone;
  std::string_view reference;  // in functions: the attribute of the call that stands here
  float real = 0;
  std::int64_t number = 0;
  std::string_view text;
  std::string_view tensor;  // a TensorProto (tensors.h)
  std::string_view type_proto;
  std::shared_ptr<const Graph> graph;
  std::vector<float> reals;
  std::vector<std::int64_t> numbers;
  std::vector<std::string_view> texts;
};

struct Node {
  std::string_view name, op_type, domain, overload;
  std::vector<std::string_view> inputs, outputs;  // "": not given
  std::vector<Attribute> attributes;

  // Null where there is none.
  const Attribute* find(std::string_view attribute) const;
  // For messages: `node 'x' (Add)`; of a node without a name its first output's.
  std::string describe() const;
};

struct Dimension {
  std::int64_t size = -1;      // -1: not said
  std::string_view parameter;  // the name of an unknown size
};

// The type of an input, an output or an optional: a tensor of element type `element` (the
// standard's number), or a sequence or an optional of one.
struct ValueType {
  enum class Kind : std::uint8_t { unknown, tensor, sequence, optional, other };
  Kind kind = Kind::unknown;
  std::int64_t element = 0;
  bool has_shape = false;
  std::vector<Dimension> dims;
};

struct ValueInfo {
  std::string_view name;
  ValueType type;
};

struct Initializer {
  std::string_view name;
  std::string_view tensor;
};

struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<Initializer> initializers;
  std::vector<ValueInfo> inputs, outputs;
};

using Opsets = std::map<std::string_view, std::int64_t>;  // version by domain; "" is ai.onnx's

struct Function {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<Attribute> defaults;
  std::vector<Node> nodes;
  Opsets opsets;
};

struct Model {
  std::int64_t ir_version = 0;
  Graph graph;
  Opsets opsets;
  std::vector<Function> functions;
};

// Whether these may be the bytes of a model: they begin with the version of its format, as no text
// and no serialized HLO module does.
bool looks_like_model(std::string_view bytes);

// INVALID_ARGUMENT that names the part which makes no sense. Graphs stand at most 16 deep in each
// other.
Result<Model> read_model(std::string_view bytes);

// Of a TypeProto.
Result<ValueType> read_type(std::string_view message);

// What a tensor's message says of it, but for its values.
Result<std::string_view> tensor_name(std::string_view message);

// INVALID_ARGUMENT that names the part which can't be right.
Status broken(std::string_view part);

}  // namespace plimsoll::onnx
