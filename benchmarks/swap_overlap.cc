// SPDX-License-Identifier: Apache-2.0
// How much of the time that swapping takes is hidden behind compute: programs under a limit that
// only swapping keeps, beside the same without a limit; docs/benchmarks.md has the results.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/swap_overlap/measure.h"
#include "benchmarks/swap_overlap/simulated_link.h"
#include "runtime/base/byte_size.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::benchmarks {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kTierBytes = std::int64_t{4} << 30;
constexpr double kLatencySeconds = 10e-6;

Place simulated(const std::string& speed) {
  const auto rate = parse_byte_size(speed, "--links");
  if (!rate.ok()) throw Error(ErrorCode::invalid_argument, rate.status().message());
  return {"link " + speed + "/s",
          [rate = static_cast<double>(*rate)]() -> Result<memory::Tiers> {
            memory::Tiers tiers;
            PLIMSOLL_ASSIGN_OR_RETURN(
                tiers.host,
                SimulatedLink::create(device::cpu_device(), kTierBytes, rate, kLatencySeconds));
            return tiers;
          },
          true};
}

std::vector<Place> all_places(const std::vector<std::string>& links, const std::string& folder) {
  std::vector<Place> places;
  for (const std::string& link : links) places.push_back(simulated(link));
  places.push_back({"disk", [folder]() -> Result<memory::Tiers> {
                      memory::Tiers tiers;
                      PLIMSOLL_ASSIGN_OR_RETURN(
                          tiers.disk,
                          memory::SpillFile::create(folder, kTierBytes, device::cpu_device()));
                      return tiers;
                    }});
  places.push_back({"host memory", []() -> Result<memory::Tiers> {
                      memory::Tiers tiers;
                      tiers.host = memory::HostTier::create(device::cpu_device(), kTierBytes);
                      return tiers;
                    }});
  return places;
}

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json to_json(const OverlapRow& row) {
  Json json{{"workload", row.workload},
            {"place", row.place},
            {"share", row.share},
            {"ran", row.ran},
            {"limit_bytes", row.limit_bytes},
            {"floor_bytes", row.floor_bytes}};
  if (!row.ran) return json;
  json.update(Json{{"peak_bytes", row.peak_bytes},
                   {"same_bits", row.same_bits},
                   {"rounds", row.rounds},
                   {"transfers", row.transfers},
                   {"transfer_bytes", row.bytes()},
                   {"recomputes", row.recomputes},
                   {"transfer_seconds", row.transfer_seconds},
                   {"link_bytes_per_second", row.link_bytes_per_second()},
                   {"unlimited_seconds", row.unlimited_seconds},
                   {"limited_seconds", row.limited_seconds},
                   {"added_seconds", row.added_seconds.median},
                   {"added_seconds_quartiles", {row.added_seconds.low, row.added_seconds.high}},
                   {"hidden_share", row.hidden_share()},
                   {"uncertainty", row.uncertainty()},
                   {"tells", row.tells()},
                   {"fastest_unlimited_seconds", row.fastest_unlimited_seconds},
                   {"fastest_limited_seconds", row.fastest_limited_seconds},
                   {"fastest_hidden_share", row.fastest_hidden_share()},
                   {"predicted_unlimited_seconds", number(row.predicted_unlimited_seconds)},
                   {"predicted_limited_seconds", number(row.predicted_limited_seconds)},
                   {"predicted_transfer_seconds", number(row.predicted_transfer_seconds)},
                   {"predicted_hidden_share", number(row.predicted_hidden_share())}});
  return json;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * std::clamp(share, 0.0, 1.0));
  return text;
}

void print_header(std::FILE* out) {
  std::fprintf(out, "%-12s %-14s %5s %9s %9s %6s %8s %8s %8s %7s %7s %9s\n", "workload", "place",
               "limit", "MiB moved", "transfers", "GB/s", "busy ms", "free ms", "under ms",
               "hidden", "fastest", "predicted");
}

