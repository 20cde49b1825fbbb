// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/gpu/steps/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "benchmarks/gpu/steps/driver_bytes.h"
#include "runtime/base/sha256.h"
#include "runtime/device/devices.h"

namespace plimsoll::benchmarks {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

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
  std::string hash() {
    const ContextScope scope(context_);
    context_.remove_limit();
    Sha256 hash;
    std::vector<std::byte> bytes;
    for (const auto& tensors : {training_.network->parameters(), training_.network->buffers(),
                                training_.optimizer->state()}) {
      for (const Tensor& tensor : tensors) {
        bytes.resize(static_cast<std::size_t>(tensor.byte_size()));
        tensor.read_bytes(bytes.data(), bytes.size());
        hash.update(bytes);
      }
    }
    return hash.finish();
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

class Measurement {
 public:
  Measurement(const Workload& workload, const GpuStepsOptions& options)
      : workload_(workload), options_(options) {}

  ordered_json run() {
    MemoryNeeds needs;
    {
      Run probe(workload_, PLM_NO_LIMIT, 0);
      needs = probe.record_and_measure();
    }
    std::vector<ordered_json> rows;
    rows.push_back(measure("floor", needs.floor_bytes, &needs));
    auto percents = options_.percents;
    std::sort(percents.begin(), percents.end());
    for (const double percent : percents) {
      char name[32];
      std::snprintf(name, sizeof name, "%g%%", percent);
      const auto bytes = static_cast<std::int64_t>(
          std::floor(percent / 100 * static_cast<double>(needs.unlimited_peak_bytes)));
      if (bytes < needs.floor_bytes || seconds_since(start_) > 0.7 * options_.seconds) {
        rows.push_back({{"limit", name},
                        {"limit_bytes", bytes},
                        {"ran", false},
                        {"why", bytes < needs.floor_bytes ? "below the floor" : "no time left"}});
        continue;
      }
      rows.push_back(measure(name, bytes, nullptr));
    }
    rows.push_back(measure("none", PLM_NO_LIMIT, nullptr));
    return finish(std::move(rows), needs);
  }

 private:
  // `needs`: of the step that makes the optimizer's state; becomes that of the ones behind it.
  ordered_json measure(const std::string& name, std::int64_t limit_bytes, MemoryNeeds* needs) {
    const bool is_limited = limit_bytes != PLM_NO_LIMIT;
    ordered_json row = {{"limit", name}, {"limit_bytes", nullptr}, {"ran", true}};
    try {
      const Clock::time_point start = Clock::now();
      Run run(workload_, limit_bytes, is_limited ? options_.host_bytes : 0);
      DriverBytes held(device::default_device());
      double seconds = run.step();
      row["first_step_seconds"] = seconds_since(start);
      const double compile = run.report().at("compile_seconds");
      if (needs != nullptr) {
        *needs = run.record_and_measure();
        // The first step's data is gone, but its plan had this much.
        limit_bytes = std::max(limit_bytes, needs->floor_bytes);
        run.context().set_limit(limit_bytes);
      }
      for (int i = 1; i < options_.warm_up; ++i) seconds = run.step();
      std::vector<double> step_seconds, wall_seconds;
      const auto is_enough = [&] {
        const int done = static_cast<int>(step_seconds.size());
        if (rounds_ > 0) return done == rounds_;
        // Five contexts, about, share the time.
        return done == options_.rounds ||
               (done >= 2 && seconds_since(start) + seconds > options_.seconds / 6);
      };
      const std::int64_t graphs = run.report().at("graph_runs");
      while (!is_enough()) {
        wall_seconds.push_back(seconds = run.step());
        step_seconds.push_back(run.report().at("step_seconds"));
      }
      rounds_ = static_cast<int>(step_seconds.size());
      row["driver_bytes"] = held.stop();
      const ordered_json report = run.report();
      row["limit_bytes"] = is_limited ? ordered_json(limit_bytes) : ordered_json();
      row["step_seconds"] = median(step_seconds);
      row["wall_seconds"] = median(wall_seconds);
      row["predicted_percent"] =
          percent_over(report.at("expected_seconds"), report.at("expected_unlimited_seconds"));
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
      row["compile_seconds"] = compile;
      run.context().enable_profile(true);
      for (int i = 0; i < options_.profiled; ++i) run.step();
      add_profile(row, run.report(), options_.profiled, options_.top);
      run.context().enable_profile(false);
      row["sha256"] = run.hash();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::resource_exhausted) throw;
      row["ran"] = false;
      row["limit_bytes"] = limit_bytes;
      row["why"] = error.what();
    }
    return row;
  }

  ordered_json finish(std::vector<ordered_json> rows, const MemoryNeeds& needs) const {
    std::vector<std::string> missed;
    const ordered_json unlimited = rows.back();
    for (ordered_json& row : rows) {
      const std::string name = workload_.name + " at " + row.at("limit").get<std::string>();
      if (!row.at("ran").get<bool>()) {
        missed.push_back(name + ": " + row.at("why").get<std::string>());
        continue;
      }
      if (!unlimited.at("ran").get<bool>()) continue;
      row["measured_percent"] = percent_over(row.at("step_seconds"), unlimited.at("step_seconds"));
      row["same_bits"] = row.at("sha256") == unlimited.at("sha256");
      if (!row.at("same_bits").get<bool>()) missed.push_back(name + ": other bits");
      if (row.at("limit_bytes").is_null()) continue;
      const std::int64_t limit = row.at("limit_bytes");
      for (const char* bytes : {"peak_bytes", "driver_bytes"}) {
        if (row.at(bytes).get<std::int64_t>() <= limit) continue;
        missed.push_back(name + ": " + bytes + " over the limit by " +
                         std::to_string(row.at(bytes).get<std::int64_t>() - limit));
      }
    }
    std::rotate(rows.begin(), rows.end() - 1, rows.end());
    return {{"workload", workload_.name},
            {"unlimited_peak_bytes", needs.unlimited_peak_bytes},
            {"floor_bytes", needs.floor_bytes},
            {"steps", options_.warm_up + rounds_ + options_.profiled},
            {"rows", rows},
            {"missed", missed}};
  }

  const Workload& workload_;
  const GpuStepsOptions& options_;
  const Clock::time_point start_ = Clock::now();
  int rounds_ = 0;  // 0: the first context decides
};

}  // namespace

ordered_json measure_gpu_steps(const Workload& workload, const GpuStepsOptions& options) {
  return Measurement(workload, options).run();
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
    row["driver_bytes"] = held.stop();
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
