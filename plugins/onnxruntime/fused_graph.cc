// SPDX-License-Identifier: Apache-2.0
#include "plugins/onnxruntime/fused_graph.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "plugins/onnxruntime/element_type.h"
#include "plugins/onnxruntime/error.h"

namespace plimsoll::ort {
namespace {

// Of inputs up to this size the values are looked at where a shape depends on them.
constexpr std::size_t kMostKnownBytes = 4096;

Status* ports_of(const Api& api, const std::vector<const abi::ValueInfo*>& values,
                 std::vector<Port>& out) {
  for (const abi::ValueInfo* value : values) {
    out.emplace_back();
    PLIMSOLL_ORT_RETURN_IF_ERROR(describe(api, value, out.back()));
    if (!dtype_of(out.back().element_type)) {
      return make_error(api, abi::kNotImplemented,
                        "'" + out.back().name + "' is no tensor of a dtype that programs hold");
    }
  }
  return nullptr;
}

// The number in a name that input_name gave.
std::size_t number_of(std::string_view name) {
  std::size_t number = 0;
  const std::size_t at = name.rfind('.');
  std::from_chars(name.data() + at + 1, name.data() + name.size(), number);
  return number;
}

bool is_known(const Port& port) {
  // A scalar, or an array of which nothing is known.
  return !port.dims.empty() &&
         std::all_of(port.dims.begin(), port.dims.end(), [](std::int64_t dim) { return dim >= 0; });
}

}  // namespace

FusedGraph::FusedGraph(const Api& api, std::shared_ptr<plm_context> context, std::string name)
    : api_(api), context_(std::move(context)), name_(std::move(name)) {
  create_state = [](abi::ComputeInfo* self, abi::ComputeContext*, void** state) -> Status* {
    *state = self;
    return nullptr;
  };
  compute = [](abi::ComputeInfo* self, void*, abi::KernelContext* kernel) {
    auto* const graph = static_cast<FusedGraph*>(self);
    return guarded(graph->api_, [&] { return graph->run(kernel); });
  };
  release_state = [](abi::ComputeInfo*, void*) {};
}

Status* FusedGraph::create(const abi::Graph* graph, const abi::Node* fused) {
  std::vector<const abi::ValueInfo*> inputs, outputs;
  part_.graph = graph;
  PLIMSOLL_ORT_RETURN_IF_ERROR(list(api_.node_count, api_.nodes, graph, part_.nodes));
  PLIMSOLL_ORT_RETURN_IF_ERROR(list(api_.node_input_count, api_.node_inputs, fused, inputs));
  PLIMSOLL_ORT_RETURN_IF_ERROR(list(api_.node_output_count, api_.node_outputs, fused, outputs));
  PLIMSOLL_ORT_RETURN_IF_ERROR(ports_of(api_, inputs, part_.inputs));
  PLIMSOLL_ORT_RETURN_IF_ERROR(ports_of(api_, outputs, part_.outputs));
  PLIMSOLL_ORT_RETURN_IF_ERROR(model_bytes(api_, part_, bytes_));
  part_.graph = nullptr;
  part_.nodes.clear();
  if (!std::all_of(part_.inputs.begin(), part_.inputs.end(), is_known)) return nullptr;
  auto executable = std::make_shared<Executable>();
  std::vector<Input> sizes;
  for (const Port& port : part_.inputs) sizes.push_back({port.dims, nullptr});
  if (Status* const failed = compile(sizes, *executable)) {
    // A shape may depend on values, which the first run has.
    if (api_.error_code(failed) != abi::kInvalidArgument) return failed;
    api_.release_status(failed);
    return nullptr;
  }
  executables_.push_front(std::move(executable));
  bytes_ = std::string();
  return nullptr;
}

std::size_t FusedGraph::input_bytes(std::size_t i, const std::vector<std::int64_t>& dims) const {
  std::size_t bits = plm_dtype_bits(*dtype_of(part_.inputs[i].element_type));
  for (const std::int64_t dim : dims) bits *= static_cast<std::size_t>(dim);
  return (bits + 7) / 8;
}

Status* FusedGraph::read_inputs(abi::KernelContext* context, std::vector<Input>& out) const {
  out.resize(part_.inputs.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const abi::Value* value = nullptr;
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.input(context, i, &value));
    if (value == nullptr) {
      return make_error(api_, abi::kInvalidArgument,
                        name_ + ": input '" + part_.inputs[i].name + "' is missing");
    }
    abi::TensorInfo* made = nullptr;
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.type_and_shape(value, &made));
    const std::unique_ptr<abi::TensorInfo, void (*)(abi::TensorInfo*)> info(
        made, api_.release_tensor_info);
    std::size_t rank = 0;
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.rank(made, &rank));
    out[i].dims.resize(rank);
    if (rank > 0) PLIMSOLL_ORT_RETURN_IF_ERROR(api_.dims(made, out[i].dims.data(), rank));
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.tensor_data(value, &out[i].data));
  }
  return nullptr;
}

