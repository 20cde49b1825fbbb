// SPDX-License-Identifier: Apache-2.0
// What a memory limit costs programs that evaluate every operation at once.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/eager_loops/programs.h"

namespace plimsoll::benchmarks {
namespace {

using Json = nlohmann::ordered_json;

struct Outcome {
  std::vector<float> results;
  double seconds = 0;
  MemoryStatistics memory;
  Json evictions;
};

// None when the limit is too small.
std::optional<Outcome> run(const EagerProgram& program, const EagerSize& size,
                           const ContextOptions& options) {
  Context context(options);
  const ContextScope scope(context);
  Outcome outcome;
  try {
    program.run(size);  // compiles, and touches its memory
    const auto start = std::chrono::steady_clock::now();
    outcome.results = program.run(size);
    outcome.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted) throw;
    return std::nullopt;
  }
  outcome.memory = context.memory();
  outcome.evictions = Json::parse(context.report()).at("evictions");
  return outcome;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

Json measure(const EagerProgram& program, const EagerSize& size, int rounds) {
  const auto best_of = [&](const ContextOptions& options) {
    std::optional<Outcome> best;
    for (int round = 0; round < rounds; ++round) {
      auto outcome = run(program, size, options);
      if (!outcome) return outcome;
      if (!best || outcome->seconds < best->seconds) best = std::move(outcome);
    }
    return best;
  };
  const Outcome free = best_of({}).value();
  Json entry{{"peak_bytes", free.memory.peak_bytes}, {"seconds", free.seconds}};
  const auto row = [&](double share, std::int64_t host_bytes) {
    ContextOptions options;
    options.memory_limit_bytes =
        static_cast<std::int64_t>(share * static_cast<double>(free.memory.peak_bytes));
    options.host_limit_bytes = host_bytes;
    const auto outcome = best_of(options);
    Json result{{"share", share}, {"host_tier", host_bytes > 0}, {"runs", outcome.has_value()}};
    if (outcome) {
      result["same_bits"] = same_bits(outcome->results, free.results);
      result["peak_share"] = static_cast<double>(outcome->memory.peak_bytes) /
                             static_cast<double>(free.memory.peak_bytes);
      result["time"] = outcome->seconds / free.seconds;
      result["evictions"] = outcome->evictions;
    }
    return result;
  };
  for (const std::int64_t host_bytes : {std::int64_t{0}, free.memory.peak_bytes}) {
    for (const double share : {1.0, 0.7, 0.5, 0.3, 0.2}) {
      entry["limits"].push_back(row(share, host_bytes));
    }
  }
  return entry;
}

}  // namespace
}  // namespace plimsoll::benchmarks

int main(int argc, char** argv) {
  using namespace plimsoll::benchmarks;
  CommandLine line(
      "Eager programs under memory limits, beside the same without (docs/benchmarks.md).",
      "eager_loops");
  EagerSize size{.width = 256, .batch = 1024, .depth = 24, .repeats = 1};
  int rounds = 3;
  line.add("--width", size.width, "Width of a layer", {.positive = true});
  line.add("--batch", size.batch, "Rows of a value", {.positive = true});
  line.add("--depth", size.depth, "Layers, levels, steps", {.positive = true});
  line.add("--rounds", rounds, "The best of so many counts", {.positive = true});
  if (const auto status = line.read(argc, argv)) return *status;
  Json out{{"width", size.width}, {"batch", size.batch}, {"depth", size.depth}};
  for (const EagerProgram& program : kEagerPrograms) {
    out["programs"][std::string(program.name)] = measure(program, size, rounds);
  }
  std::cout << out.dump(2) << "\n";
  return 0;
}
