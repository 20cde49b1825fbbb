// SPDX-License-Identifier: Apache-2.0
// Keeps programs compiled and their buffers on the device, and runs them on request, so that they
// can be timed in turns with another process. One request a line on standard input, one JSON object
// a line on standard output:
//   load NAME FILE FOLDER [LIMIT]
//                               compiles a program of any form, plans within LIMIT bytes where they
//                               are given; parameter leaf i is FOLDER/i.npy -> {"compile_seconds",
//                               "steps", "peak_bytes"}
//   run NAME COUNT              -> {"seconds": one per run}; plans again where times say so
//   floor NAME                  -> {"floor_bytes"}: the smallest limit there is a plan for
//   describe NAME               what holds now and what was measured -> {"peak_bytes",
//                               "measured_peak_bytes", "by_use", "recomputed_bytes", "encodes",
//                               "replans", "fusion", "residuals", "predicted_seconds"}
//   profile NAME COUNT          -> {"seconds", "kernels": [{"name", "origin", "launches",
//                               "seconds"}]}, per run
//   save NAME FOLDER            result leaf i of the last run to FOLDER/i.npy -> {"outputs"}
//   drop NAME                   -> {}
// A request that fails gets {"error"}, and the next one is read.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/backend/backends.h"
#include "runtime/base/environment.h"
#include "runtime/base/index.h"
#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/import/npy.h"
#include "runtime/import/program_bytes.h"
#include "runtime/memory/budget/budget.h"
#include "runtime/planner/options.h"
#include "runtime/program/calibration.h"
#include "runtime/program/machine.h"
#include "runtime/program/plan_within.h"
#include "runtime/program/program.h"
#include "runtime/serve/current_executable.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One program with its buffers, under a limit of its own. Donated parameters are overwritten run by
// run, as in training.
class LoadedProgram {
 public:
  static Result<std::unique_ptr<LoadedProgram>> load(const std::string& file,
                                                     const std::string& folder,
                                                     std::int64_t limit_bytes,
                                                     device::KernelProvider& provider) {
    PLIMSOLL_ASSIGN_OR_RETURN(auto module, import::load_program(file));
    PLIMSOLL_ASSIGN_OR_RETURN(const double drift, number_variable(Variable::replan_drift));
    PLIMSOLL_ASSIGN_OR_RETURN(const executor::ProgramOptions options,
                              executor::program_options_from_environment());
    auto loaded = std::make_unique<LoadedProgram>();
    loaded->budget_ = memory::Budget::create(device::default_device(), limit_bytes);
    const auto start = std::chrono::steady_clock::now();
    PLIMSOLL_ASSIGN_OR_RETURN(loaded->program_,
                              executor::Program::create(std::move(module), provider, options,
                                                        executor::machine_speeds(provider)));
    loaded->options_ = {{}, executor::machine_of(loaded->budget_->tiers()), {limit_bytes, {}, {}}};
    PLIMSOLL_ASSIGN_OR_RETURN(
        loaded->current_, executor::CurrentExecutable::create(loaded->program_, loaded->options_,
                                                              loaded->budget_, drift));
    loaded->compile_seconds_ = seconds_since(start);
    PLIMSOLL_ASSIGN_OR_RETURN(loaded->stream_, loaded->budget_->device().create_stream());
    PLIMSOLL_RETURN_IF_ERROR(loaded->make_buffers(folder));
    return loaded;
  }

  Json loaded() const {
    const planner::Plan& plan = current_->get()->plan();
    return {{"compile_seconds", compile_seconds_},
            {"steps", plan.counts.compute},
            {"peak_bytes", plan.peak_bytes}};
  }

  Json describe() const {
    const auto executable = current_->get();
    const planner::Plan& plan = executable->plan();
    const memory::Statistics statistics = budget_->statistics();
    Json by_use;
    for (int i = 0; i < memory::kUseCount; ++i) {
      by_use[std::string(memory::to_string(static_cast<memory::Use>(i)))] =
          statistics.peak_by_use[at(i)];
    }
    const executor::ProgramForm& form = executable->program().form();
    return {{"peak_bytes", plan.peak_bytes},
            {"measured_peak_bytes", statistics.peak_bytes},
            {"by_use", std::move(by_use)},
            {"recomputed_bytes", plan.recomputed_bytes},
            {"encodes", plan.counts.all_encodes()},
            {"replans", current_->replans()},
            {"fusion", passes::to_string(form.fusion)},
            {"residuals", passes::to_string(form.residuals)},
            {"predicted_seconds", plan.predicted_seconds}};
  }

  Result<Json> floor() const {
    PLIMSOLL_ASSIGN_OR_RETURN(const planner::Floor found,
                              executor::least_floor(*program_, options_));
    return Json{{"floor_bytes", found.bytes}};
  }

  Result<Json> run(int count, bool profile) {
    if (profile) {
      current_->get()->enable_profile(true);
      current_->get()->clear_profile();
    }
    Json seconds = Json::array();
    for (int i = 0; i < count; ++i) {
      const auto executable = profile ? current_->get() : current_->next();
      const auto start = std::chrono::steady_clock::now();
      PLIMSOLL_RETURN_IF_ERROR(
          executable->run(*stream_, *budget_, executor::Arguments{parameters_, outputs_}));
      seconds.push_back(seconds_since(start));
    }
    // What others do next is timed, too: nothing may go on beside it.
    current_->wait_for_plans();
    Json answer = {{"seconds", std::move(seconds)}};
    if (!profile) return answer;
    current_->get()->enable_profile(false);
    answer["kernels"] = Json::array();
    for (const executor::ProfileEntry& entry : current_->get()->profile()) {
      answer["kernels"].push_back({{"name", entry.name},
                                   {"origin", device::to_string(entry.origin)},
                                   {"launches", entry.launches / count},
                                   {"seconds", entry.seconds / count}});
    }
    return answer;
  }

