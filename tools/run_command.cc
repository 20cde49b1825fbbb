// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "runtime/base/byte_size.h"
#include "runtime/base/environment.h"
#include "runtime/base/index.h"
#include "runtime/base/sha256.h"
#include "runtime/executor/host_run.h"
#include "runtime/executor/run_together.h"
#include "runtime/import/npy.h"
#include "runtime/import/program_bytes.h"
#include "runtime/ir/dataflow/result_names.h"
#include "runtime/ir/participants.h"
#include "runtime/memory/budget/budget.h"
#include "runtime/serve/current_executable.h"
#include "tools/inputs.h"
#include "tools/plan/planned_program.h"
#include "tools/processes.h"
#include "tools/program_file.h"

namespace plimsoll::tools {
namespace {

struct RunFlags {
  std::string file;
  PlanFlags plan;
  std::vector<std::string> inputs;
  std::uint64_t seed = 0;
  std::string output_dir;
  int repeat = 1;
  ModelFlags model;
  std::string communicator;  // empty: as PLIMSOLL_COMMUNICATOR says
};

// What each participant runs with.
struct Participant {
  std::size_t number = 0;
  std::string suffix;  // of names; empty where it is the only one
  std::shared_ptr<memory::Budget> budget;
  std::vector<const ir::Literal*> outputs;
};

// Makes the folder of the outputs, before a run that would be lost without one.
Outcome make_output_folder(const std::string& folder) {
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (!error) return {};
  return Outcome::call_fault(unavailable(
      fmt::format("--output-dir {}: {} (a folder that can be written)", folder, error.message())));
}

// NAME.npy; of several participants NAME@K.npy.
Outcome write_outputs(const std::string& folder, const std::vector<std::string>& names,
                      const std::vector<Participant>& participants) {
  for (std::size_t p = 0; p < participants.size(); ++p) {
    const auto& values = participants[p].outputs;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!values[i]->shape().is_array()) continue;
      const auto path =
          std::filesystem::path(folder) / (names[i] + participants[p].suffix + ".npy");
      PLIMSOLL_CALL_FAULT(import::write_npy(path.string(), *values[i]));
    }
  }
  return {};
}

// The same bytes, as the shape that the program has for them.
ir::Literal given_shape(ir::Literal literal, const ir::Shape& shape) {
  if (!shape.is_tuple()) {
    return shape.is_array() ? ir::Literal::from_bytes(shape, literal.bytes()) : literal;
  }
  std::vector<ir::Literal> elements;
  for (std::size_t i = 0; i < shape.elements().size(); ++i) {
    elements.push_back(given_shape(literal.elements()[i], shape.elements()[i]));
  }
  return ir::Literal::tuple(std::move(elements));
}

// A module that has the parameters of `entry` and nothing else.
std::unique_ptr<ir::Module> signature_of(const ir::Computation& entry) {
  auto module = std::make_unique<ir::Module>("signature");
  ir::Computation* const computation = module->add_computation("parameters");
  module->set_entry(computation);
  for (std::size_t i = 0; i < entry.parameters().size(); ++i) {
    const ir::Instruction& parameter = *entry.parameters()[i];
    computation->add_parameter(static_cast<std::int64_t>(i), parameter.shape(), parameter.name())
        ->attributes()
        .extra = parameter.attributes().extra;
  }
  return module;
}

// A budget with tiers of its own for each participant.
Outcome make_budgets(const RunFlags& flags, const PlannedProgram& planned,
                     std::vector<Participant>& participants) {
  for (Participant& participant : participants) {
    memory::Tiers tiers = planned.tiers();
    if (&participant != &participants.front()) {
      Outcome outcome = make_tiers(flags.plan, tiers);
      if (!outcome.ok()) return outcome;
    }
    participant.budget = memory::Budget::create(planned.compiler().provider().device(),
                                                planned.limit_bytes(), std::move(tiers));
  }
  return {};
}

Result<std::vector<ir::Literal>> run_once(const executor::Executable& executable,
                                          const std::vector<Participant>& participants,
                                          const std::vector<std::vector<ir::Literal>>& inputs,
                                          device::Communicator* communicator) {
  std::vector<std::shared_ptr<memory::Budget>> budgets;
  for (const Participant& participant : participants) budgets.push_back(participant.budget);
  if (budgets.size() > 1) return executor::run_together(executable, budgets, inputs);
  executor::RunOptions options;
  options.communicator = communicator;
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Literal result,
                            executor::run_on_host(executable, *budgets[0], inputs[0], options));
  std::vector<ir::Literal> results;
  results.push_back(std::move(result));
  return results;
}

// The hashes of one participant's outputs, and lines that say them.
Json outputs_json(const std::vector<std::string>& names,
                  const std::vector<const ir::Literal*>& values, const std::string& whose,
                  std::string& text) {
  Json outputs = Json::array();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ir::Shape& shape = values[i]->shape();
    if (!shape.is_array()) continue;
    const std::string hash = sha256(values[i]->bytes());
    outputs.push_back({{"name", names[i]},
                       {"shape", shape.dims().to_vector()},
                       {"dtype", std::string(ir::to_string(shape.dtype()))},
                       {"sha256", hash}});
    text += hash + "  " + shape.to_string() + "  " + names[i] + whose + "\n";
  }
  return outputs;
}

