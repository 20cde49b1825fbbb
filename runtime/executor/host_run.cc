// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/host_run.h"

#include <fmt/core.h>
#include <string>

namespace plimsoll::executor {
namespace {

std::vector<const ir::Shape*> parameter_leaves(const ir::Computation& entry) {
  std::vector<const ir::Shape*> found;
  for (const ir::Instruction* parameter : entry.parameters()) {
    const auto of_this = ir::leaves(parameter->shape());
    found.insert(found.end(), of_this.begin(), of_this.end());
  }
  return found;
}

void append_data(const ir::Literal& literal, std::vector<const void*>& out) {
  if (literal.shape().is_tuple()) {
    for (const ir::Literal& element : literal.elements()) append_data(element, out);
  } else {
    out.push_back(literal.shape().is_array() ? literal.bytes().data() : nullptr);
  }
}

void append_mutable_data(ir::Literal& literal, std::vector<void*>& out) {
  if (literal.shape().is_tuple()) {
    for (ir::Literal& element : literal.mutable_elements()) append_mutable_data(element, out);
  } else {
    out.push_back(literal.shape().is_array() ? literal.mutable_bytes().data() : nullptr);
  }
}

}  // namespace

Status run_on_host(const Executable& executable, memory::Budget& budget,
                   std::span<const void* const> arguments, std::span<void* const> results,
                   const RunOptions& options) {
  const auto allocate = [&](std::int64_t bytes, memory::Tag tag, const std::string& what) {
    return options.admitted == nullptr ? budget.allocate(bytes, tag, what)
                                       : options.admitted->reservation().allocate(bytes, tag, what);
  };
  const ir::Computation& entry = *executable.plan().computation;
  const auto inputs = parameter_leaves(entry);
  const auto outputs = ir::leaves(entry.root()->shape());
  std::vector<memory::Allocation> held;
  // Goes first, with its work.
  PLIMSOLL_ASSIGN_OR_RETURN(auto stream, budget.device().create_stream());
  std::vector<void*> parameter_pointers, output_pointers;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (executable.residency(static_cast<int>(i)) == planner::ParameterResidency::host ||
        !inputs[i]->is_array()) {
      parameter_pointers.push_back(const_cast<void*>(arguments[i]));
      continue;
    }
    PLIMSOLL_ASSIGN_OR_RETURN(auto block, allocate(inputs[i]->byte_size(), memory::Tag::parameters,
                                                   fmt::format("parameter leaf {}", i)));
    PLIMSOLL_RETURN_IF_ERROR(stream->copy(block.data(), arguments[i], inputs[i]->byte_size(),
                                          device::CopyKind::host_to_device));
    parameter_pointers.push_back(block.data());
    held.push_back(std::move(block));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const int parameter = executable.output_parameter(static_cast<int>(i));
    if (parameter >= 0) {
      output_pointers.push_back(parameter_pointers[at(parameter)]);
      continue;
    }
    if (!outputs[i]->is_array()) {
      output_pointers.push_back(nullptr);
      continue;
    }
    if (executable.is_result_on_host(static_cast<int>(i))) {
      output_pointers.push_back(results[i]);
      continue;
    }
    PLIMSOLL_ASSIGN_OR_RETURN(auto block, allocate(outputs[i]->byte_size(), memory::Tag::outputs,
                                                   fmt::format("result leaf {}", i)));
    output_pointers.push_back(block.data());
    held.push_back(std::move(block));
  }
  PLIMSOLL_RETURN_IF_ERROR(
      executable.run(*stream, budget, Arguments{parameter_pointers, output_pointers}, options));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i]->is_array() || executable.is_result_on_host(static_cast<int>(i))) continue;
    PLIMSOLL_RETURN_IF_ERROR(stream->copy(results[i], output_pointers[i], outputs[i]->byte_size(),
                                          device::CopyKind::device_to_host));
  }
  return stream->synchronize();
}

namespace {

// An argument is what its parameter has become, the same bytes: a complex one an array with a last
// dim of its parts (passes/complex), a narrow one its codes (passes/narrow).
bool takes(const ir::Shape& parameter, const ir::Shape& argument) {
  if (argument == parameter) return true;
  if (argument.is_array() && ir::is_narrow(argument.dtype())) {
    const ir::Dims bytes = {argument.byte_size()};
    const bool is_packed = ir::dtype_bits(argument.dtype()) < 8;
    return parameter == ir::Shape(ir::DType::u8, is_packed ? bytes : argument.dims());
  }
  if (!argument.is_array() || !ir::is_complex(argument.dtype()) || !parameter.is_array() ||
      parameter.rank() != argument.rank() + 1) {
    return false;
  }
  ir::Dims dims = argument.dims();
  dims.push_back(2);
  return parameter == ir::Shape(ir::part_dtype(argument.dtype()), dims);
}

}  // namespace

Result<ir::Literal> run_on_host(const Executable& executable, memory::Budget& budget,
                                std::span<const ir::Literal> arguments, const RunOptions& options) {
  const ir::Computation& entry = *executable.plan().computation;
  if (arguments.size() != entry.parameters().size()) {
    return invalid_argument(fmt::format("running '{}': {} arguments given, {} parameters wanted",
                                        entry.name(), arguments.size(), entry.parameters().size()));
  }
  std::vector<const void*> data;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ir::Instruction& parameter = *entry.parameters()[i];
    if (!takes(parameter.shape(), arguments[i].shape())) {
      return invalid_argument(fmt::format("running '{}': argument {} is {}, parameter '{}' is {}",
                                          entry.name(), i, arguments[i].shape().to_string(),
                                          parameter.name(), parameter.shape().to_string()));
    }
    append_data(arguments[i], data);
  }
  ir::Literal result(entry.root()->shape());
  std::vector<void*> results;
  append_mutable_data(result, results);
  PLIMSOLL_RETURN_IF_ERROR(run_on_host(executable, budget, data, results, options));
  return result;
}

}  // namespace plimsoll::executor
