// SPDX-License-Identifier: Apache-2.0
// Training steps whose small kernels share launches, as they do by default, against the same kernel
// by kernel, in turns in one run: launches, milliseconds a step (medians), and the median of the
// ratios of neighbouring steps (below 1: joint launches are faster). One JSON object on standard
// output.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/training_steps/workload.h"

namespace {

using nlohmann::ordered_json;
using plimsoll::Context;
using plimsoll::Tensor;
using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A network in training in a context of its own, and what its steps took.
class Contestant {
 public:
  // `launches`: what PLIMSOLL_LAUNCHES says to the context.
  Contestant(const plimsoll::benchmarks::Workload& workload, const char* launches)
      : context_(context_with(launches)) {
    const plimsoll::ContextScope scope(context_);
    training_ = workload.start();
  }

  double step() {
    const plimsoll::ContextScope scope(context_);
    const Clock::time_point start = Clock::now();
    Tensor loss = training_.loss(*training_.network, steps_++);
    loss.backward();
    training_.optimizer->step();
    context_.wait();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  ordered_json report() { return ordered_json::parse(context_.report()); }

 private:
  static Context context_with(const char* launches) {
    ::setenv("PLIMSOLL_LAUNCHES", launches, 1);
    return Context();
  }

  Context context_;
  plimsoll::benchmarks::Training training_;
  std::int64_t steps_ = 0;
};

ordered_json measure(const plimsoll::benchmarks::Workload& workload, int warm_up, int steps) {
  Contestant joint(workload, "joint"), apart(workload, "apart");
  std::vector<double> joint_seconds, apart_seconds, ratios;
  for (int i = 0; i < warm_up + steps; ++i) {
    // Each goes first every other time.
    const double first = (i % 2 == 0 ? joint : apart).step();
    const double second = (i % 2 == 0 ? apart : joint).step();
    if (i < warm_up) continue;
    joint_seconds.push_back(i % 2 == 0 ? first : second);
    apart_seconds.push_back(i % 2 == 0 ? second : first);
    ratios.push_back(joint_seconds.back() / apart_seconds.back());
  }
  const ordered_json report = joint.report();
  return {{"workload", workload.name},
          {"kernels", report.at("launched_kernels")},
          {"launches", report.at("launches")},
          {"peak_bytes", report.at("peak_bytes")},
          {"peak_bytes_apart", apart.report().at("peak_bytes")},
          {"joint_milliseconds", 1e3 * median(joint_seconds)},
          {"apart_milliseconds", 1e3 * median(apart_seconds)},
          {"ratio", median(ratios)}};
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names;
  int warm_up = 3, steps = 20;
  double scale = 1;
  plimsoll::benchmarks::CommandLine line(
      "Training steps in joint launches against kernel by kernel.", "training_launches");
  line.add("workloads", names, "cnn, gpt, lstm, unet, gpt_scanned; none given: all");
  line.add("--scale", scale, "Multiplies the batches", {.positive = true});
  line.add("--warm-up", warm_up, "Pairs of steps before those that count",
           {.least = 1, .most = 1000});
  line.add("--steps", steps, "Pairs of steps that count", {.least = 1, .most = 100000});
  if (const auto status = line.read(argc, argv)) return *status;
  const auto workloads = plimsoll::benchmarks::choose_workloads(
      plimsoll::benchmarks::training_workloads(scale), names, "training_launches");
  if (!workloads) return 2;
  ordered_json rows = ordered_json::array();
  try {
    for (const auto& workload : *workloads) rows.push_back(measure(workload, warm_up, steps));
  } catch (const plimsoll::Error& error) {
    std::cerr << "training_launches: " << error.what() << '\n';
    return 1;
  }
  std::cout << ordered_json{{"training_launches", rows}}.dump(2) << '\n';
  return 0;
}
