// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/gpu/steps/measure.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include "benchmarks/gpu/steps/driver_bytes.h"
#include "runtime/base/hash.h"
#include "runtime/device/devices.h"

namespace plimsoll::benchmarks {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// No claim is made of such a limit.
constexpr const char* kBelowFloor = "below the floor";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double percent_over(double seconds, double base) {
  return base > 0 ? 100 * (seconds / base - 1) : 0;
}

Context make_context(std::int64_t limit_bytes, std::int64_t host_bytes) {
  ContextOptions options;
  options.memory_limit_bytes = limit_bytes;
  options.remedies = host_bytes > 0 ? "recompute,compress,swap" : "recompute,compress";
  options.host_limit_bytes = host_bytes;
  options.seed = 1;
  return Context(options);
}

// A network in training in a context of its own.
class Run {
 public:
  Run(const Workload& workload, std::int64_t limit_bytes, std::int64_t host_bytes)
      : context_(make_context(limit_bytes, host_bytes)) {
    const ContextScope scope(context_);
    training_ = workload.start();
  }

  Context& context() { return context_; }

  // Records the next step, and says what it would need.
  MemoryNeeds record_and_measure() {
    const ContextScope scope(context_);
    record();
    return context_.measure_step();
  }
  // Records the next step, unless it is, and runs it; seconds with recording.
  double step() {
    const ContextScope scope(context_);
    const Clock::time_point start = Clock::now();
    if (!is_recorded_) record();
    is_recorded_ = false;
    context_.step();
    context_.wait();
    loss_ = Tensor();
    ++step_;
    return seconds_since(start);
  }
  ordered_json report() { return ordered_json::parse(context_.report()); }
  // Of everything that lives on.
  std::uint64_t hash() {
    const ContextScope scope(context_);
    context_.remove_limit();
    std::uint64_t hash = 0;
    std::string bytes;
    for (const auto& tensors : {training_.network->parameters(), training_.network->buffers(),
                                training_.optimizer->state()}) {
      for (const Tensor& tensor : tensors) {
        bytes.resize(static_cast<std::size_t>(tensor.byte_size()));
        tensor.read_bytes(bytes.data(), bytes.size());
        hash = combine_hash(hash, hash_text(bytes));
      }
    }
    return hash;
  }

 private:
  void record() {
    loss_ = training_.loss(*training_.network, step_);
    loss_.backward();
    training_.optimizer->record_step();
    is_recorded_ = true;
  }

  Context context_;
  Training training_;
  Tensor loss_;
  std::int64_t step_ = 0;
  bool is_recorded_ = false;
};

void add_profile(ordered_json& row, const ordered_json& report, int steps, int top) {
  double transfer = 0, waited = 0, own = 0;
  std::vector<ordered_json> kernels;
  for (const ordered_json& entry : report.at("kernels")) {
    const double seconds = entry.at("seconds");
    if (entry.at("name").get<std::string>().starts_with("swap-")) {
      transfer += entry.at("transfer_seconds").get<double>();
      waited += seconds;
      continue;
    }
    own += seconds;
    kernels.push_back(
        {{"name", entry.at("name")},
         {"origin", entry.at("origin")},
         {"launches", entry.at("launches").get<std::int64_t>() / steps},
         {"seconds", seconds / steps},
         {"bytes_per_second", seconds > 0 ? entry.at("bytes").get<double>() / seconds : 0}});
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) {
    return a.at("seconds").template get<double>() > b.at("seconds").template get<double>();
  });
  if (kernels.size() > static_cast<std::size_t>(top)) kernels.resize(static_cast<std::size_t>(top));
  row["kernel_seconds"] = own / steps;
  row["transfer_seconds"] = transfer / steps;
  row["waited_seconds"] = waited / steps;
  row["hidden_share"] = transfer > 0 ? ordered_json(1 - waited / transfer) : ordered_json();
  row["kernels"] = kernels;
}

ordered_json not_run(const std::string& limit, std::int64_t bytes, const std::string& why) {
  return {{"limit", limit}, {"limit_bytes", bytes}, {"ran", false}, {"why", why}};
}

