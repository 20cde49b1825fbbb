// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>

#include "benchmarks/planner/planner_benchmark.h"
#include "benchmarks/planner/reference.h"
#include "benchmarks/recorded/pack_csv.h"
#include "runtime/base/random_bits.h"
#include "runtime/planner/pack/pack.h"

namespace plimsoll::planner_benchmark {
namespace {

using planner::Lifetime;

struct Instance {
  std::string name;
  double most_height;  // times the load, or bytes where above 1,000
  double most_seconds;
};

// D and J: nobody knows the least height; 1,040,000 was reached.
const std::vector<Instance>& instances() {
  static const std::vector<Instance> all = {
      {"minimalloc/A.1048576", 1, 0.5},
      {"minimalloc/C.1048576", 1, 0.5},
      {"minimalloc/D.1048576", 1039999, 0.5},
      {"minimalloc/F.1048576", 1, 0.5},
      {"minimalloc/G.1048576", 1, 0.5},
      {"minimalloc/I.1048576", 1, 0.5},
      {"minimalloc/J.1048576", 1039999, 0.5},
      {"idealloc-dsa/resnet50", 1, 0.05},
      {"idealloc-dsa/pangu_2.6B", 1.001, 0.5},
      {"idealloc-dsa/Y_1", 1.001, 3},
      {"dtr-remat-packing/unet.r0.5", 1.03, 2},
      {"dtr-remat-packing/resnet32.r0.5", 1.03, 2},
      {"dtr-remat-packing/inceptionv4.r0.5", 1.03, 2},
      {"dtr-remat-packing/transformer.r0.5", 1.03, 2},
      {"dtr-remat-packing/treelstm.r0.5", 1.03, 2},
      {"dtr-remat-packing/resnet32.r0.3", 1.06, 2},
      {"dtr-remat-packing/inceptionv4.r0.3", 1.06, 2},
      {"dtr-remat-packing/transformer.r0.3", 1.06, 2},
  };
  return all;
}

double uniform(std::uint64_t counter) { return RandomBits(counter).unit(); }

// Starts uniform, lengths and sizes log-uniform: many small and short ones, few large and long.
std::vector<Lifetime> made_up(std::int64_t count) {
  std::vector<Lifetime> lifetimes;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto counter = static_cast<std::uint64_t>(3 * i);
    Lifetime lifetime;
    lifetime.lower = static_cast<std::int64_t>(uniform(counter) * static_cast<double>(count));
    lifetime.upper =
        lifetime.lower + 1 + static_cast<std::int64_t>(std::exp(uniform(counter + 1) * 9.2));
    lifetime.size = 64 * (1 + static_cast<std::int64_t>(std::exp(uniform(counter + 2) * 11)));
    lifetimes.push_back(lifetime);
  }
  return lifetimes;
}

struct Sweep {
  std::int64_t load = 0, height = 0;
  std::string fault;  // empty: nothing overlaps
};

// The load and the height, and whether two buffers meet, found without the packer.
Sweep sweep(const std::vector<Lifetime>& lifetimes, const std::vector<std::int64_t>& offsets) {
  Sweep result;
  if (offsets.size() != lifetimes.size()) {
    result.fault = "an offset is missing";
    return result;
  }
  std::vector<std::pair<std::int64_t, std::size_t>> starts, ends;
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].lower >= lifetimes[i].upper || lifetimes[i].size == 0) continue;
    starts.emplace_back(lifetimes[i].lower, i);
    ends.emplace_back(lifetimes[i].upper, i);
    if (offsets[i] < 0) result.fault = "an offset is negative";
    result.height = std::max(result.height, offsets[i] + lifetimes[i].size);
  }
  std::sort(starts.begin(), starts.end());
  std::sort(ends.begin(), ends.end());
  std::map<std::int64_t, std::int64_t> live;  // offset to end
  std::int64_t bytes = 0;
  std::size_t ended = 0;
  for (const auto& [time, i] : starts) {
    for (; ended < ends.size() && ends[ended].first <= time; ++ended) {
      live.erase(offsets[ends[ended].second]);
      bytes -= lifetimes[ends[ended].second].size;
    }
    const std::int64_t end = offsets[i] + lifetimes[i].size;
    const auto next = live.lower_bound(offsets[i]);
    if ((next != live.end() && next->first < end) ||
        (next != live.begin() && std::prev(next)->second > offsets[i])) {
      result.fault = format("buffer %zu overlaps another one", i);
      return result;
    }
    live.emplace_hint(next, offsets[i], end);
    bytes += lifetimes[i].size;
    result.load = std::max(result.load, bytes);
  }
  return result;
}

void pack_one(Section& section, const BenchOptions& options, const Instance& instance,
              const std::vector<Lifetime>& lifetimes) {
  // Of the processor's time, so that other programs change nothing; some is left for the end.
  planner::PackOptions pack_options;
  pack_options.seconds = 0.96 * instance.most_seconds;
  const Stopwatch watch;
  const planner::Packing packing = planner::pack(lifetimes, pack_options);
  const double seconds = watch.seconds();
  const Sweep seen = sweep(lifetimes, packing.offsets);
  const char* name = instance.name.c_str();
  if (!seen.fault.empty()) section.broken.push_back(instance.name + ": " + seen.fault);
  if (seen.height != packing.height || seen.load != packing.load) {
    section.broken.push_back(instance.name + ": the height or the load isn't what is claimed");
  }
  const auto load = static_cast<double>(seen.load), height = static_cast<double>(seen.height);
  const double most =
      instance.most_height > 1000 ? instance.most_height : instance.most_height * load;
  add_line(section, options,
           format("%-36s %8zu %14lld %14lld %8.5f %8.4f %8.3f %6.2f", name, lifetimes.size(),
                  static_cast<long long>(seen.load), static_cast<long long>(seen.height),
                  height / load, most / load, seconds, instance.most_seconds));
  section.rows.push_back({{"instance", instance.name},
                          {"buffers", lifetimes.size()},
                          {"load", seen.load},
                          {"height", seen.height},
                          {"ratio", height / load},
                          {"aim_ratio", most / load},
                          {"seconds", seconds},
                          {"aim_seconds", instance.most_seconds}});
  if (height > most * (1 + 1e-12)) {
    section.missed.push_back(format("%s: %.5f of the load, %.5f above the aim", name, height / load,
                                    (height - most) / load));
  }
  if (seconds > instance.most_seconds) {
    section.missed.push_back(
        format("%s: %.3f s, %.3f s above the aim", name, seconds, seconds - instance.most_seconds));
  }
}

}  // namespace

Result<Section> packing(const BenchOptions& options) {
  Section section;
  section.name = "packing";
  add_line(section, options,
           format("%-36s %8s %14s %14s %8s %8s %8s %6s", "packing", "buffers", "load", "height",
                  "ratio", "aim", "seconds", "aim"));
  for (const Instance& instance : instances()) {
    const std::string path = options.data + "/" + instance.name + ".csv";
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string text, read_file(path));
    PLIMSOLL_ASSIGN_OR_RETURN(const auto buffers, planner::parse_lifetimes(text, path));
    pack_one(section, options, instance, buffers.lifetimes);
  }
  const std::int64_t count = options.quick ? 100'000 : 1'000'000;
  pack_one(section, options, {format("made up: %lld", static_cast<long long>(count)), 1.02, 20},
           made_up(count));
  return section;
}

}  // namespace plimsoll::planner_benchmark
