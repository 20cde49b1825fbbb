// SPDX-License-Identifier: Apache-2.0
// Adam's update of 200 parameters, in place: as horizontal fusion launches it against one kernel
// per parameter, in one run. Mixes: biases (10 to 512 elements), layers (three biases or scales of
// 10 to 256 elements to each matrix of 10 x 10 to 64 x 64), and the same with a matrix of 256 x 256
// at every twentieth place. Prints one JSON object, times in microseconds (medians): of the
// kernels alone, of whole runs of the executable, of compiling and planning; and what an empty
// parallel loop takes.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/arguments.h"
#include "jit/jit.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/executor/executable.h"
#include "runtime/ir/text.h"
#include "runtime/memory/budget.h"
#include "runtime/passes/passes.h"

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

// Parameters 4i .. 4i + 3 are value, first and second moment and gradient of parameter i; the step
// size comes last.
std::string hlo_of(const Mix& mix) {
  std::string header, lines, shapes, names;
  const std::string step = std::to_string(4 * kParameters);
  lines = "l = f32[] parameter(" + step +
          ")\nb1 = f32[] constant(0.9)\nc1 = f32[] constant(0.1)\n" +
          "b2 = f32[] constant(0.999)\nc2 = f32[] constant(0.001)\ne = f32[] constant(1e-8)\n";
  for (int i = 0; i < kParameters; ++i) {
    const std::string n = std::to_string(i), s = "f32[" + mix.dims(i) + "]";
    const auto line = [&](const std::string& name, const std::string& rest) {
      lines += name + n + " = " + s + " " + rest + "\n";
    };
    const auto spread = [&](const std::string& name, const std::string& scalar) {
      line(name, "broadcast(" + scalar + "), dimensions={}");
    };
    const auto two = [&](const std::string& name, const char* op, const std::string& x,
                         const std::string& y) {
      line(name, std::string(op) + "(" + x + n + ", " + y + n + ")");
    };
    const char* const inputs[] = {"p", "m", "v", "g"};
    for (int k = 0; k < 4; ++k) {
      line(inputs[k], "parameter(" + std::to_string(4 * i + k) + ")");
    }
    spread("bb1_", "b1");
    spread("cc1_", "c1");
    spread("bb2_", "b2");
    spread("cc2_", "c2");
    spread("ee_", "e");
    spread("ll_", "l");
    two("m1_", "multiply", "m", "bb1_");
    two("m2_", "multiply", "g", "cc1_");
    two("mm_", "add", "m1_", "m2_");
    two("gg_", "multiply", "g", "g");
    two("v1_", "multiply", "v", "bb2_");
    two("v2_", "multiply", "gg_", "cc2_");
    two("vv_", "add", "v1_", "v2_");
    line("r_", "sqrt(vv_" + n + ")");
    two("d_", "add", "r_", "ee_");
    two("q_", "divide", "mm_", "d_");
    two("u_", "multiply", "q_", "ll_");
    two("pp_", "subtract", "p", "u_");
    shapes += (i > 0 ? ", " : "") + s + ", " + s + ", " + s;
    names += (i > 0 ? ", pp_" : "pp_") + n + ", mm_" + n + ", vv_" + n;
    for (int k = 0; k < 3; ++k) {
      header += (header.empty() ? "{" : ", {") + std::to_string(3 * i + k) + "}: (" +
                std::to_string(4 * i + k) + ", {})";
    }
  }
  return "HloModule step, input_output_alias={" + header + "}\nENTRY e {\n" + lines + "ROOT r = (" +
         shapes + ") tuple(" + names + ")\n}\n";
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

// One way to run the step.
struct Variant {
  std::shared_ptr<const executor::Program> program;
  std::shared_ptr<const executor::Executable> executable;
  double compile = 0, plan = 0;
  int launches = 0;
  std::int64_t functions = 0;
  std::vector<std::vector<float>> buffers;  // per parameter
  std::vector<void*> arguments, outputs;
  // What a launch needs, without the executor.
  struct Launch {
    const device::Kernel* kernel;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    std::vector<std::byte> workspace;
  };
  std::vector<Launch> launch_list;
  std::vector<double> kernel_times, run_times;
};

Variant prepare(const Mix& mix, bool horizontal, memory::Budget& budget) {
  Variant variant;
  auto module = value(ir::parse_module(hlo_of(mix), "step"));
  for (const auto& pass : passes::all_passes()) {
    if (pass.name == "horizontal-fusion" && !horizontal) continue;
    if (const auto changed = pass.run(*module); !changed.ok()) stop(changed.status());
  }
  auto compiler = value(jit::Compiler::create());
  variant.compile = microseconds([&] {
    variant.program = value(executor::Program::create(std::move(module), *compiler, false));
  });
  variant.functions = compiler->statistics().kernels_compiled;
  variant.plan = microseconds([&] {
    variant.executable = value(executor::Executable::create(variant.program, {}, budget));
  });
  const ir::Computation& entry = *variant.program->module().entry();
  for (const ir::Instruction* parameter : entry.parameters()) {
    const auto count = static_cast<std::size_t>(parameter->shape().element_count());
    auto& buffer = variant.buffers.emplace_back(count + 16);
    for (std::size_t i = 0; i < count; ++i) {
      buffer[i] = static_cast<float>((i * 2654435761u + variant.buffers.size()) % 1024) / 1024;
    }
    variant.arguments.push_back(buffer.data());
  }
  for (int i = 0; i < kParameters; ++i) {
    for (int k = 0; k < 3; ++k) {
      variant.outputs.push_back(variant.arguments[static_cast<std::size_t>(4 * i + k)]);
    }
  }
  // Every result lies in the buffer of its parameter.
  for (std::size_t leaf = 0; leaf < variant.outputs.size(); ++leaf) {
    const int parameter = variant.executable->output_parameter(static_cast<int>(leaf));
    if (parameter < 0 ||
        variant.arguments[static_cast<std::size_t>(parameter)] != variant.outputs[leaf]) {
      stop(internal_error("a result is not in place"));
    }
  }
  for (const auto& instruction : entry.instructions()) {
    const device::Kernel* kernel = variant.program->kernel(*instruction);
    if (kernel == nullptr) continue;
    ++variant.launches;
    Variant::Launch launch{kernel, {}, {}, {}};
    launch.workspace.resize(static_cast<std::size_t>(kernel->workspace_bytes()));
    for (const ir::Instruction* operand : instruction->operands()) {
      launch.inputs.push_back(
          variant.arguments[static_cast<std::size_t>(operand->attributes().parameter_number)]);
    }
    launch.outputs.resize(static_cast<std::size_t>(ir::leaf_count(instruction->shape())));
    const auto& results = entry.root()->operands();
    for (std::size_t leaf = 0; leaf < results.size(); ++leaf) {
      if (results[leaf]->operand(0) != instruction.get()) continue;
      launch.outputs[static_cast<std::size_t>(results[leaf]->attributes().tuple_index)] =
          variant.outputs[leaf];
    }
    variant.launch_list.push_back(std::move(launch));
  }
  return variant;
}

void run_kernels(Variant& variant, device::Stream& stream) {
  for (Variant::Launch& launch : variant.launch_list) {
    const Status status =
        launch.kernel->launch(stream, {launch.inputs, launch.outputs, launch.workspace.data()});
    if (!status.ok()) stop(status);
  }
}

nlohmann::json report_of(const Variant& variant) {
  return {{"launches", variant.launches},
          {"functions_compiled", variant.functions},
          {"compile_us", variant.compile},
          {"plan_us", variant.plan},
          {"kernels_us", median(variant.kernel_times)},
          {"run_us", median(variant.run_times)}};
}

nlohmann::json measure(const Mix& mix, memory::Budget& budget, device::Stream& stream) {
  Variant together = prepare(mix, true, budget), apart = prepare(mix, false, budget);
  std::int64_t bytes = 0;
  for (const auto& buffer : together.buffers) bytes += static_cast<std::int64_t>(buffer.size() * 4);
  for (int i = 0; i < kRepeats + 2; ++i) {
    for (Variant* variant : {&together, &apart}) {
      const double kernels = microseconds([&] { run_kernels(*variant, stream); });
      const double run = microseconds([&] {
        const Status status =
            variant->executable->run(stream, budget, {variant->arguments, variant->outputs});
        if (!status.ok()) stop(status);
      });
      if (i < 2) continue;
      variant->kernel_times.push_back(kernels);
      variant->run_times.push_back(run);
    }
  }
  for (std::size_t i = 0; i < together.buffers.size(); ++i) {
    if (std::memcmp(together.buffers[i].data(), apart.buffers[i].data(),
                    together.buffers[i].size() * sizeof(float)) != 0) {
      stop(internal_error("results differ"));
    }
  }
  nlohmann::json report = {
      {"bytes", bytes}, {"horizontal", report_of(together)}, {"separate", report_of(apart)}};
  for (const char* what : {"kernels_us", "run_us", "compile_us"}) {
    report[std::string("speedup_") + what] =
        report["separate"][what].get<double>() / report["horizontal"][what].get<double>();
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
