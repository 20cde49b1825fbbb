// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/small_onnxruntime.h"

#include <array>
#include <cstring>

namespace plimsoll::ort::abi {
namespace {

// The functions of the table, by the names that functions.def gives them.
namespace table {

Status* create_status(int code, const char* message) { return new Status{code, message}; }
int error_code(const Status* status) { return status->code; }
void release_status(Status* status) { delete status; }
Status* log(const Logger* logger, int, const char* message, const char*, int, const char*) {
  const_cast<Logger*>(logger)->last = message;
  return nullptr;
}

// What is asked for the items without enough room is an error there.
template <typename Item, typename From>
Status* copy_items(const std::vector<From>& items, const Item** out, std::size_t count) {
  if (count != items.size()) return create_status(kInvalidArgument, "count");
  for (std::size_t i = 0; i < count; ++i) out[i] = &*items[i];
  return nullptr;
}
Status* copy_values(const std::vector<const ValueInfo*>& items, const ValueInfo** out,
                    std::size_t count) {
  if (count != items.size()) return create_status(kInvalidArgument, "count");
  std::copy(items.begin(), items.end(), out);
  return nullptr;
}
Status* set_count(std::size_t size, std::size_t* count) {
  *count = size;
  return nullptr;
}

Status* tensor_mutable_data(Value* value, void** data) {
  *data = value->bytes.data();
  return nullptr;
}
Status* tensor_data(const Value* value, const void** data) {
  *data = value->bytes.data();
  return nullptr;
}
Status* tensor_bytes(const Value* value, std::size_t* bytes) {
  return set_count(value->bytes.size(), bytes);
}
Status* type_and_shape(const Value* value, TensorInfo** info) {
  *info = new TensorInfo(value->info);
  return nullptr;
}
void release_tensor_info(TensorInfo* info) { delete info; }
void release_value(Value* value) { delete value; }
Status* tensor_info_of(const TypeInfo* type, const TensorInfo** info) {
  *info = type->kind == kTensor ? &type->tensor : nullptr;
  return nullptr;
}
Status* kind_of(const TypeInfo* type, int* kind) {
  *kind = type->kind;
  return nullptr;
}
Status* element_type(const TensorInfo* info, int* type) {
  *type = info->element_type;
  return nullptr;
}
Status* rank(const TensorInfo* info, std::size_t* rank) {
  return set_count(info->dims.size(), rank);
}
Status* dims(const TensorInfo* info, std::int64_t* dims, std::size_t rank) {
  if (rank != info->dims.size()) return create_status(kInvalidArgument, "rank");
  std::copy(info->dims.begin(), info->dims.end(), dims);
  return nullptr;
}

Status* input(const KernelContext* context, std::size_t index, const Value** value) {
  *value = context->inputs.at(index);
  return nullptr;
}
Status* output(KernelContext* context, std::size_t index, const std::int64_t* dims,
               std::size_t rank, Value** value) {
  Value& made = context->outputs.at(index);
  made.info.dims.assign(dims, dims + rank);
  std::int64_t count = 1;
  for (const std::int64_t dim : made.info.dims) count *= dim;
  made.bytes.resize(static_cast<std::size_t>(count) * (made.info.element_type == 7 ? 8 : 4));
  *value = &made;
  return nullptr;
}

Status* read_attribute(const OpAttribute* attribute, int type, void* data, std::size_t bytes,
                       std::size_t* needed) {
  if (type != attribute->type) return create_status(kInvalidArgument, "type");
  *needed = attribute->bytes.size();
  if (bytes < attribute->bytes.size()) return create_status(kFail, "no room");
  std::memcpy(data, attribute->bytes.data(), attribute->bytes.size());
  return nullptr;
}
Status* attribute_tensor(const OpAttribute* attribute, Value** value) {
  *value = new Value(*attribute->tensor);
  return nullptr;
}
Status* attribute_type(const OpAttribute* attribute, int* type) {
  *type = attribute->type;
  return nullptr;
}
Status* attribute_name(const OpAttribute* attribute, const char** name) {
  *name = attribute->name.c_str();
  return nullptr;
}

Status* value_name(const ValueInfo* value, const char** name) {
  *name = value->name.c_str();
  return nullptr;
}
Status* value_type(const ValueInfo* value, const TypeInfo** type) {
  *type = &value->type;
  return nullptr;
}
Status* initializer_value(const ValueInfo* value, const Value** out) {
  *out = value->constant.get();
  return nullptr;
}
Status* is_constant_initializer(const ValueInfo* value, bool* out) {
  *out = value->constant != nullptr;
  return nullptr;
}

void key_value_pairs(const KeyValuePairs* pairs, const char* const** keys,
                     const char* const** values, std::size_t* count) {
  *keys = pairs->keys.data();
  *values = pairs->values.data();
  *count = pairs->keys.size();
}
void release_key_value_pairs(KeyValuePairs* pairs) { delete pairs; }
Status* config_entries(const SessionOptions* options, KeyValuePairs** out) {
  *out = new KeyValuePairs;
  for (const auto& [key, value] : options->entries) {
    (*out)->keys.push_back(key.c_str());
    (*out)->values.push_back(value.c_str());
  }
  return nullptr;
}
int hardware_type(const HardwareDevice* device) { return device->type; }

Status* ir_version(const Graph*, std::int64_t* version) {
  *version = 8;
  return nullptr;
}
Status* operator_set_count(const Graph*, std::size_t* count) { return set_count(1, count); }
Status* operator_sets(const Graph*, const char** domains, std::int64_t* versions, std::size_t) {
  domains[0] = "";
  versions[0] = 17;
  return nullptr;
}
Status* graph_input_count(const Graph* graph, std::size_t* count) {
  return set_count(graph->inputs.size(), count);
}
Status* graph_inputs(const Graph* graph, const ValueInfo** out, std::size_t count) {
  return copy_values(graph->inputs, out, count);
}
Status* graph_output_count(const Graph* graph, std::size_t* count) {
  return set_count(graph->outputs.size(), count);
}
Status* graph_outputs(const Graph* graph, const ValueInfo** out, std::size_t count) {
  return copy_values(graph->outputs, out, count);
}
Status* initializer_count(const Graph* graph, std::size_t* count) {
  return set_count(graph->constants.size(), count);
}
Status* initializers(const Graph* graph, const ValueInfo** out, std::size_t count) {
  return copy_values(graph->constants, out, count);
}
Status* node_count(const Graph* graph, std::size_t* count) {
  return set_count(graph->nodes.size(), count);
}
Status* nodes(const Graph* graph, const Node** out, std::size_t count) {
  return copy_items(graph->nodes, out, count);
}
Status* parent_node(const Graph* graph, const Node** out) {
  *out = graph->parent;
  return nullptr;
}

Status* node_name(const Node* node, const char** name) {
  *name = node->name.c_str();
  return nullptr;
}
Status* operator_type(const Node* node, const char** type) {
  *type = node->type.c_str();
  return nullptr;
}
Status* domain(const Node* node, const char** domain) {
  *domain = node->domain.c_str();
  return nullptr;
}
Status* node_input_count(const Node* node, std::size_t* count) {
  return set_count(node->inputs.size(), count);
}
Status* node_inputs(const Node* node, const ValueInfo** out, std::size_t count) {
  return copy_values(node->inputs, out, count);
}
Status* node_output_count(const Node* node, std::size_t* count) {
  return set_count(node->outputs.size(), count);
}
Status* node_outputs(const Node* node, const ValueInfo** out, std::size_t count) {
  return copy_values(node->outputs, out, count);
}
Status* implicit_input_count(const Node* node, std::size_t* count) {
  return set_count(node->implicit.size(), count);
}
Status* implicit_inputs(const Node* node, const ValueInfo** out, std::size_t count) {
  return copy_values(node->implicit, out, count);
}
Status* attribute_count(const Node* node, std::size_t* count) {
  return set_count(node->attributes.size(), count);
}
Status* attributes(const Node* node, const OpAttribute** out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = &node->attributes.at(i);
  return nullptr;
}
Status* subgraph_count(const Node* node, std::size_t* count) {
  return set_count(node->subgraphs.size(), count);
}
Status* subgraphs(const Node* node, const Graph** out, std::size_t count, const char** names) {
  for (std::size_t i = 0; i < count; ++i) {
    names[i] = node->subgraphs.at(i).first.c_str();
    out[i] = node->subgraphs.at(i).second;
  }
  return nullptr;
}

Status* create_ep_device(EpFactory*, const HardwareDevice* hardware, const KeyValuePairs*,
                         const KeyValuePairs*, EpDevice** device) {
  *device = new EpDevice{hardware};
  return nullptr;
}
Status* add_nodes_to_fuse(GraphSupport* support, const Node* const* nodes, std::size_t count,
                          const FusionOptions* options) {
  if (!options->drop_constant_initializers) return create_status(kFail, "constants as inputs");
  support->parts.emplace_back(nodes, nodes + count);
  return nullptr;
}
const void* const* ep_api() {
  static const std::array<const void*, 3> functions = {
      reinterpret_cast<const void*>(&create_ep_device), nullptr,
      reinterpret_cast<const void*>(&add_nodes_to_fuse)};
  return functions.data();
}

}  // namespace table

// Any other function of the real table would be a jump to nowhere.
const void* const* all_functions() {
  static const auto functions = [] {
    std::array<const void*, 512> made = {};
#define PLIMSOLL_ORT(place, result, member, parameters) \
  made[place] = reinterpret_cast<const void*>(static_cast<result(*) parameters>(&table::member));
#include "plugins/onnxruntime/functions.def"
#undef PLIMSOLL_ORT
    return made;
  }();
  return functions.data();
}

}  // namespace
}  // namespace plimsoll::ort::abi