// Without a limit, what the device can't hold in any way is refused before it runs out of memory.
Outcome check_device(const PlannedProgram& planned) {
  const std::int64_t total = planned.compiler().provider().device()->total_bytes();
  const bool may_fit = planned.limit_bytes() != planner::kUnlimited ||
                       planned.unlimited().peak_bytes <= total || total <= 0;
  if (may_fit) return {};
  const Status status = planned.fitting_plan(total).status();
  if (status.ok()) return {};
  return Outcome::program_fault(
      status.with_context(fmt::format("the device has {}", format_bytes(total))));
}

const memory::Budget& most_used(const std::vector<Participant>& participants) {
  const auto peak = [](const Participant& one) { return one.budget->statistics().peak_bytes; };
  return *std::max_element(
              participants.begin(), participants.end(),
              [&](const Participant& a, const Participant& b) { return peak(a) < peak(b); })
              ->budget;
}

Outcome run_participants(const RunFlags& flags, std::unique_ptr<ir::Module> module,
                         const Processes& processes, Output& output) {
  const ir::Topology topology{module->replica_count, module->num_partitions};
  std::vector<Participant> participants(processes.count);
  for (std::size_t p = 0; p < participants.size(); ++p) {
    participants[p].number = processes.first + p;
    if (processes.total > 1) participants[p].suffix = fmt::format("@{}", participants[p].number);
  }
  const std::vector<std::string> names = ir::result_names(*module->entry());
  const ir::Shape result_shape = module->entry()->root()->shape();
  const std::unique_ptr<ir::Module> signature = signature_of(*module->entry());

  PlannedProgram planned;
  PlanFlags plan_flags = flags.plan;
  if (processes.communicator != nullptr) {
    plan_flags.participants_here = processes.communicator->participants_here();
    if (const auto speeds = processes.communicator->speeds()) {
      plan_flags.collective_speeds = {speeds->message_seconds, speeds->bytes_per_second};
    }
  }
  Outcome outcome = PlannedProgram::create(std::move(module), plan_flags, true, planned);
  if (!outcome.ok()) return outcome;
  outcome = check_device(planned);
  if (!outcome.ok()) return outcome;
  // No memory for inputs before it is known that the program fits.
  std::vector<std::vector<ir::Literal>> inputs;
  outcome = make_inputs(*signature->entry(), flags.inputs, flags.seed,
                        {processes.first, processes.count, processes.total,
                         static_cast<std::size_t>(topology.partitions)},
                        inputs);
  if (!outcome.ok()) return outcome;
  const auto drift = number_variable(Variable::replan_drift);
  PLIMSOLL_CALL_FAULT(drift.status());
  outcome = make_output_folder(flags.output_dir);
  if (!outcome.ok()) return outcome;
  outcome = make_budgets(flags, planned, participants);
  if (!outcome.ok()) return outcome;
  const auto current = executor::CurrentExecutable::create(planned.fitting(), planned.options(),
                                                           participants.front().budget, *drift);
  PLIMSOLL_PROGRAM_FAULT(current.status());

  std::vector<double> seconds;
  std::vector<ir::Literal> results;
  for (int i = 0; i < flags.repeat; ++i) {
    const auto executable = (*current)->next();
    const auto start = std::chrono::steady_clock::now();
    auto run = run_once(*executable, participants, inputs, processes.communicator.get());
    const auto end = std::chrono::steady_clock::now();
    PLIMSOLL_PROGRAM_FAULT(run.status());
    results = std::move(*run);
    seconds.push_back(std::chrono::duration<double>(end - start).count());
  }
  for (std::size_t p = 0; p < participants.size(); ++p) {
    results[p] = given_shape(std::move(results[p]), result_shape);
    participants[p].outputs = literal_leaves(results[p]);
  }
  if (!flags.output_dir.empty()) {
    outcome = write_outputs(flags.output_dir, names, participants);
    if (!outcome.ok()) return outcome;
  }

  const auto executable = (*current)->get();
  const planner::Plan& plan = executable->plan();
  const memory::Statistics statistics = most_used(participants).statistics();
  const std::int64_t measured = statistics.peak_bytes;
  output.json = plan_json(plan, std::nullopt, planned.unlimited());
  output.json["fusion"] = planned.fusion();
  output.json["residuals"] = planned.residuals();
  output.json["recomputed_percent"] = planned.recomputed_percent();
  output.json["measured_peak_bytes"] = measured;
  std::string uses_text;
  for (int i = 0; i < memory::kUseCount; ++i) {
    const std::string name(memory::to_string(static_cast<memory::Use>(i)));
    const std::int64_t bytes = statistics.peak_by_use[at(i)];
    output.json["measured_peak_by_use"][name] = bytes;
    if (bytes > 0) uses_text += fmt::format("  {:<14} {}\n", name, format_bytes(bytes));
  }
  const std::int64_t code_bytes = planned.compiler().code_bytes().now;
  output.json["code_bytes"] = code_bytes;
  const memory::Tiers& tiers = participants.front().budget->tiers();
  const auto tier_peak = [](const memory::Tier* tier) {
    return tier == nullptr ? 0 : tier->statistics().peak_bytes;
  };
  for (const MemorySpace tier : kTiers) {
    output.json[std::string(tier_info(tier).name) + "_peak_bytes"] = tier_peak(tiers[tier].get());
  }
  output.json["replans"] = (*current)->replans();
  output.json["trials"] = (*current)->trials();
  output.json["improvements"] = (*current)->improvements();
  const executor::LaunchCounts launches = executable->launches();
  output.json["launched_kernels"] = launches.kernels;
  output.json["launches"] = launches.launches;
  output.json["collectives_beside"] = launches.beside;
  output.json["seconds"] = seconds;
  output.text = plan_text(plan, std::nullopt, planned.unlimited()) + planned.form_text();
  output.text += fmt::format(
      "measured peak    {} ({})\n{}code             {} in host memory\nlaunches         {} of {} "
      "kernels\nseconds         ",
      format_bytes(measured), measured, uses_text, format_bytes(code_bytes), launches.launches,
      launches.kernels);
  for (const double value : seconds) output.text += fmt::format(" {:.6f}", value);
  output.text += "\n";
  for (const Participant& one : participants) {
    Json outputs = outputs_json(names, one.outputs, one.suffix, output.text);
    if (&one == &participants.front()) output.json["outputs"] = outputs;
    if (processes.total == 1) break;
    output.json["participants"].push_back(
        {{"participant", one.number},
         {"replica", static_cast<std::int64_t>(one.number) / topology.partitions},
         {"partition", static_cast<std::int64_t>(one.number) % topology.partitions},
         {"measured_peak_bytes", one.budget->statistics().peak_bytes},
         {"outputs", std::move(outputs)}});
  }
  return {};
}

