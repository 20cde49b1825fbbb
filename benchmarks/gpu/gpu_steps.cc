// SPDX-License-Identifier: Apache-2.0
// Training steps of a GPT, a CNN and an LSTM on cuda:0, without a limit, at shares of the peak that
// they then have, and at the floor: time, the same bits, what the driver says is held, how much of
// the swapping is hidden, launches and runs of graphs. With --largest-batch instead: the largest
// batch of the GPT within so many bytes. Steps without a limit, and those within limits, are
// measured in processes of their own, so that these begin with the GPU's memory as the driver gives
// it. Plans go by measured speeds whatever PLIMSOLL_CALIBRATION says. A table goes to standard
// error, missed claims behind it; one JSON object to standard output. Without a GPU it says so and
// ends well.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/gpu/steps/measure.h"
#include "runtime/base/byte_size.h"
#include "runtime/device/devices.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::benchmarks;
using nlohmann::ordered_json;

struct Arguments {
  std::vector<std::string> names;
  double scale = 1;
  GpuStepsOptions steps;
  std::string one;        // measured in this process
  std::string unlimited;  // and, where it is within limits: what there is without one
  std::string largest_batch;
  double seconds = 45;
  bool sizes = false;
};

void print(const std::string& workload, const ordered_json& row) {
  const std::string limit = row.at("limit");
  if (!row.at("ran").get<bool>()) {
    std::fprintf(stderr, "%-5s %5s does not run: %s\n", workload.c_str(), limit.c_str(),
                 row.at("why").get<std::string>().c_str());
    return;
  }
  const ordered_json& hidden = row.at("hidden_share");
  std::fprintf(
      stderr,
      "%-5s %5s %9s %9.2f %9.2f %+8.1f%% %+8.1f%% %9s %9s  %-4s %6s  %lld %lld %lld  %lld %lld  "
      "%.1f %.1f %.1f\n",
      workload.c_str(), limit.c_str(),
      row.at("limit_bytes").is_null() ? "-" : format_bytes(row.at("limit_bytes")).c_str(),
      1e3 * row.at("step_seconds").get<double>(), 1e3 * row.at("wall_seconds").get<double>(),
      row.at("predicted_percent").get<double>(), row.value("measured_percent", 0.0),
      format_bytes(row.at("peak_bytes")).c_str(), format_bytes(row.at("driver_bytes")).c_str(),
      row.value("same_bits", true) ? "same" : "NOT",
      hidden.is_null() ? "-" : (std::to_string(hidden.get<double>()).substr(0, 5)).c_str(),
      row.at("recomputes").get<long long>(), row.at("encodes").get<long long>(),
      row.at("swaps").get<long long>(), row.at("launches").get<long long>(),
      row.at("graph_runs").get<long long>(), row.at("first_step_seconds").get<double>(),
      row.at("planning_seconds").get<double>(), row.at("row_seconds").get<double>());
}

void print_kernels(const ordered_json& row) {
  for (const ordered_json& kernel : row.value("kernels", ordered_json::array())) {
    std::fprintf(stderr, "      %9.3f ms %5lld times %8.0f GB/s  %s\n",
                 1e3 * kernel.at("seconds").get<double>(), kernel.at("launches").get<long long>(),
                 1e-9 * kernel.at("bytes_per_second").get<double>(),
                 kernel.at("name").get<std::string>().c_str());
  }
}

// What this program says of one network, in a process of its own; null where that fails.
ordered_json measure_apart(const std::string& name, const Arguments& arguments, double seconds,
                           const ordered_json& unlimited) {
  std::string command =
      "'" + std::filesystem::read_symlink("/proc/self/exe").string() + "' --one " + name +
      " --scale " + std::to_string(arguments.scale) + " --seconds " + std::to_string(seconds) +
      " --warm-up " + std::to_string(arguments.steps.warm_up) + " --rounds " +
      std::to_string(arguments.steps.rounds) + " --top " + std::to_string(arguments.steps.top) +
      " --host " + std::to_string(arguments.steps.host_bytes) + " --percents";
  for (const double percent : arguments.steps.percents) command += " " + std::to_string(percent);
  if (!unlimited.is_null()) {
    const ordered_json needs = {{"unlimited_peak_bytes", unlimited.at("unlimited_peak_bytes")},
                                {"floor_bytes", unlimited.at("floor_bytes")}};
    command += " --within '" + needs.dump() + "'";
  }
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return nullptr;
  std::string text;
  char piece[4096];
  for (std::size_t n = 0; (n = std::fread(piece, 1, sizeof piece, pipe)) > 0;) {
    text.append(piece, n);
  }
  const int status = pclose(pipe);
  ordered_json report = ordered_json::parse(text, nullptr, false);
  if (status != 0 || report.is_discarded()) return nullptr;
  return report;
}

int measure_here(const Arguments& arguments) {
  const auto workloads = choose_workloads(gpu_workloads(arguments.scale),
                                          std::vector<std::string>{arguments.one}, "gpu_steps");
  if (!workloads) return 2;
  GpuStepsOptions options = arguments.steps;
  options.seconds = arguments.seconds;
  const ordered_json report =
      arguments.unlimited.empty()
          ? measure_unlimited(workloads->front(), options)
          : ordered_json(measure_limited(workloads->front(), options,
                                         ordered_json::parse(arguments.unlimited)));
  std::cout << report.dump() << "\n";
  return 0;
}

ordered_json sizes_json(const GptSizes& sizes) {
  return {{"vocabulary", sizes.vocabulary}, {"context", sizes.context}, {"width", sizes.width},
          {"heads", sizes.heads},           {"layers", sizes.layers},   {"batch", sizes.batch}};
}