// `needs`: null, or gets those of the second step (the first one makes the optimizer's state).
ordered_json measure(const Workload& workload, const GpuStepsOptions& options,
                     const std::string& limit, std::int64_t limit_bytes, MemoryNeeds* needs) {
  const bool is_limited = limit_bytes != PLM_NO_LIMIT;
  const Clock::time_point start = Clock::now();
  try {
    Run run(workload, limit_bytes, is_limited ? options.host_bytes : 0);
    DriverBytes held(device::default_device());
    run.step();
    ordered_json row = {{"limit", limit},
                        {"limit_bytes", is_limited ? ordered_json(limit_bytes) : ordered_json()},
                        {"ran", true},
                        {"first_step_seconds", seconds_since(start)},
                        {"compile_seconds", run.report().at("compile_seconds")}};
    if (needs != nullptr) *needs = run.record_and_measure();
    for (int i = 1; i < options.warm_up; ++i) run.step();
    const std::int64_t graphs = run.report().at("graph_runs");
    std::vector<double> step_seconds, wall_seconds;
    for (int i = 0; i < options.rounds; ++i) {
      wall_seconds.push_back(run.step());
      step_seconds.push_back(run.report().at("step_seconds"));
    }
    held.stop();
    const ordered_json report = run.report();
    row["step_seconds"] = median(step_seconds);
    row["wall_seconds"] = median(wall_seconds);
    row["predicted_percent"] =
        percent_over(report.at("expected_seconds"), report.at("expected_unlimited_seconds"));
    row["driver_bytes"] = held.taken_bytes();
    row["held_bytes"] = held.held_bytes();
    row["code_bytes"] = device::default_device()->overhead_bytes();
    row["peak_bytes"] = run.context().memory().peak_bytes;
    row["recomputes"] = report.at("steps").at("recompute");
    row["encodes"] = report.at("steps").at("encode");
    row["swaps"] = report.at("steps").at("swap_out");
    row["launches"] = report.at("launches");
    row["graph_runs"] = report.at("graph_runs").get<std::int64_t>() - graphs;
    row["segments"] = report.at("segments");
    row["replans"] = report.at("replans");
    row["planning_seconds"] = report.at("planning_seconds");
    run.context().enable_profile(true);
    for (int i = 0; i < options.profiled; ++i) run.step();
    add_profile(row, run.report(), options.profiled, options.top);
    run.context().enable_profile(false);
    row["hash"] = run.hash();
    row["row_seconds"] = seconds_since(start);
    return row;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted) throw;
    return not_run(limit, limit_bytes, error.what());
  }
}

}  // namespace

ordered_json measure_unlimited(const Workload& workload, const GpuStepsOptions& options) {
  MemoryNeeds needs;
  ordered_json row = measure(workload, options, "none", PLM_NO_LIMIT, &needs);
  row["unlimited_peak_bytes"] = needs.unlimited_peak_bytes;
  row["floor_bytes"] = needs.floor_bytes;
  return row;
}