// Whether the value became a constant of the program.
bool is_used(const std::string& input, const ModelFlags& model) {
  return std::any_of(model.used.begin(), model.used.end(), [&](const std::string& name) {
    return input.starts_with(name + "=") || input.starts_with(import::input_name(name) + "=");
  });
}

Outcome run(const RunFlags& given, Output& output) {
  std::unique_ptr<ir::Module> module;
  ModelFlags model = given.model;
  model.values = given.inputs;
  Outcome outcome = read_program(given.file, model, module);
  if (!outcome.ok()) return outcome;
  outcome = partition_by(given.plan, *module);
  if (!outcome.ok()) return outcome;
  Processes processes;
  outcome = join_processes(given.communicator, *module, processes);
  RunFlags flags = given;
  std::erase_if(flags.inputs, [&](const std::string& one) { return is_used(one, model); });
  flags.plan.plans_alone = processes.communicator != nullptr;
  if (outcome.ok()) outcome = run_participants(flags, std::move(module), processes, output);
  processes.leave(outcome.status());
  return outcome;
}

}  // namespace

void add_run(Commands& commands) {
  const auto flags = std::make_shared<RunFlags>();
  CLI::App* command = commands.add("run", "Run a program under a memory limit");
  command
      ->add_option("FILE", flags->file, "HLO text, or any program that is read (-: standard input)")
      ->required();
  add_plan_flags(command, flags->plan);
  add_tier_flags(command, flags->plan);
  add_topology_flags(command, flags->plan);
  add_model_flags(command, flags->model);
  command->add_flag("--as-written", flags->plan.as_written, "Skip the optimizing passes");
  command
      ->add_option("--input", flags->inputs,
                   "NAME=FILE.npy for a parameter; NAME@K=... for participant K alone; "
                   "NAME#LEAF=... for one array of a tuple")
      ->allow_extra_args(false);
  // The library's own conversion wraps -1 and saturates what does not fit.
  command->add_option("--seed", flags->seed, "Of the inputs that are not given")
      ->check([](const std::string& text) {
        std::uint64_t seed = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, seed);
        return error == std::errc() && stop == end ? std::string()
                                                   : "'" + text + "' is no number below 2^64";
      });
  command->add_option("--output-dir", flags->output_dir, "Folder that gets NAME.npy per result");
  command
      ->add_option(
          "--communicator", flags->communicator,
          "local: all participants run here; gloo: number RANK of WORLD_SIZE processes does; nccl: "
          "the same on GPUs [PLIMSOLL_COMMUNICATOR]")
      ->check(CLI::IsMember({"local", "gloo", "nccl"}));
  command->add_option("--repeat", flags->repeat, "Number of runs")->check(CLI::Range(1, 1 << 30));
  command->callback([&commands, flags] {
    commands.action = [flags](Output& output) { return run(*flags, output); };
  });
}

}  // namespace plimsoll::tools
