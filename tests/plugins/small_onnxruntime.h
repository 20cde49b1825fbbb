// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plugins/onnxruntime/abi.h"

// As much of ONNX Runtime as a plugin execution provider sees of it: graphs that tests build, the
// table of functions that read them, and what the provider hands back. Arrays are of f32 and s64.
namespace plimsoll::ort::abi {

struct Status {
  int code;
  std::string message;
};
struct TensorInfo {
  int element_type = 1;
  std::vector<std::int64_t> dims;
};
struct TypeInfo {
  int kind = kTensor;
  TensorInfo tensor;
};
struct Value {
  TensorInfo info;
  std::string bytes;
};
struct ValueInfo {
  std::string name;
  TypeInfo type;
  std::shared_ptr<const Value> constant;
};
struct OpAttribute {
  std::string name;
  int type = 0;
  std::string bytes;  // numbers as they lie in memory; texts
  std::shared_ptr<const Value> tensor;
};
struct Graph;
struct Node {
  std::string name, type, domain;
  std::vector<const ValueInfo*> inputs, implicit, outputs;
  std::vector<OpAttribute> attributes;
  std::vector<std::pair<std::string, const Graph*>> subgraphs;
};
struct Graph {
  std::vector<const ValueInfo*> inputs, outputs, constants;
  std::vector<std::unique_ptr<Node>> nodes;
  const Node* parent = nullptr;
};
struct GraphSupport {
  std::vector<std::vector<const Node*>> parts;
};
struct KernelContext {
  std::vector<const Value*> inputs;
  std::vector<Value> outputs;
};
struct KeyValuePairs {
  std::vector<const char*> keys, values;
};
struct SessionOptions {
  std::map<std::string, std::string> entries;
};
struct HardwareDevice {
  int type = kCpu;
};
struct EpDevice {
  const HardwareDevice* hardware;
};
struct Logger {
  std::string last;
};

}  // namespace plimsoll::ort::abi

namespace plimsoll::ort::testing {

// What ONNX Runtime hands to a library of providers; version 0: an ONNX Runtime older than 1.23.
const abi::ApiBase& small_onnxruntime(bool is_old = false);

abi::Value floats(std::vector<std::int64_t> dims, std::vector<float> elements);
abi::Value integers(std::vector<std::int64_t> dims, std::vector<std::int64_t> elements);
std::vector<float> floats_of(const abi::Value& value);

constexpr int kFloat = 1, kString = 8, kInt64 = 7;

// A graph and everything that its nodes name.
class GraphBuilder {
 public:
  const abi::ValueInfo* value(const std::string& name, std::vector<std::int64_t> dims = {},
                              int element_type = kFloat);
  const abi::ValueInfo* constant(const std::string& name, abi::Value value);
  // By names that there are; an output that there is not is one of floats. "": none.
  abi::Node& node(const std::string& type, std::vector<std::string> inputs,
                  std::vector<std::string> outputs, std::vector<abi::OpAttribute> attributes = {});
  void inputs(std::span<const std::string> names);
  void outputs(std::span<const std::string> names);
  // Values of the graph around, which this one sees.
  void see(const GraphBuilder& around);

  abi::Graph graph;

 private:
  std::map<std::string, const abi::ValueInfo*> values_;
  std::vector<std::unique_ptr<abi::ValueInfo>> owned_;
};

abi::OpAttribute number(const std::string& name, std::int64_t value);
abi::OpAttribute numbers(const std::string& name, std::vector<std::int64_t> values);
abi::OpAttribute real(const std::string& name, float value);
abi::OpAttribute reals(const std::string& name, std::vector<float> values);
abi::OpAttribute text(const std::string& name, const std::string& value);
abi::OpAttribute texts(const std::string& name, const std::vector<std::string>& values);
abi::OpAttribute tensor(const std::string& name, abi::Value value);

}  // namespace plimsoll::ort::testing
