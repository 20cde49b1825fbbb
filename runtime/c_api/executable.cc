// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <string>

#include "runtime/base/file.h"
#include "runtime/c_api/executable.h"
#include "runtime/import/program_bytes.h"
#include "runtime/passes/passes.h"
#include "runtime/planner/residency.h"
#include "runtime/program/machine.h"

using namespace plimsoll;
using c_api::Bound;
using c_api::check_tensor;
using c_api::evaluate_and_pin;
using c_api::guarded;
using c_api::Leaf;
using c_api::unpin;
using c_api::unwrap;
using planner::ParameterResidency;

namespace plimsoll::c_api {

void unpin(trace::Context& context, const Bound& bound) {
  context.unpin(bound.tensor->node);
  context.release_tensor(bound.tensor);
}

Status check_tensor(const plm_executable& owner, size_t i, const trace::Tensor* tensor) {
  const Leaf& leaf = owner.served->parameters[i];
  if (tensor == nullptr) {
    return invalid_argument("run: parameter " + std::to_string(i) + " (" + leaf.name + ") is NULL");
  }
  if (tensor->context != owner.context) {
    return invalid_argument("run: parameter " + leaf.name + " belongs to another context");
  }
  if (!(tensor->node->shape() == leaf.shape)) {
    return invalid_argument("run: parameter " + leaf.name + " is " + leaf.shape.to_string() +
                            ", the tensor " + tensor->node->shape().to_string());
  }
  return ok_status();
}

Status evaluate_and_pin(trace::Context& context, trace::Node* node, bool on_device) {
  if (node->is_pending() || (on_device && node->value->on_host)) {
    PLIMSOLL_RETURN_IF_ERROR(context.evaluate(std::span(&node, 1)));
  }
  return context.pin(node);
}

}  // namespace plimsoll::c_api

namespace {

// A token comes and goes as an array of no elements, as frameworks pass it.
void add_leaves(const ir::Shape& shape, const std::string& name, std::vector<Leaf>& out) {
  const auto leaves = ir::leaves(shape);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    out.push_back({leaves[i]->is_token() ? ir::Shape(ir::DType::pred, {0}) : *leaves[i],
                   leaves.size() == 1 ? name : name + "." + std::to_string(i)});
  }
}

// How each parameter is passed. `by_program`: as the program's aliases and donors have it.
Result<std::vector<ParameterResidency>> placements(const plm_executable_options& options,
                                                   std::vector<ParameterResidency> by_program,
                                                   std::size_t count) {
  if (options.placements != nullptr && options.placement_count != count) {
    return invalid_argument("executable: " + std::to_string(options.placement_count) +
                            " placements for " + std::to_string(count) + " parameters");
  }
  std::vector<ParameterResidency> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    const plm_placement placement =
        options.placements != nullptr ? options.placements[i] : options.default_placement;
    switch (placement) {
      case PLM_PLACEMENT_HOST:
        made[i] = ParameterResidency::host;
        continue;
      case PLM_PLACEMENT_RESIDENT:
        made[i] = ParameterResidency::resident;
        continue;
      case PLM_PLACEMENT_DONATED:
        made[i] = ParameterResidency::donated;
        continue;
      case PLM_PLACEMENT_PROGRAM:
        made[i] = by_program[i];
        continue;
    }
    return invalid_argument("executable: placement " + std::to_string(placement) +
                            " of parameter " + std::to_string(i) + " does not exist");
  }
  return made;
}

Status create(plm_context* handle, std::string_view text, const char* source_name,
              const plm_executable_options* given, plm_executable** out) {
  PLIMSOLL_ASSIGN_OR_RETURN(const plm_executable_options options, c_api::read_options(given));
  if (options.memory_limit_bytes < 0) {
    return invalid_argument("executable: memory_limit_bytes " +
                            std::to_string(options.memory_limit_bytes) + " (must not be negative)");
  }
  trace::Context& context = *unwrap(handle);
  PLIMSOLL_ASSIGN_OR_RETURN(
      auto module, import::read_program(text, source_name == nullptr ? "program" : source_name));
  PLIMSOLL_RETURN_IF_ERROR(passes::partition(*module));
  auto served = std::make_shared<executor::ServedProgram>();
  served->policy = context.options().planning;
  const ir::Computation& entry = *module->entry();
  for (const ir::Instruction* parameter : entry.parameters()) {
    add_leaves(parameter->shape(), parameter->name(), served->parameters);
  }
  add_leaves(entry.root()->shape(), entry.root()->name(), served->results);
  PLIMSOLL_ASSIGN_OR_RETURN(
      served->question.parameters,
      placements(options, planner::default_residency(*module), served->parameters.size()));
  if (options.planner != nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(served->policy.policy,
                              planner::parse_policy(options.planner, "planner"));
  }
  served->name = module->name();
  served->budget = context.budget();
  served->question.limit_bytes =
      options.memory_limit_bytes > 0 ? options.memory_limit_bytes : planner::kUnlimited;
  executor::ProgramOptions program_options = context.options().compilation.program;
  program_options.optimize = options.disable_optimization == 0;
  PLIMSOLL_ASSIGN_OR_RETURN(served->program,
                            context.compiler()->compile(std::move(module), program_options));
  PLIMSOLL_ASSIGN_OR_RETURN(served->plans, executor::SharedPlans::create(
                                               served->program, served->policy, served->question,
                                               served->budget, context.options().replan_drift));
  auto made = std::make_unique<plm_executable>();
  const executor::SharedPlans::Level first = served->plans->levels().front();
  made->summary = trace::plan_report_json(first.executable->plan(), first.limit_bytes);
  made->bound.resize(served->parameters.size());
  made->served = std::move(served);
  made->context = &context;
  context.retain();
  *out = made.release();
  return ok_status();
}

