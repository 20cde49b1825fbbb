// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/swap_overlap/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/sha256.h"
#include "runtime/c_api/handles.h"
#include "runtime/program/machine.h"
#include "runtime/serve/current_executable.h"

namespace plimsoll::benchmarks {
namespace {

using nlohmann::json;

// A context with a tier of our making, which the public options have no word for.
struct Arena {
  memory::Tiers tiers;
  std::optional<Context> context;

  memory::Tier* tier() const {
    return tiers.host != nullptr ? tiers.host.get() : static_cast<memory::Tier*>(tiers.disk.get());
  }
  const trace::Context& inside() const { return *c_api::unwrap(context->handle()); }
};

void check(const Status& status) {
  if (!status.ok()) throw Error(ErrorCode::internal, status.to_string());
}

Arena make_arena(const Place* place) {
  Arena arena;
  trace::ContextOptions options;
  options.planning.remedies = {false, false, place != nullptr, false};
  options.replan_drift = 0.25;
  options.compilation.calibrate = true;
  options.seed = 1;
  if (place != nullptr) {
    auto tiers = place->make();
    check(tiers.status());
    options.tiers = arena.tiers = std::move(*tiers);
  }
  memory::Tier* const tier = arena.tier();
  std::optional<memory::LinkSpeed> speed;
  if (tier != nullptr && place->known_speed) {
    const auto own = tier->speed();
    check(own.status());
    speed = *own;
  }
  auto made = trace::Context::create(std::move(options));
  check(made.status());
  if (speed) tier->set_speed(*speed);  // the context thinks every host tier is the machine's link
  arena.context = Context::adopt(c_api::wrap(made->release()));
  return arena;
}

// What the engines have done since they were last asked.
struct Moved {
  std::int64_t transfers = 0, out_bytes = 0, in_bytes = 0;
  double seconds = 0;
};

class Meter {
 public:
  explicit Meter(memory::Tier* tier) : tier_(tier) {}
  Moved read() {
    if (tier_ == nullptr) return {};
    const memory::TierStatistics now = tier_->statistics();
    const Moved moved{
        now.out.transfers + now.in.transfers - last_.out.transfers - last_.in.transfers,
        now.out.bytes - last_.out.bytes, now.in.bytes - last_.in.bytes,
        now.out.busy_seconds + now.in.busy_seconds - last_.out.busy_seconds -
            last_.in.busy_seconds};
    last_ = now;
    return moved;
  }

 private:
  memory::Tier* tier_;
  memory::TierStatistics last_;
};

// Rounds of one limited program, beside the unlimited one's of the same rounds.
class Rounds {
 public:
  void add(double unlimited, double limited, const Moved& moved) {
    unlimited_.push_back(unlimited);
    limited_.push_back(limited);
    added_.push_back(limited - unlimited);
    transfer_.push_back(moved.seconds);
    last_ = moved;
  }
  void clear() { *this = {}; }
  void fill(OverlapRow& row) const {
    row.rounds = static_cast<std::int64_t>(added_.size());
    if (added_.empty()) return;
    row.unlimited_seconds = quartiles(unlimited_).median;
    row.limited_seconds = quartiles(limited_).median;
    row.transfer_seconds = quartiles(transfer_).median;
    row.added_seconds = quartiles(added_);
    row.fastest_unlimited_seconds = *std::min_element(unlimited_.begin(), unlimited_.end());
    row.fastest_limited_seconds = *std::min_element(limited_.begin(), limited_.end());
    row.transfers = last_.transfers;
    row.out_bytes = last_.out_bytes;
    row.in_bytes = last_.in_bytes;
  }

 private:
  std::vector<double> unlimited_, limited_, added_, transfer_;
  Moved last_;
};

std::int64_t share_of(double percent, std::int64_t bytes) {
  return static_cast<std::int64_t>(std::floor(percent / 100 * static_cast<double>(bytes)));
}

// One training in a context of its own.
class Trained {
 public:
  Trained(const Workload& workload, const Place* place)
      : arena_(make_arena(place)), meter_(arena_.tier()) {
    const ContextScope scope(context());
    training_ = workload.start();
  }
  Context& context() { return *arena_.context; }
  Arena& arena() { return arena_; }

