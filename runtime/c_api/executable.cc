// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>
#include <span>
#include <string>

#include "runtime/c_api/communicator.h"
#include "runtime/c_api/executable.h"
#include "runtime/import/program_bytes.h"
#include "runtime/ir/dataflow/result_names.h"
#include "runtime/ir/host_leaves.h"
#include "runtime/ir/participants.h"
#include "runtime/ir/sharding.h"
#include "runtime/ir/truths.h"
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
                   leaves.size() == 1 ? name : name + "." + std::to_string(i),
                   {}});
  }
}

// What the instruction's `sharding` says of each of its arrays.
Status add_shardings(const ir::Instruction& instruction, std::span<Leaf> leaves) {
  const std::string_view text = instruction.attributes().find_extra("sharding");
  const std::int64_t partitions = instruction.parent()->module()->num_partitions;
  if (text.empty() || partitions == 1) return ok_status();
  std::vector<int> ranks;
  for (const Leaf& leaf : leaves) ranks.push_back(leaf.shape.rank());
  PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<ir::Sharding> shardings,
                            ir::parse_shardings(text, ranks, partitions));
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].sharding = ir::to_string(shardings[i]);
  return ok_status();
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

// What the options say of the inputs of a model.
Result<std::vector<import::GivenInput>> given_inputs(const plm_executable_options& options) {
  std::vector<import::GivenInput> given;
  for (size_t i = 0; options.inputs != nullptr && i < options.input_count; ++i) {
    const plm_model_input& input = options.inputs[i];
    const std::string what = "executable: input " + std::to_string(i);
    if (input.name == nullptr) return invalid_argument(what + " has no name");
    if (input.rank > 0 && input.dims == nullptr) return invalid_argument(what + " has no dims");
    const plm_dtype dtype = input.data != nullptr ? input.dtype : PLM_F32;
    auto shape = c_api::make_shape("executable", dtype, input.dims, input.rank);
    if (!shape.ok()) return shape.status().with_context(what + " (" + input.name + ")");
    import::GivenInput one{input.name, shape->dims().to_vector(), {}};
    if (input.data != nullptr) {
      const auto* const data = static_cast<const std::byte*>(input.data);
      one.value = ir::Literal::from_bytes(*shape, std::span(data, at(shape->byte_size())));
      if (shape->dtype() == ir::DType::pred) ir::make_truths(one.value->mutable_bytes());
    }
    given.push_back(std::move(one));
  }
  return given;
}

// The program that the text says, of so many participants as the options ask for. `path`: of its
// file, which is read in place of `text`, or null.
Result<std::unique_ptr<ir::Module>> read(std::string_view text, const char* source_name,
                                         const char* path, const plm_executable_options& options) {
  if (options.memory_limit_bytes < 0) {
    return invalid_argument("executable: memory_limit_bytes " +
                            std::to_string(options.memory_limit_bytes) + " (must not be negative)");
  }
  for (const std::int64_t number : {options.replicas, options.partitions}) {
    if (number >= 0 && number <= ir::kMostParticipants) continue;
    return invalid_argument("executable: " + std::to_string(number) +
                            " replicas or partitions (at most " +
                            std::to_string(ir::kMostParticipants) + ")");
  }
  import::ProgramOptions inputs;
  PLIMSOLL_ASSIGN_OR_RETURN(inputs.inputs, given_inputs(options));
  PLIMSOLL_ASSIGN_OR_RETURN(
      auto module,
      path != nullptr
          ? import::load_program(path, std::move(inputs))
          : import::read_program(text, source_name == nullptr ? "program" : source_name, inputs));
  if (options.replicas != 0) module->replica_count = options.replicas;
  if (options.partitions != 0) module->num_partitions = options.partitions;
  const std::size_t parameters = module->entry()->parameters().size();
  if (options.shardings != nullptr && options.sharding_count != parameters) {
    return invalid_argument("executable: " + std::to_string(options.sharding_count) +
                            " shardings for " + std::to_string(parameters) + " parameters");
  }
  for (std::size_t i = 0; options.shardings != nullptr && i < parameters; ++i) {
    if (options.shardings[i] == nullptr) continue;
    PLIMSOLL_RETURN_IF_ERROR(passes::hold_parameter(*module, i, options.shardings[i]));
  }
  PLIMSOLL_RETURN_IF_ERROR(passes::partition(*module).status());
  PLIMSOLL_RETURN_IF_ERROR(ir::check_host_leaves(*module));
  return module;
}

