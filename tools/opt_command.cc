// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/byte_size.h"
#include "runtime/base/log.h"
#include "runtime/ir/fusions/horizontal_fusion.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"
#include "runtime/planner/baselines/greedy.h"
#include "runtime/planner/cost/cost_model.h"
#include "tools/names.h"
#include "tools/plan/planned_program.h"
#include "tools/plan/remat_pass.h"
#include "tools/program_file.h"

namespace plimsoll::tools {
namespace {

struct OptFlags {
  ModelFlags model;
  std::string file;
  std::vector<std::string> passes;  // as given: lists of names
  PlanFlags plan;
  int block_size = 1;
  bool list = false;
};

// What the two passes that recompute go by, besides the limit.
struct RematFlags {
  PlanFlags plan;
  int block_size = 1;
};

// One pass of the command line: a name, and what it does to a module. It may add to its report.
struct Pass {
  std::string name;
  std::string description;
  std::function<Outcome(std::unique_ptr<ir::Module>& module, bool& changed, Json& report)> run;
};

// What the two passes may do, and within which limit; shares are of the peak of the module as it
// then is.
struct RematTask {
  planner::PlanPolicy policy;
  std::int64_t limit_bytes = 0;
};

Outcome read_task(const ir::Module& module, const RematFlags& flags, RematTask& out) {
  Outcome outcome = read_policy(flags.plan, out.policy);
  if (!outcome.ok()) return outcome;
  outcome = read_limit(
      flags.plan,
      [&]() -> Result<std::int64_t> {
        PLIMSOLL_ASSIGN_OR_RETURN(
            const planner::Plan plan,
            planner::make_plan(module, planner::RooflineCostModel(), {out.policy, {}, {}}));
        return plan.peak_bytes;
      },
      out.limit_bytes);
  if (!outcome.ok() || out.limit_bytes != planner::kUnlimited) return outcome;
  return Outcome::call_fault(invalid_argument("remat and remat-greedy need a --memory-limit"));
}

Outcome remat(const RematFlags& flags, std::unique_ptr<ir::Module>& module, bool& changed,
              Json& report) {
  RematTask task;
  const Outcome outcome = read_task(*module, flags, task);
  if (!outcome.ok()) return outcome;
  // A module has no instructions for the other remedies.
  task.policy.remedies.compress = task.policy.remedies.swap = false;
  const planner::RooflineCostModel cost_model;
  const auto plan =
      planner::make_plan(*module, cost_model, {task.policy, {}, {task.limit_bytes, {}}});
  PLIMSOLL_PROGRAM_FAULT(plan.status());
  auto rebuilt = module_of_plan(*module, *plan);
  PLIMSOLL_PROGRAM_FAULT(rebuilt.status());
  changed = ir::to_text(**rebuilt) != ir::to_text(*module);
  report["peak_bytes"] = plan->peak_bytes;
  report["recomputed"] = plan->counts.recompute;
  module = std::move(*rebuilt);
  return {};
}

Outcome remat_greedy(const RematFlags& flags, std::unique_ptr<ir::Module>& module, bool& changed,
                     Json& report) {
  RematTask task;
  const Outcome outcome = read_task(*module, flags, task);
  if (!outcome.ok()) return outcome;
  // The order of the text is the schedule.
  module->is_scheduled = true;
  planner::GreedyOptions greedy;
  greedy.limit_bytes = task.limit_bytes;
  greedy.min_bytes = task.policy.min_bytes;
  greedy.block_size_limit = flags.block_size;
  const auto result = planner::rematerialize_greedy(*module, greedy);
  PLIMSOLL_PROGRAM_FAULT(result.status());
  changed = result->changed;
  report["peak_before_bytes"] = result->peak_before;
  report["peak_after_bytes"] = result->peak_after;
  report["rematerialized"] = result->rematerialized;
  if (result->peak_after > task.limit_bytes) {
    log_line(LogLevel::warning, "remat-greedy: the peak is " + format_bytes(result->peak_after) +
                                    " at the end, over the limit of " +
                                    format_bytes(task.limit_bytes));
  }
  return {};
}

// Launches of several kernels, and how many they launch.
void count_launches(const ir::Module& module, Json& report) {
  std::size_t launches = 0, kernels = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      const std::size_t parts = ir::horizontal_parts(*instruction).size();
      launches += parts > 0 ? 1 : 0;
      kernels += parts;
    }
  }
  report["launches"] = launches;
  report["kernels"] = kernels;
}

Json json_of(const std::vector<passes::Remark>& remarks) {
  Json list = Json::array();
  for (const passes::Remark& remark : remarks) {
    list.push_back({{"instruction", remark.instruction},
                    {"changed", remark.changed},
                    {"reason", remark.reason}});
  }
  return list;
}