int measure_batches(const Arguments& arguments, std::int64_t limit) {
  ordered_json out = {{"gpt", sizes_json({})}, {"rows", ordered_json::array()}};
  for (const std::int64_t host : {std::int64_t{0}, arguments.steps.host_bytes}) {
    const ordered_json row = measure_largest_batch({}, limit, host, arguments.seconds / 2);
    std::fprintf(stderr, "largest batch within %s: %lld, %.1f samples a second  (%s)\n",
                 format_bytes(limit).c_str(), row.at("batch").get<long long>(),
                 row.value("samples_per_second", 0.0),
                 row.at("remedies").get<std::string>().c_str());
    out["rows"].push_back(row);
  }
  std::cout << out.dump(1) << "\n";
  return 0;
}

int measure_all(const Arguments& arguments) {
  const auto workloads =
      choose_workloads(gpu_workloads(arguments.scale), arguments.names, "gpu_steps");
  if (!workloads) return 2;
  const auto start = std::chrono::steady_clock::now();
  std::fprintf(stderr, "%-5s %5s %9s %9s %9s %9s %9s %9s %9s  %-4s %6s  %s\n", "step", "limit",
               "bytes", "ms", "with host", "predicted", "measured", "peak", "driver", "bits",
               "hidden",
               "recomputed encoded swapped, launches, graphs, seconds to the first step, of "
               "planning, in all");
  GptSizes sizes;
  sizes.batch = std::max<std::int64_t>(1, std::llround(arguments.scale * 16));
  ordered_json out = {{"gpt", sizes_json(sizes)}, {"rows", ordered_json::array()}};
  std::vector<std::string> missed;
  for (std::size_t i = 0; i < workloads->size(); ++i) {
    const std::string& name = (*workloads)[i].name;
    // What is left, shared out evenly.
    const auto left = [&] {
      const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - start;
      return std::max(arguments.seconds - gone.count(), 1.0) /
             static_cast<double>(workloads->size() - i);
    };
    const ordered_json unlimited = measure_apart(name, arguments, left(), nullptr);
    if (unlimited.is_null()) {
      missed.push_back(name + ": its process failed");
      continue;
    }
    print(name, unlimited);
    print_kernels(unlimited);
    std::vector<ordered_json> rows;
    if (!arguments.steps.percents.empty()) {
      const ordered_json limited = measure_apart(name, arguments, left(), unlimited);
      if (limited.is_null()) {
        missed.push_back(name + " within limits: its process failed");
      } else {
        rows.assign(limited.begin(), limited.end());
      }
    }
    const auto more = judge(name, unlimited, rows);
    missed.insert(missed.end(), more.begin(), more.end());
    for (const ordered_json& row : rows) print(name, row);
    rows.insert(rows.begin(), unlimited);
    out["rows"].push_back({{"workload", name}, {"rows", rows}});
  }
  for (const std::string& line : missed) std::fprintf(stderr, "missed: %s\n", line.c_str());
  out["missed"] = missed;
  std::cout << out.dump(1) << "\n";
  return missed.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  std::string host = "16GiB";
  CommandLine line("Training steps on cuda:0 under memory limits.", "gpu_steps");
  line.add("workloads", arguments.names, "gpt, cnn, lstm; none given: all");
  line.add("--scale", arguments.scale, "Multiplies the batches", {.positive = true});
  line.add("--percents", arguments.steps.percents, "Limits, as shares of the unlimited peak");
  line.add("--warm-up", arguments.steps.warm_up, "Steps before those that count",
           {.least = 2, .most = 1000});
  line.add("--rounds", arguments.steps.rounds, "Steps that count", {.least = 1, .most = 1000});
  line.add("--seconds", arguments.seconds, "About so long, all together", {.positive = true});
  line.add("--host", host, "Host memory that values may be swapped to");
  line.add("--top", arguments.steps.top, "Kernels listed", {.least = 0, .most = 1000});
  line.add("--largest-batch", arguments.largest_batch,
           "Only find the GPT's largest batch within so many bytes");
  line.add_flag("--sizes", arguments.sizes, "Only print the GPT's sizes");
  line.add_hidden("--one", arguments.one);
  line.add_hidden("--within", arguments.unlimited);
  if (const auto status = line.read(argc, argv)) return *status;
  std::int64_t limit = 0;
  const auto host_bytes = parse_byte_size(host, "--host");
  if (!host_bytes.ok()) {
    std::cerr << "gpu_steps: " << host_bytes.status().message() << "\n";
    return 2;
  }
  arguments.steps.host_bytes = *host_bytes;
  if (!arguments.largest_batch.empty()) {
    const auto bytes = parse_byte_size(arguments.largest_batch, "--largest-batch");
    if (!bytes.ok()) {
      std::cerr << "gpu_steps: " << bytes.status().message() << "\n";
      return 2;
    }
    limit = *bytes;
  }
  ::setenv("PLIMSOLL_DEVICE", "cuda:0", 0);
  ::setenv("PLIMSOLL_CALIBRATION", "auto", 1);
  const Status device = device::check_device();
  if (!device.ok()) {
    std::cerr << "gpu_steps: nothing measured, no GPU: " << device.message() << "\n";
    std::cout << ordered_json{{"device", nullptr}, {"why", device.message()}}.dump(1) << "\n";
    return 0;
  }
  if (arguments.sizes) {
    std::cout << ordered_json{{"gpt", sizes_json({})}}.dump() << "\n";
    return 0;
  }
  try {
    if (!arguments.one.empty()) return measure_here(arguments);
    return limit > 0 ? measure_batches(arguments, limit) : measure_all(arguments);
  } catch (const Error& error) {
    std::cerr << "gpu_steps: " << error.what() << "\n";
    return 1;
  }
}