// What the program keeps in host memory between runs, where the caller leaves it to the program.
void place_on_host(const ir::Module& module, const plm_executable_options& options,
                   executor::ServedProgram& served) {
  served.parameter_memories = ir::parameter_memories(module);
  const std::vector<ir::ArrayMemory>& parameters = served.parameter_memories;
  const std::vector<ParameterResidency> by_program = planner::default_residency(module);
  served.donated_on_host.assign(parameters.size(), false);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const plm_placement placement =
        options.placements != nullptr ? options.placements[i] : options.default_placement;
    if (placement != PLM_PLACEMENT_PROGRAM || parameters[i] == ir::ArrayMemory::device) continue;
    served.question.parameters[i] = ParameterResidency::host;
    served.donated_on_host[i] = by_program[i] == ParameterResidency::donated;
  }
  if (options.default_placement != PLM_PLACEMENT_PROGRAM) return;
  served.result_memories = ir::result_memories(module);
  served.question.results_on_host = planner::results_on_host(served.result_memories);
}

// What is served of a module in one context, but for its program and plans.
Result<std::shared_ptr<executor::ServedProgram>> describe_in(
    trace::Context& context, const ir::Module& module, const plm_executable_options& options) {
  auto served = std::make_shared<executor::ServedProgram>();
  served->policy = context.options().planning;
  const ir::Computation& entry = *module.entry();
  for (const ir::Instruction* parameter : entry.parameters()) {
    const std::size_t first = served->parameters.size();
    add_leaves(parameter->shape(), parameter->name(), served->parameters);
    PLIMSOLL_RETURN_IF_ERROR(
        add_shardings(*parameter, std::span(served->parameters).subspan(first)));
  }
  add_leaves(entry.root()->shape(), entry.root()->name(), served->results);
  const std::vector<std::string> names = ir::result_names(entry);
  for (std::size_t i = 0; i < names.size(); ++i) served->results[i].name = names[i];
  PLIMSOLL_RETURN_IF_ERROR(add_shardings(*entry.root(), served->results));
  PLIMSOLL_ASSIGN_OR_RETURN(
      served->question.parameters,
      placements(options, planner::default_residency(module), served->parameters.size()));
  place_on_host(module, options, *served);
  if (options.planner != nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(served->policy.policy,
                              planner::parse_policy(options.planner, "planner"));
  }
  served->name = module.name();
  served->budget = context.budget();
  served->question.limit_bytes =
      options.memory_limit_bytes > 0 ? options.memory_limit_bytes : planner::kUnlimited;
  return served;
}

Result<std::unique_ptr<plm_executable>> open(trace::Context& context,
                                             std::shared_ptr<executor::ServedProgram> served) {
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
  return made;
}

Status create_together(std::span<plm_context* const> contexts, std::string_view text,
                       const char* source_name, const char* path,
                       const plm_executable_options* given, plm_executable** out) {
  PLIMSOLL_ASSIGN_OR_RETURN(const plm_executable_options options, c_api::read_options(given));
  PLIMSOLL_ASSIGN_OR_RETURN(auto module, read(text, source_name, path, options));
  const std::int64_t participants = module->replica_count * module->num_partitions;
  const plm_communicator* const others = options.communicator;
  PLIMSOLL_RETURN_IF_ERROR(c_api::check_mark(others));
  for (const plm_context* const handle : contexts) {
    PLIMSOLL_RETURN_IF_ERROR(c_api::check_mark(handle));
  }
  if (others != nullptr) {
    if (contexts.size() != 1 || plm_communicator_size(others) != participants) {
      return invalid_argument(
          "executable: the program is one of " + std::to_string(module->replica_count) +
          " replicas x " + std::to_string(module->num_partitions) + " partitions, " +
          std::to_string(plm_communicator_size(others)) +
          " processes are connected, and each runs one in one context (`replicas` and "
          "`partitions` of the options change how many there are)");
    }
  } else if (participants != static_cast<std::int64_t>(contexts.size())) {
    return failed_precondition(
        "executable: the program is one of " + std::to_string(module->replica_count) +
        " replicas x " + std::to_string(module->num_partitions) + " partitions, for " +
        std::to_string(contexts.size()) +
        " contexts (plm_executable_create_together takes a context for each participant, a "
        "communicator a process; `replicas` and `partitions` of the options change how many there "
        "are)");
  }
  std::vector<std::shared_ptr<executor::ServedProgram>> all;
  for (plm_context* const handle : contexts) {
    PLIMSOLL_ASSIGN_OR_RETURN(auto served, describe_in(*unwrap(handle), *module, options));
    all.push_back(std::move(served));
  }
  trace::Context& first = *unwrap(contexts[0]);
  executor::ProgramOptions program_options = first.options().compilation.program;
  program_options.optimize = options.disable_optimization == 0;
  program_options.plans_alone = participants > 1;
  PLIMSOLL_ASSIGN_OR_RETURN(const auto program,
                            first.compiler()->compile(std::move(module), program_options));
  std::vector<std::unique_ptr<plm_executable>> made;
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    all[i]->program = program;
    if (others != nullptr) all[i]->peers = others->peers;
    PLIMSOLL_ASSIGN_OR_RETURN(auto one, open(*unwrap(contexts[i]), std::move(all[i])));
    one->participant = i;
    one->participants = contexts.size();
    made.push_back(std::move(one));
  }
  for (std::size_t i = 0; i < made.size(); ++i) out[i] = made[i].release();
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
  info.sharding = leaf.sharding.c_str();
  const executor::ServedProgram& served = *executable->served;
  info.memory = static_cast<plm_memory>(is_result ? served.result_memory(index)
                                                  : served.parameter_memory(index));
  return c_api::write_struct(info, out);
}

}  // namespace

