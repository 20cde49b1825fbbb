// SPDX-License-Identifier: Apache-2.0
// A chain of six elementwise operations over 16M floats: fused by the JIT, unfused, and against the
// STREAM triad of this machine, all in one run. Prints one JSON object.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "jit/jit.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/device.h"
#include "runtime/ir/module.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kCount = 1 << 24;
constexpr int kRepeats = 9;

double best_seconds(const std::function<void()>& body) {
  body();
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count());
  }
  return best;
}

struct Step {
  ir::Opcode opcode;
  int other;  // operand 1: which of the two inputs
};

constexpr Step kSteps[] = {{ir::Opcode::multiply, 1}, {ir::Opcode::add, 0},
                           {ir::Opcode::subtract, 1}, {ir::Opcode::maximum, 0},
                           {ir::Opcode::multiply, 1}, {ir::Opcode::add, 1}};

ir::Instruction* add_steps(ir::Computation& computation, ir::Instruction* x, ir::Instruction* y,
                           std::vector<ir::Instruction*>* each) {
  ir::Instruction* inputs[] = {x, y};
  ir::Instruction* value = x;
  for (const Step& step : kSteps) {
    value = computation.add(step.opcode, x->shape(), {value, inputs[step.other]});
    if (each != nullptr) each->push_back(value);
  }
  return value;
}

int run() {
  const ir::Shape shape(ir::DType::f32, {kCount});
  ir::Module module("chain");
  ir::Computation* body = module.add_computation("body");
  ir::Instruction* bx = body->add_parameter(0, shape);
  ir::Instruction* by = body->add_parameter(1, shape);
  add_steps(*body, bx, by, nullptr);
  ir::Computation* entry = module.add_computation("entry");
  ir::Instruction* x = entry->add_parameter(0, shape);
  ir::Instruction* y = entry->add_parameter(1, shape);
  std::vector<ir::Instruction*> steps;
  add_steps(*entry, x, y, &steps);
  ir::Instruction* fusion = entry->add(ir::Opcode::fusion, shape, {x, y});
  fusion->set_called_computations({body});

  auto compiler = jit::Compiler::create();
  if (!compiler.ok()) return std::fprintf(stderr, "%s\n", compiler.status().to_string().c_str()), 1;
  auto fused = (*compiler)->compile(*fusion);
  if (!fused.ok()) return std::fprintf(stderr, "%s\n", fused.status().to_string().c_str()), 1;
  std::vector<std::shared_ptr<const device::Kernel>> unfused;
  for (const ir::Instruction* step : steps) {
    auto kernel = (*compiler)->compile(*step);
    if (!kernel.ok()) return std::fprintf(stderr, "%s\n", kernel.status().to_string().c_str()), 1;
    unfused.push_back(*kernel);
  }

  const auto device = device::cpu_device();
  const auto stream = std::move(device->create_stream()).value();
  const std::int64_t bytes = shape.byte_size();
  std::vector<float*> buffers;
  for (int i = 0; i < 4; ++i) {
    auto buffer = device->allocate(bytes);
    if (!buffer.ok()) return std::fprintf(stderr, "%s\n", buffer.status().to_string().c_str()), 1;
    buffers.push_back(static_cast<float*>(*buffer));
  }
  float* a = buffers[0];
  float* b = buffers[1];
  float* c = buffers[2];
  device::parallel_for(kCount, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      a[i] = static_cast<float>(i % 1000) * 0.001f;
      b[i] = static_cast<float>(i % 777) * 0.002f;
      c[i] = 0;
    }
  });

  bool failed = false;
  const auto launch = [&](const device::Kernel& kernel, std::vector<const void*> inputs,
                          void* output) {
    const device::KernelArguments arguments{inputs, {&output, 1}, nullptr};
    if (!kernel.launch(*stream, arguments).ok()) failed = true;
  };
  const double triad = best_seconds([&] {
    device::parallel_for(kCount, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) c[i] = a[i] + 3.0f * b[i];
    });
  });
  const double fused_seconds = best_seconds([&] { launch(**fused, {a, b}, c); });
  const double unfused_seconds = best_seconds([&] {
    const float* value = a;
    for (std::size_t i = 0; i < unfused.size(); ++i) {
      float* target = buffers[2 + i % 2];
      launch(*unfused[i], {value, kSteps[i].other == 0 ? a : b}, target);
      value = target;
    }
  });
  if (failed) return std::fprintf(stderr, "a launch failed\n"), 1;
  // Two arrays in, one out, for the triad as for the fused chain.
  const double moved = 3.0 * static_cast<double>(bytes);
  std::printf(
      "{\"elements\": %lld, \"threads\": %d, \"triad_gb_per_s\": %.2f, \"fused_gb_per_s\": %.2f, "
      "\"fused_over_triad\": %.3f, \"unfused_over_fused_time\": %.3f}\n",
      static_cast<long long>(kCount), device::thread_count(), moved / triad * 1e-9,
      moved / fused_seconds * 1e-9, triad / fused_seconds, unfused_seconds / fused_seconds);
  for (float* buffer : buffers) device->deallocate(buffer, bytes);
  return 0;
}

}  // namespace
}  // namespace plimsoll

int main() { return plimsoll::run(); }
