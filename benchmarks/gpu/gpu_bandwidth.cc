// SPDX-License-Identifier: Apache-2.0
// Bytes per second of fused kernels on cuda:0 over those of a copy on the device (the driver's) of
// arrays of the same size, each kernel in turns with the copy in one run, timed by the device's
// events; every launch finds its arrays outside the cache. A table goes to standard error, what
// loses first; one JSON object to standard output. Without a GPU it says so and ends well.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/gpu/bandwidth/measure.h"
#include "benchmarks/kernel_bandwidth/cases.h"
#include "runtime/backend/backends.h"
#include "runtime/base/byte_size.h"
#include "runtime/device/devices.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::benchmarks;
using Json = nlohmann::ordered_json;

void print(const BandwidthReport& report) {
  std::fprintf(stderr, "%-5s %9s %9s %9s %7s %6s  %s\n", "ratio", "GB/s", "copy GB/s", "us",
               "array", "dtype", "kernel");
  for (const BandwidthRow& row : report.rows) {
    const std::string name = (row.loses() ? "! " : "  ") + row.name;
    if (!row.error.empty()) {
      std::fprintf(stderr, "%5s %9s %9s %9s %7s %6s  %s: %s\n", "-", "-", "-", "-",
                   format_bytes(row.array_bytes).c_str(), row.dtype.c_str(), name.c_str(),
                   row.error.c_str());
      continue;
    }
    std::fprintf(stderr, "%5.2f %9.0f %9.0f %9.1f %7s %6s  %s\n", row.ratio,
                 1e-9 * row.bytes_per_second(), 1e-9 * row.copy_bytes_per_second(),
                 1e6 * row.seconds, format_bytes(row.array_bytes).c_str(), row.dtype.c_str(),
                 name.c_str());
  }
  std::fprintf(stderr, "launch of 256 elements: %.2f us by the stream, %.2f us in a graph\n",
               1e6 * report.launch_seconds, 1e6 * report.graph_launch_seconds);
  for (const std::string& row : report.left_out) {
    std::fprintf(stderr, "no time left for: %s\n", row.c_str());
  }
}

Json to_json(const BandwidthReport& report, const device::Device& device) {
  Json out = {{"device", device.name()},
              {"model", device.properties().model},
              {"counted", "every operand and result once; a copy's array twice"},
              {"launch_seconds", report.launch_seconds},
              {"graph_launch_seconds", report.graph_launch_seconds},
              {"rows", Json::array()},
              {"left_out", report.left_out}};
  for (const BandwidthRow& row : report.rows) {
    Json json = {{"name", row.name}, {"dtype", row.dtype}, {"array_bytes", row.array_bytes}};
    if (row.error.empty()) {
      json.update({{"ratio", row.ratio},
                   {"aim", row.aim},
                   {"bytes", row.bytes},
                   {"seconds", row.seconds},
                   {"bytes_per_second", row.bytes_per_second()},
                   {"copy_bytes_per_second", row.copy_bytes_per_second()}});
    } else {
      json["error"] = row.error;
    }
    out["rows"].push_back(std::move(json));
  }
  return out;
}

int fail(const Status& status) {
  std::cerr << "gpu_bandwidth: " << status.to_string() << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  BandwidthOptions options;
  std::vector<std::int64_t> megabytes = {256, 4};
  bool all = false;
  CommandLine line("The bandwidth of kernels on cuda:0 beside a copy.", "gpu_bandwidth");
  line.add("cases", options.cases, "Cases of kernel_bandwidth; none given: a selection");
  line.add_flag("--all", all, "All of those cases");
  line.add("--dtype", options.dtypes, "Only these", {.one_of = {"f32", "bf16", "f16"}});
  line.add("--megabytes", megabytes, "Of an array", {.least = 1, .most = 4096});
  line.add("--rounds", options.rounds, "Turns of a row", {.least = 1, .most = 1000});
  line.add("--seconds", options.seconds, "No new row after so many", {.positive = true});
  if (const auto status = line.read(argc, argv)) return *status;
  options.array_bytes.clear();
  for (const std::int64_t size : megabytes) options.array_bytes.push_back(size << 20);
  if (all) {
    options.cases.clear();
    for (const BandwidthCase& c : bandwidth_cases()) options.cases.emplace_back(c.name);
  }

  const auto device = device::find_device("cuda:0");
  if (!device.ok()) {
    std::cerr << "gpu_bandwidth: nothing measured, no GPU: " << device.status().message() << "\n";
    std::cout << Json{{"device", nullptr}, {"why", device.status().message()}}.dump(1) << "\n";
    return 0;
  }
  const auto provider = backend::create_kernels(*device);
  if (!provider.ok()) return fail(provider.status());
  const auto report = measure_bandwidth(**provider, options);
  if (!report.ok()) return fail(report.status());
  print(*report);
  std::cout << to_json(*report, **device).dump(1) << "\n";
  return 0;
}