  MemoryNeeds needs(std::int64_t step) {
    const ContextScope scope(context());
    Tensor loss = record(step);
    const MemoryNeeds needs = context().measure_step();
    context().step();
    context().wait();
    return needs;
  }
  struct Step {
    double seconds = 0;
    Moved moved;
    float loss = 0;
    json report;
  };
  // Nothing where there is no plan; the training is over then.
  std::optional<Step> step(std::int64_t number, std::int64_t& floor_bytes) {
    const ContextScope scope(context());
    Tensor loss = record(number);
    meter_.read();
    try {
      context().step();
      context().wait();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::resource_exhausted) throw;
      floor_bytes = error.floor_bytes();
      return std::nullopt;
    }
    Step step;
    step.moved = meter_.read();
    step.report = json::parse(context().report());
    step.seconds = step.report.at("step_seconds");
    step.loss = loss.item<float>();
    return step;
  }
  // Of everything that lives on.
  std::string hash() {
    const ContextScope scope(context());
    context().remove_limit();
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
  Tensor record(std::int64_t step) {
    Tensor loss = training_.loss(*training_.network, step);
    loss.backward();
    training_.optimizer->record_step();
    return loss;
  }

  Arena arena_;
  Meter meter_;
  Training training_;
};

// What the transfers of the last round take by the link as the plan knows it.
double predicted_seconds(const Arena& arena, const OverlapRow& row) {
  planner::PlanOptions options;
  planner::Tier& tier = arena.tiers.host != nullptr ? options.host : options.disk;
  tier = executor::describe(*arena.tier());
  const trace::CutReport& cut = arena.inside().last_cut();
  if (cut.executable != nullptr) cut.executable->program().costs().apply_links(options);
  return static_cast<double>(row.out_bytes) / tier.out_bytes_per_second +
         static_cast<double>(row.in_bytes) / tier.in_bytes_per_second +
         static_cast<double>(row.transfers) * tier.latency_seconds;
}

}  // namespace

Quartiles quartiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t last = values.size() - 1;
  return {values[last / 4], values[values.size() / 2], values[last - last / 4]};
}

double OverlapRow::link_bytes_per_second() const {
  return transfer_seconds > 0 ? static_cast<double>(bytes()) / transfer_seconds : 0;
}

double OverlapRow::hidden_share() const {
  return transfer_seconds > 0 ? 1 - added_seconds.median / transfer_seconds : 0;
}

double OverlapRow::fastest_hidden_share() const {
  return transfer_seconds > 0
             ? 1 - (fastest_limited_seconds - fastest_unlimited_seconds) / transfer_seconds
             : 0;
}

std::optional<double> OverlapRow::predicted_hidden_share() const {
  if (!predicted_limited_seconds || predicted_transfer_seconds.value_or(0) <= 0) return {};
  return 1 -
         (*predicted_limited_seconds - *predicted_unlimited_seconds) / *predicted_transfer_seconds;
}

double OverlapRow::uncertainty() const {
  if (transfer_seconds <= 0 || rounds == 0) return 0;
  // The standard error of a median of normally distributed values, by their quartiles.
  const double error =
      1.2533 * (added_seconds.high - added_seconds.low) / 1.349 / std::sqrt(rounds);
  return error / transfer_seconds;
}

