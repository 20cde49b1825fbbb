// SPDX-License-Identifier: Apache-2.0
// How long a program's generated kernels take to be ready, in a fresh process each time: cold
// (nothing kept), cold and kept on disk for later, and warm (all found there); and how long a
// look-up takes once they are. The programs are the training steps of benchmarks/training_steps.
// One JSON object goes to standard output, a table to standard error. Medians over the rounds.
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/training_steps/measure.h"
#include "jit/jit.h"
#include "runtime/base/file.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"

namespace {

using namespace plimsoll;
using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What the executor asks the compiler for: instructions that are run one by one. Some are refused,
// and have another library's kernel.
std::vector<const ir::Instruction*> kernels_of(const ir::Module& module) {
  std::vector<const ir::Instruction*> found;
  std::vector<const ir::Computation*> work = {module.entry()};
  for (std::size_t i = 0; i < work.size(); ++i) {
    for (const auto& instruction : work[i]->instructions()) {
      switch (instruction->opcode()) {
        case ir::Opcode::call:
        case ir::Opcode::while_:
        case ir::Opcode::conditional:
          for (const ir::Computation* callee : instruction->called_computations()) {
            if (std::find(work.begin(), work.end(), callee) == work.end()) work.push_back(callee);
          }
          break;
        case ir::Opcode::constant:
        case ir::Opcode::parameter:
        case ir::Opcode::tuple:
        case ir::Opcode::get_tuple_element:
          break;
        default:
          found.push_back(instruction.get());
      }
    }
  }
  return found;
}

// One fresh process: prints one JSON object.
int child(const std::string& mode, const std::string& folder, const std::string& file) {
  const auto text = read_file(file);
  auto module = text.ok() ? ir::parse_module(*text, file) : text.status();
  if (!module.ok() || !passes::optimize(**module).ok()) return 1;
  auto wanted = kernels_of(**module);
  jit::Options options;
  if (mode != "cold") {
    options.disk_cache = {jit::DiskCacheMode::read_write, folder, std::int64_t{1} << 30};
  }
  // The pool's threads are not the compiler's.
  device::parallel_for(1000, 1, [](std::int64_t, std::int64_t) {});
  const auto start = Clock::now();
  auto compiler = jit::Compiler::create(options);
  if (!compiler.ok()) return 1;
  const double create_seconds = since(start);
  std::vector<StatusCode> codes(wanted.size());
  device::parallel_for(static_cast<std::int64_t>(wanted.size()), 1,
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i) {
                           const auto at = static_cast<std::size_t>(i);
                           codes[at] = (*compiler)->compile(*wanted[at]).status().code();
                         }
                       });
  const double seconds = since(start);
  std::size_t taken = 0;
  bool ok = true;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (codes[i] == StatusCode::ok) {
      wanted[taken++] = wanted[i];
    } else {
      ok = ok && codes[i] == StatusCode::unimplemented;
    }
  }
  wanted.resize(taken);
  const jit::Statistics made = (*compiler)->statistics();
  // All of them again, many times.
  std::vector<double> look_ups;
  for (int round = 0; round < 50; ++round) {
    const auto begin = Clock::now();
    for (const ir::Instruction* instruction : wanted) {
      ok = ok && (*compiler)->compile(*instruction).ok();
    }
    look_ups.push_back(since(begin) / static_cast<double>(wanted.size()));
  }
  if (!ok) return 1;
  const ordered_json json = {{"instructions", wanted.size()},
                             {"compiled", made.kernels_compiled},
                             {"loaded", made.kernels_loaded},
                             {"create_seconds", create_seconds},
                             {"seconds", seconds},
                             {"thread_seconds", made.compile_seconds},
                             {"look_up_seconds", median(look_ups)}};
  std::cout << json.dump() << "\n";
  return 0;
}

