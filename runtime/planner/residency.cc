// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/residency.h"

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

// Marks the leaves under `path` of `shape`, whose first leaf has number `first`.
void donate(const ir::Shape& shape, const std::vector<std::int64_t>& path, std::size_t first,
            std::vector<ParameterResidency>& residency) {
  const ir::Shape* part = &shape;
  for (const std::int64_t index : path) {
    if (!part->is_tuple() || index < 0 ||
        index >= static_cast<std::int64_t>(part->elements().size())) {
      return;
    }
    first += at(ir::leaf_offset(*part, static_cast<int>(index)));
    part = &part->elements()[at(index)];
  }
  for (int i = 0; i < ir::leaf_count(*part); ++i) {
    residency[first + at(i)] = ParameterResidency::donated;
  }
}

}  // namespace

std::vector<ParameterResidency> default_residency(const ir::Module& module) {
  std::vector<std::size_t> first_leaf;
  std::size_t leaves = 0;
  const auto& parameters = module.entry()->parameters();
  for (const ir::Instruction* parameter : parameters) {
    first_leaf.push_back(leaves);
    leaves += at(ir::leaf_count(parameter->shape()));
  }
  std::vector<ParameterResidency> residency(leaves, ParameterResidency::resident);
  const auto donate_leaf = [&](std::int64_t number, const std::vector<std::int64_t>& path) {
    if (number < 0 || number >= static_cast<std::int64_t>(parameters.size())) return;
    donate(parameters[at(number)]->shape(), path, first_leaf[at(number)], residency);
  };
  for (const ir::InputOutputAlias& alias : module.input_output_alias) {
    donate_leaf(alias.parameter_number, alias.parameter_index);
  }
  for (const ir::BufferDonor& donor : module.buffer_donor) {
    donate_leaf(donor.parameter_number, donor.parameter_index);
  }
  return residency;
}

std::vector<bool> results_on_host(std::span<const ir::ArrayMemory> memories) {
  std::vector<bool> on_host;
  bool has_any = false;
  for (const ir::ArrayMemory memory : memories) {
    on_host.push_back(memory != ir::ArrayMemory::device);
    has_any = has_any || on_host.back();
  }
  if (!has_any) on_host.clear();
  return on_host;
}

Result<Question> default_question(const ir::Module& module) {
  PLIMSOLL_RETURN_IF_ERROR(ir::check_host_leaves(module));
  Question question;
  question.parameters = default_residency(module);
  const std::vector<ir::ArrayMemory> parameters = ir::parameter_memories(module);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i] != ir::ArrayMemory::device) {
      question.parameters[i] = ParameterResidency::host;
    }
  }
  question.results_on_host = results_on_host(ir::result_memories(module));
  return question;
}

}  // namespace plimsoll::planner