namespace plimsoll::ort::testing {
namespace {

template <typename T>
std::string bytes_of(const std::vector<T>& elements) {
  return {reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T)};
}

}  // namespace

const abi::ApiBase& small_onnxruntime(bool is_old) {
  static const abi::ApiBase now = {
      [](std::uint32_t version) { return version <= 23 ? abi::all_functions() : nullptr; },
      [] { return "1.23.0"; }};
  static const abi::ApiBase old = {
      [](std::uint32_t version) { return version <= 20 ? abi::all_functions() : nullptr; },
      [] { return "1.20.1"; }};
  return is_old ? old : now;
}

abi::Value floats(std::vector<std::int64_t> dims, std::vector<float> elements) {
  return {{kFloat, std::move(dims)}, bytes_of(elements)};
}
abi::Value integers(std::vector<std::int64_t> dims, std::vector<std::int64_t> elements) {
  return {{kInt64, std::move(dims)}, bytes_of(elements)};
}
std::vector<float> floats_of(const abi::Value& value) {
  std::vector<float> out(value.bytes.size() / sizeof(float));
  std::memcpy(out.data(), value.bytes.data(), value.bytes.size());
  return out;
}

const abi::ValueInfo* GraphBuilder::value(const std::string& name, std::vector<std::int64_t> dims,
                                          int element_type) {
  owned_.push_back(std::make_unique<abi::ValueInfo>());
  *owned_.back() = {name, {abi::kTensor, {element_type, std::move(dims)}}, nullptr};
  return values_[name] = owned_.back().get();
}

