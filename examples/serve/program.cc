// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/program.h"

#include <algorithm>
#include <stdexcept>
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

std::vector<TensorSpec> describe_all(const plm_executable* executable, std::size_t count,
                                     Question question, const std::string& kind,
                                     const std::vector<std::string>& names) {
  if (!names.empty() && names.size() != count) {
    throw std::runtime_error("config.json has " + std::to_string(names.size()) + " names for the " +
                             std::to_string(count) + " " + kind + "s of the program");
  }
  std::vector<TensorSpec> specs;
  for (std::size_t i = 0; i < count; ++i) {
    plm_value_info info = {};
    info.struct_size = sizeof info;
    expect(question(executable, i, &info));
    specs.push_back(describe(info, kind, names.empty() ? std::string() : names[i]));
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
  plm_executable_options options = {};
  options.struct_size = sizeof options;
  if (!config.memory_limit.empty()) {
    expect(plm_parse_memory_limit(config.memory_limit.c_str(), "config.json: 'memory_limit'", 0,
                                  &options.memory_limit_bytes));
  }
  plm_executable* made = nullptr;
  expect(plm_executable_load(runtime.context, path.c_str(), &options, &made));
  executable_.reset(made);
  inputs_ = describe_all(made, plm_executable_parameter_count(made), plm_executable_parameter,
                         "input", config.inputs);
  outputs_ = describe_all(made, plm_executable_result_count(made), plm_executable_result, "output",
                          config.outputs);
  if (config.batching) mark_rows(*config.batching, inputs_, outputs_);
}

void Program::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                  Clock::time_point deadline) const {
  plm_run_options options = {};
  options.struct_size = sizeof options;
  options.deadline_seconds = std::chrono::duration<double>(deadline - Clock::now()).count();
  if (options.deadline_seconds <= 0) throw busy("the request's time was over before it could run");
  options.cancellation = runtime_.cancellation;
  check(plm_executable_run_with(executable_.get(), inputs.data(), inputs.size(), outputs.data(),
                                outputs.size(), &options));
}

}  // namespace plimsoll::examples::serve
