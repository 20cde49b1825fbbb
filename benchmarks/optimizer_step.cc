// SPDX-License-Identifier: Apache-2.0
// Adam's update of 200 parameters, in place: in joint launches (as runs do it by default), kernel
// by kernel, and as the pass `horizontal-fusion` writes it, in turns in one run. Mixes: biases (10
// to 512 elements), layers (three biases or scales of 10 to 256 elements to each matrix of 10 x 10
// to 64 x 64), and the same with a matrix of 256 x 256 at every twentieth place. Prints one JSON
// object, times in microseconds (medians): of whole runs of the executable, of compiling, planning
// and resolving; launches and peak; and what an empty parallel loop takes.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/graphs/adam_update.h"
#include "runtime/backend/backends.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/resolved_plan.h"
#include "runtime/ir/text/text.h"
#include "runtime/memory/budget/budget.h"
#include "runtime/passes/passes.h"
#include "runtime/program/program.h"

namespace {

using namespace plimsoll;
using Clock = std::chrono::steady_clock;

constexpr int kParameters = 200;
constexpr int kRepeats = 41;

struct Mix {
  const char* name;
  std::function<std::string(int)> dims;  // of parameter i
};

std::string square(int n) { return std::to_string(n) + "," + std::to_string(n); }
std::string bias(int i, int most) { return std::to_string(10 + i * 37 % (most - 9)); }
std::string layer(int i) { return i % 4 == 0 ? square(10 + i * 7 % 55) : bias(i, 256); }

const std::vector<Mix>& mixes() {
  static const std::vector<Mix> all = {
      {"biases", [](int i) { return bias(i, 512); }},
      {"layers", layer},
      {"layers_and_large", [](int i) { return i % 20 == 0 ? square(256) : layer(i); }}};
  return all;
}

std::string hlo_of(const Mix& mix) {
  std::vector<std::string> dims;
  for (int i = 0; i < kParameters; ++i) dims.push_back(mix.dims(i));
  return graphs::adam_update(dims);
}

double microseconds(const std::function<void()>& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

[[noreturn]] void stop(const Status& status) {
  std::cerr << status.to_string() << '\n';
  std::exit(1);
}

template <typename T>
T value(Result<T> result) {
  if (!result.ok()) stop(result.status());
  return std::move(result).value();
}

// The step as one program, with its buffers.
struct Prepared {
  std::shared_ptr<const executor::Program> program;
  std::shared_ptr<const executor::Executable> executable;
  double compile = 0, plan = 0, resolve = 0;
  std::int64_t functions = 0;
  std::vector<std::vector<float>> buffers;  // per parameter
  std::vector<void*> arguments, outputs;
};

Prepared prepare(const Mix& mix, bool horizontal, memory::Budget& budget) {
  Prepared made;
  auto module = value(ir::parse_module(hlo_of(mix), "step"));
  for (const auto& pass : passes::all_passes()) {
    if (pass.name == "horizontal-fusion" && !horizontal) continue;
    if (const auto changed = pass.run(*module, {}); !changed.ok()) stop(changed.status());
  }
  auto provider = value(backend::create_kernels(device::default_device()));
  made.compile = microseconds([&] {
    made.program = value(executor::Program::create(std::move(module), *provider, false));
  });
  made.functions = provider->statistics().kernels_compiled;
  made.plan = microseconds(
      [&] { made.executable = value(executor::make_executable(made.program, {}, {}, budget)); });
  std::vector<double> resolves;
  for (int i = 0; i < 11; ++i) {
    resolves.push_back(microseconds(
        [&] { (void)value(executor::resolve(*made.program, made.executable->plan())); }));
  }
  made.resolve = median(resolves);
  for (const ir::Instruction* parameter : made.program->module().entry()->parameters()) {
    const auto count = static_cast<std::size_t>(parameter->shape().element_count());
    auto& buffer = made.buffers.emplace_back(count + 16);
    for (std::size_t i = 0; i < count; ++i) {
      buffer[i] = static_cast<float>((i * 2654435761u + made.buffers.size()) % 1024) / 1024;
    }
    made.arguments.push_back(buffer.data());
  }
  for (int i = 0; i < kParameters; ++i) {
    for (int k = 0; k < 3; ++k) {
      made.outputs.push_back(made.arguments[static_cast<std::size_t>(4 * i + k)]);
    }
  }
  // Every result lies in the buffer of its parameter.
  for (std::size_t leaf = 0; leaf < made.outputs.size(); ++leaf) {
    const int parameter = made.executable->output_parameter(static_cast<int>(leaf));
    if (parameter < 0 ||
        made.arguments[static_cast<std::size_t>(parameter)] != made.outputs[leaf]) {
      stop(internal_error("a result is not in place"));
    }
  }
  return made;
}

// One way to run it.
struct Variant {
  const char* name;
  Prepared* step;
  bool joint;
  std::vector<double> times = {};
};

nlohmann::json report_of(const Variant& variant) {
  const Prepared& step = *variant.step;
  const executor::LaunchCounts counts = step.executable->launches();
  return {{"launches", variant.joint ? counts.launches : counts.kernels},
          {"functions_compiled", step.functions},
          {"peak_bytes", step.executable->plan().peak_bytes},
          {"compile_us", step.compile},
          {"plan_us", step.plan},
          {"resolve_us", step.resolve},
          {"run_us", median(variant.times)}};
}

nlohmann::json measure(const Mix& mix, memory::Budget& budget, device::Stream& stream) {
  // Each has buffers of its own, so that none finds them in the caches because another one ran.
  Prepared first = prepare(mix, false, budget), second = prepare(mix, false, budget);
  Prepared fused = prepare(mix, true, budget);
  std::vector<Variant> variants = {
      {"joint", &first, true}, {"apart", &second, false}, {"horizontal", &fused, true}};
  std::int64_t bytes = 0;
  for (const auto& buffer : first.buffers) bytes += static_cast<std::int64_t>(buffer.size() * 4);
  for (const Variant& variant : variants) {
    variant.step->executable->enable_joint_launches(variant.joint);
  }
  for (int i = 0; i < kRepeats + 2; ++i) {
    for (Variant& variant : variants) {
      Prepared& step = *variant.step;
      const double run = microseconds([&] {
        const Status status = step.executable->run(stream, budget, {step.arguments, step.outputs});
        if (!status.ok()) stop(status);
      });
      if (i >= 2) variant.times.push_back(run);
    }
  }
  nlohmann::json report = {{"bytes", bytes}};
  for (const Variant& variant : variants) {
    for (std::size_t i = 0; i < first.buffers.size(); ++i) {
      if (std::memcmp(variant.step->buffers[i].data(), first.buffers[i].data(),
                      first.buffers[i].size() * sizeof(float)) != 0) {
        stop(internal_error("results differ"));
      }
    }
    report[variant.name] = report_of(variant);
  }
  for (const char* name : {"joint", "horizontal"}) {
    report[std::string("speedup_") + name] =
        report["apart"]["run_us"].get<double>() / report[name]["run_us"].get<double>();
  }
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = plimsoll::benchmarks::read_no_arguments("optimizer_step", argc, argv))
    return *status;
  const auto budget = memory::Budget::create(device::cpu_device(), std::int64_t{1} << 30);
  auto stream = value(device::cpu_device()->create_stream());
  nlohmann::json report = {{"threads", device::thread_count()}};
  std::vector<double> empty;
  for (int i = 0; i < 1001; ++i) {
    empty.push_back(microseconds([] {
      device::parallel_for(device::thread_count(), 1, [](std::int64_t, std::int64_t) {});
    }));
  }
  report["empty_parallel_loop_us"] = median(empty);
  for (const Mix& mix : mixes()) report[mix.name] = measure(mix, *budget, *stream);
  std::cout << report.dump(2) << '\n';
  return 0;
}