void print_row(std::FILE* out, const OverlapRow& row) {
  std::fprintf(out, "%-12s %-14s %4.0f%% ", row.workload.c_str(), row.place.c_str(),
               100 * row.share);
  if (!row.ran) {
    std::fprintf(out, "no plan: it takes %s\n", format_bytes(row.floor_bytes).c_str());
    return;
  }
  std::string hidden = "?", fastest = "?";
  if (row.tells()) hidden = percent(row.hidden_share());
  if (row.counts()) fastest = percent(row.fastest_hidden_share());
  const auto predicted = row.predicted_hidden_share();
  std::fprintf(out, "%9.1f %9lld %6.2f %8.2f %8.2f %8.2f %7s %7s %9s%s%s\n",
               static_cast<double>(row.bytes()) / (1 << 20), static_cast<long long>(row.transfers),
               row.link_bytes_per_second() / 1e9, 1e3 * row.transfer_seconds,
               1e3 * row.unlimited_seconds, 1e3 * row.limited_seconds, hidden.c_str(),
               fastest.c_str(), predicted ? percent(*predicted).c_str() : "-",
               row.same_bits ? "" : "  OTHER BITS", row.under_limit() ? "" : "  OVER THE LIMIT");
  std::fflush(out);
}

double load() {
  double average = 0;
  return getloadavg(&average, 1) == 1 ? average : -1;
}

}  // namespace
}  // namespace plimsoll::benchmarks

int main(int argc, char** argv) {
  using namespace plimsoll;
  using namespace plimsoll::benchmarks;
  std::vector<std::string> names, links = {"16GB", "2GB"};
  std::string folder = ".";
  OverlapOptions options;
  double scale = 0.5;
  EagerSize size{.width = 256, .batch = 1024, .depth = 24, .repeats = 1};
  bool json = false;
  CommandLine line("Which share of the time of transfers is hidden behind compute.",
                   "swap_overlap");
  line.add(
      "workloads", names,
      "cnn, gpt, lstm, unet, gpt_scanned, dense_chain, tree_lstm, fixed_point; none given: all");
  line.add("--links", links, "Speeds of simulated links, in bytes per second");
  line.add("--folder", folder, "Where the spill file is made");
  line.add("--percents", options.percents, "Limits, as shares of the unlimited peak");
  line.add("--scale", scale, "Multiplies the batches of training steps", {.positive = true});
  line.add("--warm-up", options.warm_up, "Steps before those that count",
           {.least = 2, .most = 1000});
  line.add("--rounds", options.rounds, "Steps that count; medians of them are given",
           {.least = 3, .most = 1000});
  line.add_flag("--json", json, "JSON on standard output, the table on standard error");
  if (const auto status = line.read(argc, argv)) return *status;

  const bool all = names.empty();
  std::vector<EagerProgram> programs;
  for (const EagerProgram& program : kEagerPrograms) {
    if (all || std::erase(names, program.name) > 0) programs.push_back(program);
  }
  std::vector<Workload> workloads;
  if (all || !names.empty()) {
    auto chosen = choose_workloads(training_workloads(scale), names, "swap_overlap");
    if (!chosen) return 2;
    workloads = std::move(*chosen);
  }
  std::vector<OverlapRow> rows;
  const double load_before = load();
  try {
    const std::vector<Place> places = all_places(links, folder);
    std::FILE* const table = json ? stderr : stdout;
    print_header(table);
    const auto take = [&](std::vector<OverlapRow> some) {
      for (const OverlapRow& row : some) print_row(table, row);
      rows.insert(rows.end(), some.begin(), some.end());
    };
    for (const Workload& workload : workloads) take(measure_training(workload, places, options));
    OverlapOptions half = options;
    half.percents = {50};
    for (const EagerProgram& program : programs) take(measure_eager(program, size, places, half));
  } catch (const Error& error) {
    std::fprintf(stderr, "swap_overlap: %s\n", error.what());
    return 1;
  }
  bool sound = true;
  for (const OverlapRow& row : rows) {
    sound = sound && (!row.ran || (row.same_bits && row.under_limit()));
  }
  if (json) {
    Json out{{"threads", device::thread_count()},
             {"load_before", load_before},
             {"load_after", load()},
             {"sound", sound}};
    for (const OverlapRow& row : rows) out["rows"].push_back(to_json(row));
    std::cout << out.dump(2) << "\n";
  }
  return sound ? 0 : 1;
}
