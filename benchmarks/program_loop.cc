// SPDX-License-Identifier: Apache-2.0
// Keeps programs compiled and their buffers on the device, and runs them on request, so that they
// can be timed in turns with another process. One request a line on standard input, one JSON object
// a line on standard output:
//   load NAME FILE.hlo FOLDER   compiles; parameter leaf i is FOLDER/i.npy -> {"compile_seconds",
//                               "kernels", "peak_bytes"}
//   run NAME COUNT              -> {"seconds": one per run}
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
#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/import/npy.h"
#include "runtime/ir/text/text.h"
#include "runtime/memory/budget/budget.h"
#include "runtime/planner/options.h"
#include "runtime/program/calibration.h"
#include "runtime/program/program.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One program with its buffers. Donated parameters are overwritten run by run, as in training.
class LoadedProgram {
 public:
  static Result<std::unique_ptr<LoadedProgram>> load(
      const std::string& file, const std::string& folder, device::KernelProvider& provider,
      const std::shared_ptr<memory::Budget>& budget) {
    std::ifstream stream(file);
    if (!stream) return not_found(file + ": cannot be read");
    std::stringstream text;
    text << stream.rdbuf();
    PLIMSOLL_ASSIGN_OR_RETURN(auto module, ir::parse_module(text.str(), file));
    auto loaded = std::make_unique<LoadedProgram>();
    loaded->budget_ = budget;
    const auto start = std::chrono::steady_clock::now();
    PLIMSOLL_ASSIGN_OR_RETURN(auto program,
                              executor::Program::create(std::move(module), provider, {},
                                                        executor::machine_speeds(provider)));
    PLIMSOLL_ASSIGN_OR_RETURN(loaded->executable_,
                              executor::make_executable(program, {}, {}, *budget));
    loaded->compile_seconds_ = seconds_since(start);
    PLIMSOLL_ASSIGN_OR_RETURN(loaded->stream_, budget->device().create_stream());
    PLIMSOLL_RETURN_IF_ERROR(loaded->make_buffers(folder));
    return loaded;
  }

  Json describe() const {
    return {{"compile_seconds", compile_seconds_},
            {"steps", executable_->plan().counts.compute},
            {"peak_bytes", executable_->plan().peak_bytes}};
  }

  Result<Json> run(int count, bool profile) {
    executable_->enable_profile(profile);
    executable_->clear_profile();
    Json seconds = Json::array();
    for (int i = 0; i < count; ++i) {
      const auto start = std::chrono::steady_clock::now();
      PLIMSOLL_RETURN_IF_ERROR(
          executable_->run(*stream_, *budget_, executor::Arguments{parameters_, outputs_}));
      seconds.push_back(seconds_since(start));
    }
    Json answer = {{"seconds", std::move(seconds)}};
    if (!profile) return answer;
    answer["kernels"] = Json::array();
    for (const executor::ProfileEntry& entry : executable_->profile()) {
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
    const auto leaves = ir::leaves(executable_->plan().computation->root()->shape());
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
    const ir::Computation& entry = *executable_->plan().computation;
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
      const int parameter = executable_->output_parameter(static_cast<int>(i));
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
  std::shared_ptr<const executor::Executable> executable_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<memory::Allocation> held_;
  std::vector<void*> parameters_, outputs_;
  double compile_seconds_ = 0;
};

class Loop {
 public:
  explicit Loop(std::shared_ptr<device::KernelProvider> provider)
      : provider_(std::move(provider)),
        budget_(memory::Budget::create(device::default_device(), planner::kUnlimited)) {}

  Result<Json> answer(const std::string& line) {
    std::istringstream words(line);
    std::string request, name;
    words >> request >> name;
    if (request == "load") {
      std::string file, folder;
      words >> file >> folder;
      PLIMSOLL_ASSIGN_OR_RETURN(auto program,
                                LoadedProgram::load(file, folder, *provider_, budget_));
      Json json = program->describe();
      programs_[name] = std::move(program);
      return json;
    }
    const auto found = programs_.find(name);
    if (found == programs_.end()) {
      return not_found("'" + line + "': no program of that name is loaded (load NAME FILE FOLDER)");
    }
    if (request == "run" || request == "profile") {
      int count = 1;
      words >> count;
      return found->second->run(count, request == "profile");
    }
    if (request == "save") {
      std::string folder;
      words >> folder;
      return found->second->save(folder);
    }
    if (request == "drop") {
      programs_.erase(found);
      return Json::object();
    }
    return invalid_argument("'" + request + "': no request (load, run, profile, save, drop)");
  }

 private:
  std::shared_ptr<device::KernelProvider> provider_;
  std::shared_ptr<memory::Budget> budget_;
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