Status describe(const plm_executable* executable, std::vector<Leaf> executor::ServedProgram::* list,
                size_t index, plm_value_info* out) {
  if (executable == nullptr) return invalid_argument("executable: the pointer is NULL");
  const std::vector<Leaf>& leaves = (*executable->served).*list;
  if (index >= leaves.size()) {
    return out_of_range("executable: no value " + std::to_string(index) + " of " +
                        std::to_string(leaves.size()));
  }
  const Leaf& leaf = leaves[index];
  const bool is_result = list == &executor::ServedProgram::results;
  plm_value_info info{};
  info.aliased_parameter =
      is_result
          ? executable->served->plans->first().get()->output_parameter(static_cast<int>(index))
          : -1;
  info.dtype = static_cast<plm_dtype>(leaf.shape.dtype());
  info.rank = static_cast<size_t>(leaf.shape.rank());
  for (int i = 0; i < leaf.shape.rank(); ++i) info.dims[i] = leaf.shape.dim(i);
  info.byte_size = static_cast<size_t>(leaf.shape.byte_size());
  info.name = leaf.name.c_str();
  return c_api::write_struct(info, out);
}

}  // namespace

extern "C" {

plm_status* plm_executable_create(plm_context* context, const char* text, size_t text_size,
                                  const char* source_name, const plm_executable_options* options,
                                  plm_executable** out) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(context != nullptr && out != nullptr && text != nullptr,
                                            "executable: a pointer is NULL"));
    return create(context, {text, text_size}, source_name, options, out);
  });
}

plm_status* plm_executable_load(plm_context* context, const char* path,
                                const plm_executable_options* options, plm_executable** out) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(context != nullptr && out != nullptr && path != nullptr,
                                            "executable: a pointer is NULL"));
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string text, read_file(path));
    return create(context, text, path, options, out);
  });
}

void plm_executable_destroy(plm_executable* executable) { delete executable; }

size_t plm_executable_parameter_count(const plm_executable* executable) {
  return executable == nullptr ? 0 : executable->served->parameters.size();
}
size_t plm_executable_result_count(const plm_executable* executable) {
  return executable == nullptr ? 0 : executable->served->results.size();
}
plm_status* plm_executable_parameter(const plm_executable* executable, size_t index,
                                     plm_value_info* out) {
  return guarded(
      [&] { return describe(executable, &executor::ServedProgram::parameters, index, out); });
}
plm_status* plm_executable_result(const plm_executable* executable, size_t index,
                                  plm_value_info* out) {
  return guarded(
      [&] { return describe(executable, &executor::ServedProgram::results, index, out); });
}

const char* plm_executable_name(const plm_executable* executable) {
  return executable == nullptr ? "" : executable->served->name.c_str();
}

plm_status* plm_executable_floor(const plm_executable* executable, int64_t* bytes) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(
        c_api::require(executable != nullptr && bytes != nullptr, "floor: a pointer is NULL"));
    const std::lock_guard lock(executable->floor_mutex);
    if (executable->floor_bytes < 0) {
      PLIMSOLL_ASSIGN_OR_RETURN(
          const planner::Floor floor,
          executor::least_floor(*executable->served->program,
                                {executable->served->policy,
                                 executor::machine_of(executable->served->budget->tiers()),
                                 executable->served->question}));
      executable->floor_bytes = floor.bytes;
    }
    *bytes = executable->floor_bytes;
    return ok_status();
  });
}

int64_t plm_executable_peak(const plm_executable* executable) {
  return executable == nullptr ? 0 : executable->served->plans->first().get()->plan().peak_bytes;
}
const char* plm_executable_summary(const plm_executable* executable) {
  return executable == nullptr ? "" : executable->summary.c_str();
}

plm_status* plm_executable_bind(plm_executable* executable, size_t parameter, plm_tensor* tensor) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(executable != nullptr, "bind: the executable is NULL"));
    if (parameter >= executable->served->parameters.size()) {
      return out_of_range("bind: no parameter " + std::to_string(parameter));
    }
    PLIMSOLL_RETURN_IF_ERROR(check_tensor(*executable, parameter, unwrap(tensor)));
    if (executable->served->residency(parameter) != ParameterResidency::resident) {
      return failed_precondition("bind: parameter " +
                                 executable->served->parameters[parameter].name +
                                 " is not placed resident");
    }
    trace::Context& context = *executable->context;
    trace::Node* node = unwrap(tensor)->node;
    PLIMSOLL_RETURN_IF_ERROR(evaluate_and_pin(context, node, true));
    Bound& slot = executable->bound[parameter];
    if (slot.tensor != nullptr) unpin(context, slot);
    slot = {context.make_tensor(node), node->value};
    return ok_status();
  });
}

}  // extern "C"
