// SPDX-License-Identifier: Apache-2.0
// What one element of each transcendental function costs in a kernel of ours on one thread, with
// data in the first-level cache, beside the C library in the same run: its vector functions
// (libmvec) where it has them. Prints one JSON object: nanoseconds an element, ours over the
// library's (below 1: ours is faster). Medians of interleaved rounds.
#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/math_functions/vector_libm.h"
#include "jit/jit.h"
#include "runtime/base/float16.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/text/text.h"

namespace {

using namespace plimsoll;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kElements = 2048;
constexpr int kRounds = 15, kLaunches = 40;

struct Function {
  const char* name;
  const char* opcode;
  double low, high;
  int arguments = 1;
};

const Function kFunctions[] = {
    {"exp", "exponential", -20, 20},
    {"exp of far below 0", "exponential", -2000, -1000},
    {"expm1", "exponential-minus-one", -5, 5},
    {"log", "log", 0.01, 100},
    {"log1p", "log-plus-one", -0.9, 10},
    {"tanh", "tanh", -5, 5},
    {"logistic", "logistic", -10, 10},
    {"logistic of far below 0", "logistic", -2000, -1000},
    {"sin", "sine", -100, 100},
    {"cos", "cosine", -100, 100},
    {"tan", "tan", -100, 100},
    {"erf", "erf", -4, 4},
    {"cbrt", "cbrt", -100, 100},
    {"rsqrt", "rsqrt", 0.01, 100},
    {"pow", "power", 0.01, 20, 2},
    {"atan2", "atan2", 0.01, 20, 2},
};

// A stretch of `buffer` that begins on a cache line, as buffers of a device do.
std::byte* aligned(std::vector<std::byte>& buffer) {
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  return buffer.data() + (64 - address % 64) % 64;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double nanoseconds(const std::function<void()>& body) {
  const auto start = Clock::now();
  for (int i = 0; i < kLaunches; ++i) body();
  const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
  return elapsed.count() / static_cast<double>(kLaunches * kElements);
}

template <typename T>
std::vector<std::byte> numbers(double low, double high) {
  std::vector<std::byte> buffer(kElements * sizeof(T) + 64);
  T* data = reinterpret_cast<T*>(aligned(buffer));
  std::uint64_t state = 1;
  for (std::int64_t i = 0; i < kElements; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double unit = static_cast<double>(state >> 11) * 0x1p-53;
    data[i] = static_cast<T>(static_cast<float>(low + (high - low) * unit));
  }
  return buffer;
}

// Ours and, where `peer` is set, the library's.
template <typename T>
Result<nlohmann::json> measure(const Function& f, const char* dtype, jit::Compiler& compiler,
                               benchmarks::Peer<T> peer) {
  const std::string shape = std::string(dtype) + "[" + std::to_string(kElements) + "]";
  std::string text = "HloModule m\nENTRY e {\n  x = " + shape + " parameter(0)\n";
  if (f.arguments == 2) text += "  y = " + shape + " parameter(1)\n";
  text += "  ROOT r = " + shape + " " + f.opcode + (f.arguments == 2 ? "(x, y)\n}\n" : "(x)\n}\n");
  PLIMSOLL_ASSIGN_OR_RETURN(const auto module, ir::parse_module(text));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto kernel, compiler.compile(*module->entry()->root()));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto stream, device::cpu_device()->create_stream());
  auto x = numbers<T>(f.low, f.high);
  auto y = numbers<T>(-4, 4);
  auto result = numbers<T>(0, 1);
  const std::vector<const void*> inputs = {aligned(x), aligned(y)};
  void* const outputs[] = {aligned(result)};
  const std::span<const void* const> arguments(inputs.data(),
                                               static_cast<std::size_t>(f.arguments));
  Status status;
  const auto ours = [&] {
    const Status done = kernel->launch(*stream, {arguments, outputs, nullptr});
    if (!done.ok()) status = done;
  };
  const auto theirs = [&] {
    peer.function(static_cast<const T*>(inputs[0]), static_cast<const T*>(inputs[1]),
                  static_cast<T*>(outputs[0]), kElements);
  };
  nanoseconds(ours);
  std::vector<double> our_times, their_times, ratios;
  for (int i = 0; i < kRounds; ++i) {
    our_times.push_back(nanoseconds(ours));
    if (peer.function == nullptr) continue;
    their_times.push_back(nanoseconds(theirs));
    ratios.push_back(our_times.back() / their_times.back());
  }
  PLIMSOLL_RETURN_IF_ERROR(status);
  nlohmann::json row = {{"nanoseconds", median(our_times)}};
  if (peer.function != nullptr) {
    row["peer"] = peer.library;
    row["peer_nanoseconds"] = median(their_times);
    row["ours_over_peer"] = median(ratios);
  }
  return row;
}

Result<nlohmann::json> run() {
  device::set_thread_count(1);
  PLIMSOLL_ASSIGN_OR_RETURN(const auto compiler, jit::Compiler::create());
  nlohmann::json report = {{"benchmark", "math_functions"}, {"elements", kElements}};
  for (const Function& f : kFunctions) {
    PLIMSOLL_ASSIGN_OR_RETURN(report["functions"][f.name]["f32"],
                              measure<float>(f, "f32", *compiler, benchmarks::peer32(f.name)));
    PLIMSOLL_ASSIGN_OR_RETURN(report["functions"][f.name]["f64"],
                              measure<double>(f, "f64", *compiler, benchmarks::peer64(f.name)));
    PLIMSOLL_ASSIGN_OR_RETURN(report["functions"][f.name]["bf16"],
                              measure<Bfloat16>(f, "bf16", *compiler, {}));
    PLIMSOLL_ASSIGN_OR_RETURN(report["functions"][f.name]["f16"],
                              measure<Float16>(f, "f16", *compiler, {}));
  }
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = plimsoll::benchmarks::read_no_arguments("math_functions", argc, argv))
    return *status;
  const auto report = run();
  if (!report.ok()) {
    std::cerr << "math_functions: " << report.status().to_string() << '\n';
    return 1;
  }
  std::cout << report->dump(2) << '\n';
  return 0;
}
