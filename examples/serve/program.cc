// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/program.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "examples/serve/http_error.h"

namespace plimsoll::examples::serve {
namespace {

// As `check`, for what fails while a model is loaded.
void expect(plm_status* status) {
  if (status == nullptr) return;
  const std::string message = plm_status_message(status);
  plm_status_free(status);
  throw std::runtime_error(message);
}

TensorSpec describe(const plm_value_info& info, const std::string& kind, const std::string& name) {
  TensorSpec spec;
  spec.name = name.empty() ? info.name : name;
  spec.type = find_type(info.dtype);
  if (spec.type == nullptr) {
    throw std::runtime_error(
        kind + " " + spec.name + " is " + plm_dtype_name(info.dtype) +
        ", which the protocol has no datatype for (convert it in the program)");
  }
  spec.shape.assign(info.dims, info.dims + info.rank);
  spec.bytes = info.byte_size;
  return spec;
}

using Question = plm_status* (*)(const plm_executable*, std::size_t, plm_value_info*);

plm_value_info ask(const plm_executable* executable, std::size_t i, Question question) {
  plm_value_info info = {};
  info.struct_size = sizeof info;
  expect(question(executable, i, &info));
  return info;
}

// Those at `places`, which the configuration may name.
std::vector<TensorSpec> describe_all(const plm_executable* executable,
                                     std::span<const std::size_t> places, Question question,
                                     const std::string& kind,
                                     const std::vector<std::string>& names) {
  if (!names.empty() && names.size() != places.size()) {
    throw std::runtime_error("config.json has " + std::to_string(names.size()) + " names for the " +
                             std::to_string(places.size()) + " " + kind + "s of the program");
  }
  std::vector<TensorSpec> specs;
  for (std::size_t i = 0; i < places.size(); ++i) {
    specs.push_back(describe(ask(executable, places[i], question), kind,
                             names.empty() ? std::string() : names[i]));
    for (std::size_t j = 0; j < i; ++j) {
      if (specs[j].name == specs[i].name) {
        throw std::runtime_error("two " + kind + "s are named " + specs[i].name);
      }
    }
  }
  return specs;
}

void mark_rows(const BatchConfig& batch, std::vector<TensorSpec>& inputs,
               std::vector<TensorSpec>& outputs) {
  const auto leads = [&](const TensorSpec& spec) {
    return !spec.shape.empty() && spec.shape.front() == batch.rows;
  };
  for (const std::string& name : batch.whole) {
    if (std::none_of(inputs.begin(), inputs.end(),
                     [&](const TensorSpec& input) { return input.name == name; })) {
      throw std::runtime_error("config.json: no input " + name + ", which 'whole' names");
    }
  }
  bool any = false;
  for (TensorSpec& input : inputs) {
    if (std::find(batch.whole.begin(), batch.whole.end(), input.name) != batch.whole.end()) {
      continue;
    }
    if (!leads(input)) {
      throw std::runtime_error("input " + input.name + " is " + shape_text(input.shape) + ", not " +
                               std::to_string(batch.rows) +
                               " rows, and not among 'whole' of 'batching'");
    }
    input.has_rows = any = true;
  }
  if (!any) throw std::runtime_error("no input has rows, so requests can't share a run");
  for (TensorSpec& output : outputs) {
    if (!leads(output)) {
      throw std::runtime_error("output " + output.name + " is " + shape_text(output.shape) +
                               ", not " + std::to_string(batch.rows) +
                               " rows, of which requests that share a run could have their own");
    }
    output.has_rows = true;
  }
}

}  // namespace

Program::Program(const Runtime& runtime, const std::string& path, const ModelConfig& config)
    : runtime_(runtime) {
  try {
    open(path, config);
  } catch (...) {
    release();
    throw;
  }
}

Program::~Program() { release(); }

// Its weights, which are tensors of the context, go with it.
void Program::release() {
  std::unique_lock<std::mutex> turn;
  if (runtime_.turn != nullptr) turn = std::unique_lock(*runtime_.turn);
  executable_.reset();
}

void Program::open(const std::string& path, const ModelConfig& config) {
  plm_executable_options options = {};
  options.struct_size = sizeof options;
  if (!config.memory_limit.empty()) {
    expect(plm_parse_memory_limit(config.memory_limit.c_str(), "config.json: 'memory_limit'", 0,
                                  &options.memory_limit_bytes));
  }
  std::vector<plm_model_input> shapes;
  for (const auto& [name, shape] : config.shapes) {
    shapes.push_back({name.c_str(), PLM_F32, shape.size(), shape.data(), nullptr});
  }
  options.inputs = shapes.data();
  options.input_count = shapes.size();
  load(path, options);
  is_bound_.assign(plm_executable_parameter_count(executable_.get()), false);
  const std::filesystem::path weights =
      std::filesystem::path(path).replace_filename("weights.safetensors");
  if (std::filesystem::exists(weights)) bind_weights(path, weights.string(), options);
  for (std::size_t i = 0; i < is_bound_.size(); ++i) {
    if (!is_bound_[i]) places_.push_back(i);
  }
  std::vector<std::size_t> results(plm_executable_result_count(executable_.get()));
  for (std::size_t i = 0; i < results.size(); ++i) results[i] = i;
  const plm_executable* const made = executable_.get();
  inputs_ = describe_all(made, places_, plm_executable_parameter, "input", config.inputs);
  outputs_ = describe_all(made, results, plm_executable_result, "output", config.outputs);
  if (config.batching) mark_rows(*config.batching, inputs_, outputs_);
}

void Program::load(const std::string& path, const plm_executable_options& options) {
  plm_executable* made = nullptr;
  expect(plm_executable_load(runtime_.context, path.c_str(), &options, &made));
  executable_.reset(made);
}

void Program::bind_weights(const std::string& path, const std::string& weights,
                           plm_executable_options options) {
  plm_array_file* opened = nullptr;
  expect(plm_array_file_open(weights.c_str(), &opened));
  const ArrayFileHandle file(opened);
  std::vector<plm_placement> placements(is_bound_.size(), PLM_PLACEMENT_HOST);
  std::vector<plm_array> arrays(is_bound_.size());
  for (std::size_t k = 0; k < plm_array_file_count(file.get()); ++k) {
    plm_array array = {};
    expect(plm_array_file_get(file.get(), k, &array));
    std::size_t i = 0;
    plm_value_info info = {};
    for (; i < is_bound_.size(); ++i) {
      info = ask(executable_.get(), i, plm_executable_parameter);
      if (std::string_view(info.name) == array.name) break;
    }
    if (i == is_bound_.size()) {
      throw std::runtime_error(weights + ": no parameter of the program is named " + array.name);
    }
    const std::vector<std::int64_t> shape(info.dims, info.dims + info.rank);
    const std::vector<std::int64_t> given(array.dims, array.dims + array.rank);
    if (info.dtype != array.dtype || shape != given) {
      throw std::runtime_error(weights + ": " + array.name + " is " + plm_dtype_name(array.dtype) +
                               shape_text(given) + ", the program's parameter " +
                               plm_dtype_name(info.dtype) + shape_text(shape));
    }
    placements[i] = PLM_PLACEMENT_RESIDENT;
    arrays[i] = array;
    is_bound_[i] = true;
  }
  // Where parameters are is part of the plan, and their names were not known before.
  options.placements = placements.data();
  options.placement_count = placements.size();
  load(path, options);
  std::unique_lock<std::mutex> turn;
  if (runtime_.turn != nullptr) turn = std::unique_lock(*runtime_.turn);
  for (std::size_t i = 0; i < is_bound_.size(); ++i) {
    if (!is_bound_[i]) continue;
    plm_tensor* made = nullptr;
    expect(plm_tensor_from_host(runtime_.context, arrays[i].dtype, arrays[i].dims, arrays[i].rank,
                                arrays[i].data, &made));
    const TensorHandle tensor(made);
    expect(plm_executable_bind(executable_.get(), i, made));
  }
}

void Program::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                  Clock::time_point deadline) const {
  plm_run_options options = {};
  options.struct_size = sizeof options;
  options.deadline_seconds = std::chrono::duration<double>(deadline - Clock::now()).count();
  if (options.deadline_seconds <= 0) throw busy("the request's time was over before it could run");
  options.cancellation = runtime_.cancellation;
  std::vector<const void*> parameters(is_bound_.size(), nullptr);
  for (std::size_t i = 0; i < places_.size(); ++i) parameters[places_[i]] = inputs[i];
  check(plm_executable_run_with(executable_.get(), parameters.data(), parameters.size(),
                                outputs.data(), outputs.size(), &options));
}

}  // namespace plimsoll::examples::serve
