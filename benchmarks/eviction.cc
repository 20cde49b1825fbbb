// SPDX-License-Identifier: Apache-2.0
// The on-the-fly evictor: recorded steps at falling limits beside seven published heuristics,
// chains trained in little memory, decisions per second.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/eviction/chains.h"
#include "benchmarks/eviction/replay.h"
#include "benchmarks/planner/reference.h"
#include "runtime/base/file.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;
namespace bench = eviction_benchmark;

constexpr double kRatios[] = {0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05};
// Where no hole is large enough, an evictor is given up for lost after so many percent more time.
constexpr double kMostOverhead = 300;
// The published heuristics whose figures are made again, and their names in the table of figures.
const std::map<std::string, std::string> kAgain = {
    {"dtr", "DTR"}, {"dtr-eq", "DTREqClass"}, {"msps", "MSPS"}};

int fail(const Status& status) {
  std::fprintf(stderr, "eviction: %s\n", status.to_string().c_str());
  return 2;
}

// What simrd's heuristics reached: overhead in percent by model, heuristic and ratio in
// thousandths; absent where they failed.
using Published = std::map<std::string, std::map<std::string, std::map<int, double>>>;

Result<Published> read_published(const std::string& data) {
  PLIMSOLL_ASSIGN_OR_RETURN(const auto csv, planner_benchmark::read_csv(
                                                data + "/dtr-simrd/reference/simrd_overheads.csv"));
  Published found;
  const auto column = [&](const char* name) { return static_cast<std::size_t>(csv.column(name)); };
  const std::size_t model = column("model"), heuristic = column("heuristic"),
                    ratio = column("ratio"), status = column("status"),
                    factor = column("overhead_factor");
  for (const auto& row : csv.rows) {
    if (row[status] != "ok") continue;
    found[row[model]][row[heuristic]][static_cast<int>(std::lround(1000 * std::stod(row[ratio])))] =
        100 * (std::stod(row[factor]) - 1);
  }
  return found;
}

Result<import::RecordedLog> read_log(const std::string& data, const std::string& model) {
  for (const auto& entry : std::filesystem::directory_iterator(data + "/dtr-simrd/logs")) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(model + "-", 0) != 0) continue;
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string text, read_file(entry.path().string()));
    return import::parse_recorded_log(text, entry.path().string());
  }
  return not_found("no log of " + model + " in " + data + "/dtr-simrd/logs");
}

Json replays(const std::string& model, const import::RecordedLog& log, const Published& published,
             bool again, Json& worst) {
  Json rows = Json::array();
  const auto& heuristics = published.at(model);
  for (const double ratio : kRatios) {
    const auto limit =
        static_cast<std::int64_t>(std::floor(ratio * static_cast<double>(log.peak_bytes)));
    const int key = static_cast<int>(std::lround(1000 * ratio));
    const auto ours = bench::replay(log, limit, "default");
    Json row = {{"model", model}, {"ratio", ratio}};
    row["overhead"] = ours->ok ? Json(ours->overhead()) : Json(nullptr);
    row["nanoseconds_per_operation"] =
        1e9 * ours->deciding_seconds / static_cast<double>(log.calls.size() + ours->recomputes);
    for (const char* policy : {"contiguous", "scattered"}) {
      const auto made = bench::replay(log, limit, policy, kMostOverhead);
      row[policy] = made->ok ? Json(made->overhead()) : Json(nullptr);
    }
    double best = INFINITY;
    std::string by;
    for (const auto& [name, figures] : heuristics) {
      const auto found = figures.find(key);
      if (found == figures.end() || found->second >= best) continue;
      best = found->second;
      by = name;
    }
    row["best_published"] = by.empty() ? Json(nullptr) : Json(best);
    row["by"] = by;
    if (!by.empty()) {
      const double times = ours->ok ? (100 + ours->overhead()) / (100 + best) : INFINITY;
      row["time_over_best"] = ours->ok ? Json(times) : Json(nullptr);
      if (worst.is_null() || (!worst["time_over_best"].is_null() &&
                              (!ours->ok || times > worst["time_over_best"].get<double>()))) {
        worst = row;
      }
    }
    if (again) {
      for (const auto& [policy, name] : kAgain) {
        const auto made = bench::replay(log, limit, policy);
        const auto figures = heuristics.find(name);
        const bool has = figures != heuristics.end() && figures->second.count(key) > 0;
        row[policy] = made->ok ? Json(made->overhead()) : Json(nullptr);
        row[policy + "_published"] = has ? Json(figures->second.at(key)) : Json(nullptr);
      }
    }
    std::fprintf(stderr, "%s\n", row.dump().c_str());
    rows.push_back(std::move(row));
  }
  return rows;
}

Json chains() {
  Json rows = Json::array();
  for (int layers = 64; layers <= 4096; layers *= 4) {
    const auto root = static_cast<std::int64_t>(std::lround(std::sqrt(layers)));
    const auto log = static_cast<std::int64_t>(std::lround(std::log2(layers)));
    for (const auto& [name, units] :
         {std::pair{"2 sqrt(n)", 2 * root}, std::pair{"2 log2(n)", 2 * log}}) {
      const bench::ChainRun run = bench::train_chain(layers, units);
      rows.push_back(
          {{"layers", layers},
           {"memory", name},
           {"limit", units},
           {"operations_over_plain",
            run.ok ? Json(static_cast<double>(run.operations) / (2.0 * layers)) : Json(nullptr)}});
    }
  }
  return rows;
}

Json decisions() {
  Json rows = Json::array();
  for (const int live : {1000, 10000, 100000}) {
    std::vector<double> rates;
    for (std::uint32_t seed = 0; seed < 3; ++seed) {
      const bench::DecisionRun run = bench::decide(live, 20000, seed);
      rates.push_back(static_cast<double>(run.evictions) / run.seconds);
    }
    std::sort(rates.begin(), rates.end());
    rows.push_back({{"live_buffers", live}, {"evictions_per_second", rates[1]}});
  }
  return rows;
}

int run(int argc, char** argv) {
  benchmarks::CommandLine line(
      "The on-the-fly evictor on recorded steps, on chains, and its decisions per second.",
      "eviction");
  std::string data;
  bool again = false;
  line.add("--data", data, "Folder with the instances: dtr-simrd",
           {.folder = true, .variable = "PLIMSOLL_BENCH_DATA"});
  line.add_flag("--again", again, "Make the published heuristics' figures again, too (minutes)");
  if (const auto status = line.read(argc, argv)) return *status;
  Json answer;
  answer["chains"] = chains();
  answer["decisions"] = decisions();
  if (!data.empty()) {
    const auto published = read_published(data);
    if (!published.ok()) return fail(published.status());
    answer["replays"] = Json::array();
    Json worst;
    for (const std::string& model : planner_benchmark::model_names()) {
      const auto log = read_log(data, model);
      if (!log.ok()) return fail(log.status());
      for (Json& row : replays(model, *log, *published, again, worst)) {
        answer["replays"].push_back(std::move(row));
      }
    }
    answer["worst"] = worst;
  }
  std::printf("%s\n", answer.dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) { return plimsoll::run(argc, argv); }