Status* FusedGraph::compile(const std::vector<Input>& inputs, Executable& out) const {
  std::vector<std::string> names;
  std::vector<plm_model_input> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) names.push_back(input_name(i));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    const bool may_be_known = input_bytes(i, input.dims) <= kMostKnownBytes;
    given.push_back({names[i].c_str(), *dtype_of(part_.inputs[i].element_type), input.dims.size(),
                     input.dims.data(), may_be_known ? input.data : nullptr});
  }
  plm_executable_options options = {};
  options.struct_size = sizeof options;
  options.inputs = given.data();
  options.input_count = given.size();
  plm_executable* handle = nullptr;
  PLIMSOLL_ORT_RETURN_IF_ERROR(
      from_status(api_, plm_executable_create(context_.get(), bytes_.data(), bytes_.size(),
                                              name_.c_str(), &options, &handle)));
  out.handle.reset(handle, plm_executable_destroy);
  std::vector<bool> is_parameter(inputs.size(), false);
  plm_value_info info = {};
  info.struct_size = sizeof info;
  for (std::size_t k = 0; k < plm_executable_parameter_count(handle); ++k) {
    PLIMSOLL_ORT_RETURN_IF_ERROR(from_status(api_, plm_executable_parameter(handle, k, &info)));
    out.parameters.push_back(number_of(info.name));
    is_parameter.at(out.parameters.back()) = true;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    out.dims.push_back(inputs[i].dims);
    if (is_parameter[i]) continue;
    out.known.push_back(
        {i, std::string(static_cast<const char*>(inputs[i].data), input_bytes(i, inputs[i].dims))});
  }
  if (plm_executable_result_count(handle) != part_.outputs.size()) {
    return make_error(api_, abi::kFail, name_ + " has another number of results than ONNX Runtime");
  }
  for (std::size_t k = 0; k < part_.outputs.size(); ++k) {
    PLIMSOLL_ORT_RETURN_IF_ERROR(from_status(api_, plm_executable_result(handle, k, &info)));
    const Port& port = part_.outputs[k];
    if (info.dtype != *dtype_of(port.element_type)) {
      return make_error(api_, abi::kNotImplemented,
                        name_ + ": '" + port.name + "' is " + plm_dtype_name(info.dtype) +
                            " here and another dtype in ONNX Runtime");
    }
    out.result_dims.emplace_back(info.dims, info.dims + info.rank);
  }
  return nullptr;
}

bool FusedGraph::serves(const Executable& executable, const std::vector<Input>& inputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dims != executable.dims[i]) return false;
  }
  return std::all_of(
      executable.known.begin(), executable.known.end(), [&](const Executable::Known& known) {
        return known.bytes.empty() ||
               std::memcmp(known.bytes.data(), inputs[known.input].data, known.bytes.size()) == 0;
      });
}

// One thread compiles, and the others wait: most of them for the same.
Status* FusedGraph::executable_for(const std::vector<Input>& inputs,
                                   std::shared_ptr<const Executable>& out) {
  const std::scoped_lock lock(mutex_);
  const auto found =
      std::find_if(executables_.begin(), executables_.end(),
                   [&](const auto& executable) { return serves(*executable, inputs); });
  if (found != executables_.end()) {
    executables_.splice(executables_.begin(), executables_, found);
    out = executables_.front();
    return nullptr;
  }
  if (bytes_.empty()) {
    return make_error(api_, abi::kInvalidArgument,
                      name_ + ": inputs are of other sizes than the model says");
  }
  auto made = std::make_shared<Executable>();
  PLIMSOLL_ORT_RETURN_IF_ERROR(compile(inputs, *made));
  executables_.push_front(made);
  if (executables_.size() > kMostExecutables) executables_.pop_back();
  out = std::move(made);
  return nullptr;
}

Status* FusedGraph::run(abi::KernelContext* context) {
  std::vector<Input> inputs;
  PLIMSOLL_ORT_RETURN_IF_ERROR(read_inputs(context, inputs));
  std::shared_ptr<const Executable> executable;
  PLIMSOLL_ORT_RETURN_IF_ERROR(executable_for(inputs, executable));
  std::vector<const void*> parameters;
  for (const std::size_t input : executable->parameters) parameters.push_back(inputs[input].data);
  std::vector<void*> results;
  for (std::size_t k = 0; k < executable->result_dims.size(); ++k) {
    const std::vector<std::int64_t>& dims = executable->result_dims[k];
    abi::Value* value = nullptr;
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.output(context, k, dims.data(), dims.size(), &value));
    results.push_back(nullptr);
    PLIMSOLL_ORT_RETURN_IF_ERROR(api_.tensor_mutable_data(value, &results.back()));
  }
  return from_status(api_, plm_executable_run(executable->handle.get(), parameters.data(),
                                              parameters.size(), results.data(), results.size()));
}

}  // namespace plimsoll::ort