ordered_json run_child(const std::string& mode, const std::string& folder,
                       const std::string& file) {
  const std::string command = "'" + std::filesystem::read_symlink("/proc/self/exe").string() +
                              "' --child " + mode + " --folder '" + folder + "' --file '" + file +
                              "'";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  while (pipe != nullptr) {
    const std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe);
    if (count == 0) break;
    out.append(buffer, count);
  }
  if (pipe == nullptr || ::pclose(pipe) != 0) return nullptr;
  return ordered_json::parse(out, nullptr, false);
}

ordered_json measure(const std::string& name, const std::string& base, int rounds) {
  const std::string file = base + "/" + name + ".hlo", folder = base + "/" + name;
  std::map<std::string, std::vector<ordered_json>> runs;
  for (int round = 0; round < rounds; ++round) {
    std::filesystem::remove_all(folder);
    for (const char* mode : {"cold", "store", "warm"}) {
      ordered_json run = run_child(mode, folder, file);
      if (!run.is_object()) return nullptr;
      runs[mode].push_back(std::move(run));
    }
  }
  const auto of = [&](const char* mode, const char* field) {
    std::vector<double> values;
    for (const ordered_json& run : runs[mode]) values.push_back(run[field].get<double>());
    return median(values);
  };
  return {{"workload", name},
          {"instructions", runs["cold"][0]["instructions"]},
          {"kernels", runs["cold"][0]["compiled"]},
          {"found_when_warm", runs["warm"][0]["loaded"]},
          {"cold_seconds", of("cold", "seconds")},
          {"cold_thread_seconds", of("cold", "thread_seconds")},
          {"store_seconds", of("store", "seconds")},
          {"warm_seconds", of("warm", "seconds")},
          {"create_seconds", of("warm", "create_seconds")},
          {"look_up_seconds", of("warm", "look_up_seconds")}};
}

}  // namespace

int main(int argc, char** argv) {
  plimsoll::benchmarks::CommandLine line(
      "How long kernels take to be ready: cold, warm from disk, hot.", "compile_time");
  std::vector<std::string> names;
  int rounds = 5;
  double scale = 0.5;
  std::string mode, folder, file;
  line.add("workloads", names, "cnn, gpt, lstm, unet, gpt_scanned; none given: all");
  line.add("--rounds", rounds, "Fresh processes per figure", {.least = 1, .most = 1000});
  line.add("--scale", scale, "Multiplies the batches", {.positive = true});
  line.add_hidden("--child", mode);
  line.add_hidden("--folder", folder);
  line.add_hidden("--file", file);
  if (const auto status = line.read(argc, argv)) return *status;
  if (!mode.empty()) return child(mode, folder, file);

  std::string base = (std::filesystem::temp_directory_path() / "plimsoll-compile-XXXXXX").string();
  if (::mkdtemp(base.data()) == nullptr) return 1;
  ordered_json out = {{"threads", device::thread_count()}, {"rounds", rounds}};
  int status = 0;
  std::fprintf(stderr, "%-6s %7s %10s %10s %10s %10s %12s\n", "step", "kernels", "cold ms",
               "CPU ms", "kept ms", "warm ms", "look-up ns");
  for (const auto& workload : benchmarks::training_workloads(scale)) {
    if (!names.empty() && std::find(names.begin(), names.end(), workload.name) == names.end()) {
      continue;
    }
    std::ofstream(base + "/" + workload.name + ".hlo") << benchmarks::step_text(workload);
    ordered_json row = measure(workload.name, base, rounds);
    if (!row.is_object()) {
      std::fprintf(stderr, "compile_time: %s failed\n", workload.name.c_str());
      status = 1;
      continue;
    }
    const auto ms = [&](const char* field) { return 1e3 * row[field].get<double>(); };
    std::fprintf(stderr, "%-6s %7d %10.1f %10.1f %10.1f %10.2f %12.0f\n", workload.name.c_str(),
                 row["kernels"].get<int>(), ms("cold_seconds"), ms("cold_thread_seconds"),
                 ms("store_seconds"), ms("warm_seconds"), 1e6 * ms("look_up_seconds"));
    out["rows"].push_back(std::move(row));
  }
  std::filesystem::remove_all(base);
  std::cout << out.dump(2) << "\n";
  return status;
}
