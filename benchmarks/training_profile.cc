// SPDX-License-Identifier: Apache-2.0
// Where training steps' time goes, without a limit or under one: per network the seconds of a step,
// of its kernels by origin (oneDNN's, generated, our own) and by kernel, most first, and what a
// step takes besides kernels on one thread. One JSON object on standard output.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/training_steps/settle.h"
#include "benchmarks/training_steps/workload.h"

namespace {

using nlohmann::ordered_json;
using plimsoll::Context;
using plimsoll::Tensor;

struct Options {
  int warm_up = 3;
  int steps = 10;
  int top = 20;
  std::string limit;  // a share of the unlimited peak, or `floor`; none: no limit
};

void train(plimsoll::benchmarks::Training& training, std::int64_t step) {
  Tensor loss = training.loss(*training.network, step);
  loss.backward();
  training.optimizer->step();
}

double kernel_seconds(const ordered_json& kernel) { return kernel.at("seconds").get<double>(); }

// Runs step 0 on the way. Throws std::invalid_argument for other texts than `floor` and `35%`.
void set_limit(Context& context, plimsoll::benchmarks::Training& training,
               const std::string& text) {
  double percent = 0;
  char sign = 0, more = 0;
  const bool is_floor = text == "floor";
  const bool is_share = std::sscanf(text.c_str(), "%lf%c%c", &percent, &sign, &more) == 2 &&
                        sign == '%' && percent > 0 && percent <= 100;
  if (!is_floor && !is_share) {
    throw std::invalid_argument("--limit " + text + ": neither floor nor a share such as 35%");
  }
  Tensor loss = training.loss(*training.network, 0);
  loss.backward();
  training.optimizer->record_step();
  const plimsoll::MemoryNeeds needs = context.measure_step();
  context.step();
  context.wait();
  context.set_limit(is_floor
                        ? needs.floor_bytes
                        : static_cast<std::int64_t>(
                              percent / 100 * static_cast<double>(needs.unlimited_peak_bytes)));
}

ordered_json profile(const plimsoll::benchmarks::Workload& workload, const Options& options) {
  Context context;
  const plimsoll::ContextScope scope(context);
  auto training = workload.start();
  std::vector<double> seconds;
  std::int64_t step = 0;
  if (!options.limit.empty()) {
    set_limit(context, training, options.limit);
    ++step;
  }
  for (; step < options.warm_up; ++step) train(training, step);
  // Under a limit, until it is decided which plan stays.
  constexpr int kMostTries = 1000;
  for (int i = 0; i < kMostTries; ++i, ++step) {
    const ordered_json report = plimsoll::benchmarks::wait_for_plans(context);
    if (i > 0 && !report.value("is_trying", false)) break;
    train(training, step);
  }
  // Unprofiled first: what profiling costs is not the step's.
  for (int i = 0; i < options.steps; ++i, ++step) {
    train(training, step);
    context.wait();
    seconds.push_back(ordered_json::parse(context.report()).at("step_seconds"));
  }
  context.enable_profile(true);
  for (int i = 0; i < options.steps; ++i, ++step) train(training, step);
  context.wait();
  const ordered_json report = ordered_json::parse(context.report());

  ordered_json kernels = report.at("kernels");
  std::sort(kernels.begin(), kernels.end(), [](const ordered_json& a, const ordered_json& b) {
    return kernel_seconds(a) > kernel_seconds(b);
  });
  // Uploads and the first profiled steps count launches; the profile holds all of them.
  std::map<std::string, double> by_origin;
  std::map<std::string, std::int64_t> launches;
  double total = 0;
  for (const ordered_json& kernel : kernels) {
    by_origin[kernel.at("origin")] += kernel_seconds(kernel);
    launches[kernel.at("origin")] += kernel.at("launches").get<std::int64_t>();
    total += kernel_seconds(kernel);
  }
  std::sort(seconds.begin(), seconds.end());
  ordered_json out;
  out["workload"] = workload.name;
  for (const char* const name :
       {"limit_bytes", "expected_seconds", "expected_unlimited_seconds", "steps", "host_bytes"}) {
    out[name] = report.at(name);
  }
  out["profiled_steps"] = options.steps;
  out["step_seconds"] = seconds[seconds.size() / 2];
  out["kernel_seconds_per_step"] = total / options.steps;
  for (const auto& [origin, spent] : by_origin) {
    out["origins"][origin] = {{"share", spent / total},
                              {"seconds_per_step", spent / options.steps},
                              {"launches_per_step", launches[origin] / options.steps}};
  }
  out["share_not_library"] = 1 - by_origin["library"] / total;
  for (const ordered_json& kernel : kernels) {
    if (static_cast<int>(out["kernels"].size()) == options.top) break;
    out["kernels"].push_back(
        {{"name", kernel.at("name")},
         {"origin", kernel.at("origin")},
         {"share", kernel_seconds(kernel) / total},
         {"recomputes_per_step", kernel.at("recomputes").get<std::int64_t>() / options.steps},
         {"seconds_per_step", kernel_seconds(kernel) / options.steps},
         {"launches_per_step", kernel.at("launches").get<std::int64_t>() / options.steps}});
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> names;
  double scale = 1;
  plimsoll::benchmarks::CommandLine line("Where training steps' time goes.", "training_profile");
  line.add("workloads", names, "cnn, gpt, lstm, unet, gpt_scanned; none given: cnn and gpt");
  line.add("--scale", scale, "Multiplies the batches", {.positive = true});
  line.add("--warm-up", options.warm_up, "Steps before those that count",
           {.least = 1, .most = 1000});
  line.add("--steps", options.steps, "Steps that are timed, and as many that are profiled",
           {.least = 1, .most = 1000});
  line.add("--top", options.top, "Kernels listed", {.least = 1, .most = 1000});
  line.add("--limit", options.limit, "A share of the peak without one, as 35%, or floor");
  if (const auto status = line.read(argc, argv)) return *status;
  if (names.empty()) names = {"cnn", "gpt"};
  ordered_json out = ordered_json::array();
  try {
    const auto workloads = plimsoll::benchmarks::training_workloads(scale);
    for (const std::string& name : names) {
      const auto found = std::find_if(workloads.begin(), workloads.end(),
                                      [&](const auto& workload) { return workload.name == name; });
      if (found == workloads.end()) {
        std::fprintf(stderr,
                     "training_profile: '%s' is no workload (cnn, gpt, lstm, unet, gpt_scanned)\n",
                     name.c_str());
        return 2;
      }
      out.push_back(profile(*found, options));
    }
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "training_profile: %s\n", error.what());
    return 2;
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "training_profile: %s\n", error.what());
    return 1;
  }
  std::cout << ordered_json{{"profiles", out}}.dump(2) << "\n";
  return 0;
}