std::vector<OverlapRow> measure_training(const Workload& workload, const std::vector<Place>& places,
                                         const OverlapOptions& options) {
  Trained unlimited(workload, nullptr);
  std::int64_t step = 0;
  unlimited.needs(step);  // makes the optimizer's state
  const std::int64_t peak = unlimited.needs(++step).unlimited_peak_bytes;
  struct Run {
    std::unique_ptr<Trained> trained;
    OverlapRow row;
    Rounds rounds;
    std::int64_t replans = 0;
  };
  std::vector<Run> runs;
  for (const Place& place : places) {
    for (const double percent : options.percents) {
      Run run{std::make_unique<Trained>(workload, &place), {}, {}, 0};
      for (std::int64_t first = 0; first <= step; ++first) run.trained->needs(first);
      run.row.workload = workload.name;
      run.row.place = place.name;
      run.row.share = percent / 100;
      run.row.limit_bytes = share_of(percent, peak);
      run.row.ran = true;
      run.trained->context().set_limit(run.row.limit_bytes);
      runs.push_back(std::move(run));
    }
  }
  // Everyone goes first at times, the unlimited one, number 0, too.
  std::vector<std::optional<Trained::Step>> results(1 + runs.size());
  for (int round = 0; round < options.warm_up + options.rounds; ++round) {
    ++step;
    for (std::size_t turn = 0; turn < results.size(); ++turn) {
      const std::size_t at = (turn + static_cast<std::size_t>(round)) % results.size();
      std::int64_t none = 0;
      if (at == 0) results[0] = unlimited.step(step, none);
      if (at == 0 || !runs[at - 1].row.ran) continue;
      Run& run = runs[at - 1];
      run.trained->context().reset_peak();
      results[at] = run.trained->step(step, run.row.floor_bytes);
      run.row.ran = results[at].has_value();
      if (!run.row.ran) run.trained.reset();
    }
    const Trained::Step& reference = *results[0];
    for (std::size_t i = 0; i < runs.size(); ++i) {
      Run& run = runs[i];
      if (!run.row.ran) continue;
      const Trained::Step& result = *results[i + 1];
      OverlapRow& row = run.row;
      row.peak_bytes = std::max(row.peak_bytes, run.trained->context().memory().peak_bytes);
      row.same_bits =
          row.same_bits && std::memcmp(&result.loss, &reference.loss, sizeof result.loss) == 0;
      const std::int64_t replans = result.report.at("replans");
      if (round < options.warm_up || replans != run.replans) {
        run.replans = replans;
        run.rounds.clear();
        row.predicted_limited_seconds = result.report.at("expected_seconds");
        row.predicted_unlimited_seconds = result.report.at("expected_unlimited_seconds");
        continue;
      }
      run.rounds.add(reference.seconds, result.seconds, result.moved);
    }
  }
  const std::string bits = unlimited.hash();
  std::vector<OverlapRow> rows;
  for (Run& run : runs) {
    if (run.row.ran) {
      run.rounds.fill(run.row);
      run.row.predicted_transfer_seconds = predicted_seconds(run.trained->arena(), run.row);
      run.row.same_bits = run.row.same_bits && run.trained->hash() == bits;
    }
    rows.push_back(std::move(run.row));
  }
  return rows;
}

std::vector<OverlapRow> measure_eager(const EagerProgram& program, const EagerSize& size,
                                      const std::vector<Place>& places,
                                      const OverlapOptions& options) {
  struct Run {
    Arena arena;
    Meter meter{nullptr};
    OverlapRow row;
    Rounds rounds;
  };
  double seconds = 0;
  const auto run_in = [&](const Context& context) {
    const ContextScope scope(context);
    const auto start = std::chrono::steady_clock::now();
    std::vector<float> results = program.run(size);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return results;
  };
  const Arena unlimited = make_arena(nullptr);
  const std::vector<float> expected = run_in(*unlimited.context);
  const std::int64_t peak = unlimited.context->memory().peak_bytes;
  std::vector<Run> runs;
  for (const Place& place : places) {
    for (const double percent : options.percents) {
      Run run{make_arena(&place), Meter(nullptr), {}, {}};
      run.meter = Meter(run.arena.tier());
      run.row.workload = program.name;
      run.row.place = place.name;
      run.row.share = percent / 100;
      run.row.limit_bytes = share_of(percent, peak);
      run.row.ran = true;
      run.arena.context->set_limit(run.row.limit_bytes);
      runs.push_back(std::move(run));
    }
  }
  struct Result {
    double seconds = 0;
    Moved moved;
  };
  std::vector<Result> results(1 + runs.size());
  for (int round = 0; round < 1 + options.rounds; ++round) {  // the first compiles
    for (std::size_t turn = 0; turn < results.size(); ++turn) {
      const std::size_t at = (turn + static_cast<std::size_t>(round)) % results.size();
      if (at == 0) {
        run_in(*unlimited.context);
        results[0].seconds = seconds;
        continue;
      }
      Run& run = runs[at - 1];
      OverlapRow& row = run.row;
      if (!row.ran) continue;
      run.meter.read();
      try {
        const std::vector<float> values = run_in(*run.arena.context);
        row.same_bits =
            row.same_bits && values.size() == expected.size() &&
            std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)) == 0;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::resource_exhausted) throw;
        row.ran = false;
        row.floor_bytes = error.floor_bytes();
        continue;
      }
      results[at] = {seconds, run.meter.read()};
      row.peak_bytes = std::max(row.peak_bytes, run.arena.context->memory().peak_bytes);
    }
    for (std::size_t i = 0; round > 0 && i < runs.size(); ++i) {
      if (!runs[i].row.ran) continue;
      runs[i].rounds.add(results[0].seconds, results[i + 1].seconds, results[i + 1].moved);
    }
  }
  std::vector<OverlapRow> rows;
  for (Run& run : runs) {
    run.rounds.fill(run.row);
    run.row.recomputes = run.arena.inside().evictions().recomputes / (1 + options.rounds);
    rows.push_back(std::move(run.row));
  }
  return rows;
}

}  // namespace plimsoll::benchmarks