std::vector<ordered_json> measure_limited(const Workload& workload, const GpuStepsOptions& options,
                                          const ordered_json& unlimited) {
  const Clock::time_point start = Clock::now();
  const std::int64_t peak = unlimited.at("unlimited_peak_bytes");
  std::int64_t floor = unlimited.at("floor_bytes");
  {
    // With a tier beside it, and of the first step, which makes the optimizer's state.
    Run probe(workload, PLM_NO_LIMIT, options.host_bytes);
    floor = std::max(floor, probe.record_and_measure().floor_bytes);
  }
  std::vector<std::pair<std::string, std::int64_t>> limits;
  for (const double percent : options.percents) {
    char name[32];
    std::snprintf(name, sizeof name, "%g%%", percent);
    limits.emplace_back(name, static_cast<std::int64_t>(percent / 100 * static_cast<double>(peak)));
  }
  limits.emplace_back("floor", floor);
  std::stable_sort(limits.begin(), limits.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<ordered_json> rows;
  double last = 0;
  for (const auto& [name, bytes] : limits) {
    if (bytes < floor) {
      rows.push_back(not_run(name, bytes, kBelowFloor));
    } else if (seconds_since(start) + last > options.seconds) {
      rows.push_back(not_run(name, bytes, "no time left"));
    } else {
      rows.push_back(measure(workload, options, name, bytes, nullptr));
      last = rows.back().value("row_seconds", last);
    }
  }
  return rows;
}

std::vector<std::string> judge(const std::string& workload, const ordered_json& unlimited,
                               std::vector<ordered_json>& rows) {
  std::vector<std::string> missed;
  for (ordered_json& row : rows) {
    const std::string name = workload + " at " + row.at("limit").get<std::string>();
    if (!row.at("ran").get<bool>()) {
      const std::string why = row.at("why");
      if (why != kBelowFloor) missed.push_back(name + ": " + why);
      continue;
    }
    row["measured_percent"] = percent_over(row.at("step_seconds"), unlimited.at("step_seconds"));
    row["same_bits"] = row.at("hash") == unlimited.at("hash");
    if (!row.at("same_bits").get<bool>()) missed.push_back(name + ": other bits");
    const std::int64_t limit = row.at("limit_bytes");
    for (const char* bytes : {"peak_bytes", "driver_bytes"}) {
      if (row.at(bytes).get<std::int64_t>() <= limit) continue;
      missed.push_back(name + ": " + bytes + " over the limit by " +
                       std::to_string(row.at(bytes).get<std::int64_t>() - limit));
    }
  }
  // What the driver has at all of the first row, before which there was none.
  if (!rows.empty() && rows.front().at("ran").get<bool>() &&
      rows.front().at("held_bytes").get<std::int64_t>() >
          rows.front().at("limit_bytes").get<std::int64_t>()) {
    missed.push_back(workload + " at " + rows.front().at("limit").get<std::string>() +
                     ": held_bytes over the limit");
  }
  return missed;
}

ordered_json measure_largest_batch(GptSizes sizes, std::int64_t limit_bytes,
                                   std::int64_t host_bytes, double seconds) {
  const Clock::time_point start = Clock::now();
  int planned = 0;
  const auto floor_of = [&](std::int64_t batch) {
    ++planned;
    sizes.batch = batch;
    Run probe(gpt_workload(sizes), PLM_NO_LIMIT, host_bytes);
    return probe.record_and_measure().floor_bytes;
  };
  // Floors grow about evenly with the batch: a few guesses by the last two ones.
  std::int64_t fits = 0, fits_bytes = 0, fails = 0, fails_bytes = 0;
  std::int64_t guess = std::max<std::int64_t>(sizes.batch, 1);
  while ((fails == 0 || fails - fits > std::max<std::int64_t>(1, fits / 50)) &&
         seconds_since(start) < seconds / 2) {
    const std::int64_t bytes = floor_of(guess);
    if (bytes <= limit_bytes) {
      fits = guess;
      fits_bytes = bytes;
    } else {
      fails = guess;
      fails_bytes = bytes;
    }
    if (fails == 0) {
      guess *= std::clamp<std::int64_t>(limit_bytes / std::max<std::int64_t>(bytes, 1), 2, 16);
    } else if (fits == 0) {
      guess = std::max<std::int64_t>(guess / 4, 1);
      if (fails == 1) break;
    } else {
      const double slope =
          static_cast<double>(fails_bytes - fits_bytes) / static_cast<double>(fails - fits);
      guess = fits + static_cast<std::int64_t>(static_cast<double>(limit_bytes - fits_bytes) /
                                               std::max(slope, 1.0));
      guess = std::clamp(guess, fits + 1, fails - 1);
    }
  }
  ordered_json row = {
      {"remedies", host_bytes > 0 ? "recompute,compress,swap" : "recompute,compress"},
      {"limit_bytes", limit_bytes},
      {"batch", fits},
      {"floor_bytes", fits_bytes},
      {"planned", planned},
      {"ran", false}};
  if (fits == 0) return row;
  sizes.batch = fits;
  try {
    Run run(gpt_workload(sizes), limit_bytes, host_bytes);
    DriverBytes held(device::default_device());
    for (int i = 0; i < 2; ++i) run.step();
    std::vector<double> steps;
    do {
      steps.push_back(run.step());
    } while (steps.size() < 3 && seconds_since(start) < seconds);
    held.stop();
    row["driver_bytes"] = held.taken_bytes();
    row["ran"] = true;
    row["step_seconds"] = median(steps);
    row["samples_per_second"] = static_cast<double>(fits) / median(steps);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::resource_exhausted) throw;
    row["why"] = error.what();
  }
  return row;
}

}  // namespace plimsoll::benchmarks