  Result<Json> save(const std::string& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return unavailable(folder + ": " + error.message());
    const auto executable = current_->get();
    const auto leaves = ir::leaves(executable->plan().computation->root()->shape());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!leaves[i]->is_array()) continue;
      ir::Literal value(*leaves[i]);
      PLIMSOLL_RETURN_IF_ERROR(stream_->copy(value.mutable_bytes().data(), outputs_[i],
                                             leaves[i]->byte_size(),
                                             device::CopyKind::device_to_host));
      PLIMSOLL_RETURN_IF_ERROR(stream_->synchronize());
      PLIMSOLL_RETURN_IF_ERROR(import::write_npy(folder + "/" + std::to_string(i) + ".npy", value));
    }
    return Json{{"outputs", leaves.size()}};
  }

 private:
  Status make_buffers(const std::string& folder) {
    const auto executable = current_->get();
    const ir::Computation& entry = *executable->plan().computation;
    int leaf = 0;
    for (const ir::Instruction* parameter : entry.parameters()) {
      for (const ir::Shape* shape : ir::leaves(parameter->shape())) {
        const std::string file = folder + "/" + std::to_string(leaf++) + ".npy";
        PLIMSOLL_ASSIGN_OR_RETURN(const ir::Literal value, import::read_npy(file));
        if (!(value.shape() == *shape)) {
          return invalid_argument(file + " is " + value.shape().to_string() + ", parameter '" +
                                  parameter->name() + "' has " + shape->to_string());
        }
        PLIMSOLL_ASSIGN_OR_RETURN(
            auto block, budget_->allocate(shape->byte_size(), memory::Tag::parameters, file));
        PLIMSOLL_RETURN_IF_ERROR(stream_->copy(block.data(), value.bytes().data(),
                                               shape->byte_size(),
                                               device::CopyKind::host_to_device));
        parameters_.push_back(block.data());
        held_.push_back(std::move(block));
      }
    }
    const auto leaves = ir::leaves(entry.root()->shape());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const int parameter = executable->output_parameter(static_cast<int>(i));
      if (parameter >= 0) {
        outputs_.push_back(parameters_[static_cast<std::size_t>(parameter)]);
        continue;
      }
      PLIMSOLL_ASSIGN_OR_RETURN(
          auto block, budget_->allocate(leaves[i]->byte_size(), memory::Tag::outputs, "result"));
      outputs_.push_back(block.data());
      held_.push_back(std::move(block));
    }
    return stream_->synchronize();
  }

  std::shared_ptr<memory::Budget> budget_;
  std::shared_ptr<const executor::Program> program_;
  planner::PlanOptions options_;
  std::shared_ptr<executor::CurrentExecutable> current_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<memory::Allocation> held_;
  std::vector<void*> parameters_, outputs_;
  double compile_seconds_ = 0;
};

class Loop {
 public:
  explicit Loop(std::shared_ptr<device::KernelProvider> provider)
      : provider_(std::move(provider)) {}

  Result<Json> answer(const std::string& line) {
    std::istringstream words(line);
    std::string request, name;
    words >> request >> name;
    if (request == "load") {
      std::string file, folder;
      words >> file >> folder;
      std::int64_t limit = 0;
      if (!(words >> limit)) limit = planner::kUnlimited;
      PLIMSOLL_ASSIGN_OR_RETURN(auto program, LoadedProgram::load(file, folder, limit, *provider_));
      Json json = program->loaded();
      programs_[name] = std::move(program);
      return json;
    }
    const auto found = programs_.find(name);
    if (found == programs_.end()) {
      return not_found("'" + line +
                       "': no program of that name is loaded (load NAME FILE FOLDER [LIMIT])");
    }
    if (request == "run" || request == "profile") {
      int count = 1;
      words >> count;
      return found->second->run(count, request == "profile");
    }
    if (request == "floor") return found->second->floor();
    if (request == "describe") return found->second->describe();
    if (request == "save") {
      std::string folder;
      words >> folder;
      return found->second->save(folder);
    }
    if (request == "drop") {
      programs_.erase(found);
      return Json::object();
    }
    return invalid_argument("'" + request +
                            "': no request (load, run, profile, floor, describe, save, drop)");
  }

 private:
  std::shared_ptr<device::KernelProvider> provider_;
  std::map<std::string, std::unique_ptr<LoadedProgram>> programs_;
};

int run() {
  auto provider = backend::create_kernels(device::default_device());
  if (!provider.ok()) {
    std::cerr << provider.status().to_string() << "\n";
    return 1;
  }
  Loop loop(std::move(*provider));
  std::string line;
  while (std::getline(std::cin, line)) {
    auto answer = loop.answer(line);
    const Json json =
        answer.ok() ? std::move(*answer) : Json{{"error", answer.status().to_string()}};
    std::cout << json.dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace plimsoll

int main() { return plimsoll::run(); }