std::vector<Pass> make_passes(const RematFlags& flags) {
  std::vector<Pass> list;
  list.push_back({"none", "nothing: a round trip through the reader and the printer",
                  [](auto&, bool&, Json&) { return Outcome(); }});
  list.push_back({"optimize", "the passes that compilation runs, in their order",
                  [](auto& module, bool& changed, Json&) -> Outcome {
                    const auto options = executor::program_options_from_environment();
                    PLIMSOLL_CALL_FAULT(options.status());
                    const std::string before = ir::to_text(*module);
                    PLIMSOLL_PROGRAM_FAULT(passes::optimize(
                        *module, {.fused_attention = options->fused_attention,
                                  .excess_precision = options->excess_precision,
                                  .collective_bucket_bytes = options->collective_bucket_bytes}));
                    changed = ir::to_text(*module) != before;
                    return {};
                  }});
  for (const auto& infos : {passes::all_passes(), passes::rounding_passes()}) {
    for (const passes::PassInfo& info : infos) {
      list.push_back({std::string(info.name), std::string(info.description),
                      [&info](auto& module, bool& changed, Json& report) -> Outcome {
                        std::vector<passes::Remark> remarks;
                        passes::OptimizeOptions options;
                        if (info.explain != nullptr) {
                          const auto given = executor::program_options_from_environment();
                          PLIMSOLL_CALL_FAULT(given.status());
                          options.collective_bucket_bytes = given->collective_bucket_bytes;
                        }
                        const auto result = info.explain != nullptr
                                                ? info.explain(*module, options, remarks)
                                                : info.run(*module, {});
                        PLIMSOLL_PROGRAM_FAULT(result.status());
                        if (info.explain != nullptr) report["candidates"] = json_of(remarks);
                        changed = *result;
                        if (info.launches_together) count_launches(*module, report);
                        return {};
                      }});
    }
  }
  list.push_back({"remat", "recompute by the planner's choice to fit --memory-limit",
                  [&flags](auto& module, bool& changed, Json& report) {
                    return remat(flags, module, changed, report);
                  }});
  list.push_back({"remat-greedy", "recompute by the greedy baseline to fit --memory-limit",
                  [&flags](auto& module, bool& changed, Json& report) {
                    return remat_greedy(flags, module, changed, report);
                  }});
  return list;
}

Outcome list_passes(const std::vector<Pass>& passes, Output& output) {
  Json list = Json::array();
  for (const Pass& pass : passes) {
    list.push_back({{"name", pass.name}, {"description", pass.description}});
    output.text += fmt::format("{:<28} {}\n", pass.name, pass.description);
  }
  output.json["passes"] = std::move(list);
  return {};
}

// What the entry computation takes as kernels, by shapes.
Json work_json(const ir::Module& module) {
  std::int64_t kernels = 0, fusions = 0;
  planner::Work sum;
  for (const auto& instruction : module.entry()->instructions()) {
    const ir::OpClass kind = ir::op_info(instruction->opcode()).op_class;
    if (kind == ir::OpClass::structure || kind == ir::OpClass::control ||
        instruction->opcode() == ir::Opcode::constant) {
      continue;
    }
    ++kernels;
    if (instruction->opcode() == ir::Opcode::fusion) ++fusions;
    const planner::Work work = planner::count_work(*instruction);
    sum.flops += work.flops;
    sum.bytes += work.bytes;
  }
  return {{"kernels", kernels},
          {"fusions", fusions},
          {"operations", static_cast<std::int64_t>(sum.flops)},
          {"bytes", static_cast<std::int64_t>(sum.bytes)}};
}

Outcome opt(const OptFlags& flags, Output& output) {
  const RematFlags remat_flags{flags.plan, flags.block_size};
  const std::vector<Pass> known = make_passes(remat_flags);
  if (flags.list) return list_passes(known, output);
  if (flags.file.empty()) {
    return Outcome::call_fault(invalid_argument("FILE is required"));
  }
  const auto names = split_names("--passes", flags.passes);
  PLIMSOLL_CALL_FAULT(names.status());
  std::vector<const Pass*> chosen;
  for (const std::string& name : *names) {
    const Pass* found = nullptr;
    for (const Pass& pass : known) {
      if (pass.name == name) found = &pass;
    }
    if (found == nullptr) {
      return Outcome::call_fault(
          invalid_argument("--passes: '" + name + "' is not a pass (opt --list names them)"));
    }
    chosen.push_back(found);
  }
  if (chosen.empty()) {
    return Outcome::call_fault(invalid_argument("--passes is required (opt --list names them)"));
  }
  Outcome outcome = check_plan_flags(flags.plan);
  if (!outcome.ok()) return outcome;
  std::unique_ptr<ir::Module> module;
  ModelFlags model = flags.model;
  outcome = read_program(flags.file, model, module);
  if (!outcome.ok()) return outcome;
  outcome = set_topology(flags.plan, *module);
  if (!outcome.ok()) return outcome;
  Json reports = Json::array();
  Json changed_by_name = Json::object();
  for (const Pass* pass : chosen) {
    bool changed = false;
    Json report = {{"name", pass->name}, {"changed", false}};
    outcome = pass->run(module, changed, report);
    if (!outcome.ok()) return outcome;
    report["changed"] = changed;
    changed_by_name[pass->name] = changed || changed_by_name.value(pass->name, false);
    reports.push_back(std::move(report));
  }
  output.text = ir::to_text(*module);
  output.json["changed"] = std::move(changed_by_name);
  output.json["passes"] = std::move(reports);
  output.json["work"] = work_json(*module);
  output.json["hlo"] = output.text;
  return {};
}

}  // namespace

void add_opt(Commands& commands) {
  const auto flags = std::make_shared<OptFlags>();
  CLI::App* command = commands.add("opt", "HLO text in, HLO text out");
  command->add_option("FILE", flags->file,
                      "HLO text, or any program that is read (-: standard input)");
  command->add_option("--passes", flags->passes, "Names with commas between them, in their order")
      ->allow_extra_args(false);
  add_plan_flags(command, flags->plan);
  command
      ->add_option("--block-size", flags->block_size,
                   "remat-greedy: most instructions recomputed as one")
      ->check(CLI::Range(1, 1 << 30));
  add_topology_flags(command, flags->plan);
  add_model_flags(command, flags->model);
  add_value_flag(command, flags->model);
  command->add_flag("--list", flags->list, "Name the passes");
  command->callback([&commands, flags] {
    commands.action = [flags](Output& output) { return opt(*flags, output); };
  });
}

}  // namespace plimsoll::tools
