// SPDX-License-Identifier: Apache-2.0
// Milliseconds of a training step through the public library, without a limit: the CNN and the GPT
// of the examples at fixed sizes, which docs/benchmarks.md states in full, so that the same steps
// can be written for another library and put beside these. A step is recording, gradient, update
// and the wait for them. One JSON object on standard output.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/training_steps/workload.h"

namespace {

using nlohmann::ordered_json;
using plimsoll::Context;
using plimsoll::Tensor;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

ordered_json measure(const plimsoll::benchmarks::Workload& workload, int warm_up, int steps) {
  Context context;
  const plimsoll::ContextScope scope(context);
  const Clock::time_point start = Clock::now();
  auto training = workload.start();
  std::vector<double> seconds;
  double first = 0, loss_value = 0;
  for (std::int64_t step = 0; step < warm_up + steps; ++step) {
    const Clock::time_point begin = Clock::now();
    Tensor loss = training.loss(*training.network, step);
    loss.backward();
    training.optimizer->step();
    context.wait();
    if (step >= warm_up) seconds.push_back(seconds_since(begin));
    if (step == 0) first = seconds_since(start);
    if (step + 1 == warm_up + steps) loss_value = loss.item<float>();
  }
  std::sort(seconds.begin(), seconds.end());
  std::int64_t parameters = 0;
  for (const Tensor& parameter : training.network->parameters()) parameters += parameter.size();
  return {{"workload", workload.name},
          {"parameters", parameters},
          {"steps", steps},
          {"first_step_milliseconds", 1e3 * first},
          {"median_milliseconds", 1e3 * seconds[seconds.size() / 2]},
          {"fastest_milliseconds", 1e3 * seconds.front()},
          {"peak_bytes", context.memory().peak_bytes},
          {"last_loss", loss_value}};
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names;
  int warm_up = 5, steps = 20;
  bool json = false;
  plimsoll::benchmarks::CommandLine line("Milliseconds of training steps.", "training_step_time");
  line.add("workloads", names, "cnn, gpt; none given: both");
  line.add("--warm-up", warm_up, "Steps before those that count", {.least = 1, .most = 1000});
  line.add("--steps", steps, "Steps that count", {.least = 1, .most = 100000});
  line.add_flag("--json", json, "JSON on standard output instead of a table");
  if (const auto status = line.read(argc, argv)) return *status;
  const auto workloads = plimsoll::benchmarks::choose_workloads(
      plimsoll::benchmarks::example_workloads(), names, "training_step_time");
  if (!workloads) return 2;
  ordered_json rows = ordered_json::array();
  try {
    for (const auto& workload : *workloads) rows.push_back(measure(workload, warm_up, steps));
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "training_step_time: %s\n", error.what());
    return 1;
  }
  if (json) {
    std::cout << ordered_json{{"training_steps", rows}}.dump(2) << "\n";
    return 0;
  }
  for (const ordered_json& row : rows) {
    std::printf("%-4s %9.2f ms a step (fastest %.2f, first %.0f), loss %.4f\n",
                row.at("workload").get<std::string>().c_str(),
                row.at("median_milliseconds").get<double>(),
                row.at("fastest_milliseconds").get<double>(),
                row.at("first_step_milliseconds").get<double>(), row.at("last_loss").get<double>());
  }
  return 0;
}