const abi::ValueInfo* GraphBuilder::constant(const std::string& name, abi::Value of) {
  value(name, of.info.dims, of.info.element_type);
  owned_.back()->constant = std::make_shared<const abi::Value>(std::move(of));
  graph.constants.push_back(owned_.back().get());
  return owned_.back().get();
}

abi::Node& GraphBuilder::node(const std::string& type, std::vector<std::string> inputs,
                              std::vector<std::string> outputs,
                              std::vector<abi::OpAttribute> attributes) {
  auto made = std::make_unique<abi::Node>();
  made->name = type + std::to_string(graph.nodes.size());
  made->type = type;
  made->attributes = std::move(attributes);
  for (const std::string& name : inputs) {
    made->inputs.push_back(name.empty() ? nullptr : values_.at(name));
  }
  for (const std::string& name : outputs) {
    made->outputs.push_back(values_.contains(name) ? values_.at(name) : value(name));
  }
  graph.nodes.push_back(std::move(made));
  return *graph.nodes.back();
}

void GraphBuilder::inputs(std::span<const std::string> names) {
  for (const std::string& name : names) graph.inputs.push_back(values_.at(name));
}
void GraphBuilder::outputs(std::span<const std::string> names) {
  for (const std::string& name : names) graph.outputs.push_back(values_.at(name));
}
void GraphBuilder::see(const GraphBuilder& around) {
  values_.insert(around.values_.begin(), around.values_.end());
}

abi::OpAttribute number(const std::string& name, std::int64_t value) {
  return {name, abi::kAttributeInt, bytes_of(std::vector{value}), nullptr};
}
abi::OpAttribute numbers(const std::string& name, std::vector<std::int64_t> values) {
  return {name, abi::kAttributeInts, bytes_of(values), nullptr};
}
abi::OpAttribute real(const std::string& name, float value) {
  return {name, abi::kAttributeFloat, bytes_of(std::vector{value}), nullptr};
}
abi::OpAttribute reals(const std::string& name, std::vector<float> values) {
  return {name, abi::kAttributeFloats, bytes_of(values), nullptr};
}
abi::OpAttribute text(const std::string& name, const std::string& value) {
  return {name, abi::kAttributeString, value, nullptr};
}
abi::OpAttribute texts(const std::string& name, const std::vector<std::string>& values) {
  abi::OpAttribute made{name, abi::kAttributeStrings, {}, nullptr};
  for (const std::string& value : values) made.bytes.append(value).push_back('\0');
  return made;
}
abi::OpAttribute tensor(const std::string& name, abi::Value value) {
  return {name, abi::kAttributeTensor, {}, std::make_shared<const abi::Value>(std::move(value))};
}

}  // namespace plimsoll::ort::testing