extern "C" {

plm_status* plm_executable_create(plm_context* context, const char* text, size_t text_size,
                                  const char* source_name, const plm_executable_options* options,
                                  plm_executable** out) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(context != nullptr && out != nullptr && text != nullptr,
                                            "executable: a pointer is NULL"));
    return create_together(std::span(&context, 1), {text, text_size}, source_name, nullptr, options,
                           out);
  });
}

plm_status* plm_executable_create_together(plm_context* const* contexts, size_t count,
                                           const char* text, size_t text_size,
                                           const char* source_name,
                                           const plm_executable_options* options,
                                           plm_executable** out) {
  return guarded([&]() -> Status {
    const bool is_complete = contexts != nullptr && count > 0 && out != nullptr &&
                             text != nullptr &&
                             std::find(contexts, contexts + count, nullptr) == contexts + count;
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(is_complete, "executable: a pointer is NULL"));
    return create_together({contexts, count}, {text, text_size}, source_name, nullptr, options,
                           out);
  });
}

plm_status* plm_executable_load(plm_context* context, const char* path,
                                const plm_executable_options* options, plm_executable** out) {
  return guarded(context, [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(context != nullptr && out != nullptr && path != nullptr,
                                            "executable: a pointer is NULL"));
    return create_together(std::span(&context, 1), {}, path, path, options, out);
  });
}

plm_status* plm_program_check(const char* text, size_t text_size, const char* source_name,
                              const plm_model_input* inputs, size_t input_count) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(c_api::require(
        text != nullptr && (inputs != nullptr || input_count == 0), "program: a pointer is NULL"));
    plm_executable_options options = {};
    options.struct_size = sizeof options;
    options.inputs = inputs;
    options.input_count = input_count;
    return read({text, text_size}, source_name, nullptr, options).status();
  });
}

void plm_executable_destroy(plm_executable* executable) {
  if (!c_api::is_inherited(executable)) delete executable;
}

size_t plm_executable_parameter_count(const plm_executable* executable) {
  return executable == nullptr ? 0 : executable->served->parameters.size();
}
size_t plm_executable_result_count(const plm_executable* executable) {
  return executable == nullptr ? 0 : executable->served->results.size();
}
plm_status* plm_executable_parameter(const plm_executable* executable, size_t index,
                                     plm_value_info* out) {
  return guarded(executable, [&] {
    return describe(executable, &executor::ServedProgram::parameters, index, out);
  });
}
plm_status* plm_executable_result(const plm_executable* executable, size_t index,
                                  plm_value_info* out) {
  return guarded(executable, [&] {
    return describe(executable, &executor::ServedProgram::results, index, out);
  });
}

const char* plm_executable_name(const plm_executable* executable) {
  return executable == nullptr ? "" : executable->served->name.c_str();
}

plm_status* plm_executable_floor(const plm_executable* executable, int64_t* bytes) {
  return guarded(executable, [&]() -> Status {
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
      executable->floor_bytes = floor.bytes + executable->served->budget->device().overhead_bytes();
    }
    *bytes = executable->floor_bytes;
    return ok_status();
  });
}

int64_t plm_executable_peak(const plm_executable* executable) {
  if (executable == nullptr || c_api::is_inherited(executable)) return 0;
  return executable->served->plans->first().get()->plan().peak_bytes;
}
const char* plm_executable_summary(const plm_executable* executable) {
  return executable == nullptr ? "" : executable->summary.c_str();
}

plm_status* plm_executable_bind(plm_executable* executable, size_t parameter, plm_tensor* tensor) {
  return guarded(executable, tensor, [&]() -> Status {
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
