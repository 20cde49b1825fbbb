// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/planner.h"

namespace plimsoll::planner {

// Another model corrected by measurements: an instruction that was measured costs what it took, so
// much more or less as caches missed more or less of its bytes than when it was measured; the
// others what the base model says times the ratio (measured over predicted) of their cost class, or
// of everything where nothing of their class was measured. Immutable.
class MeasuredCostModel : public CostModel {
 public:
  struct Measurements {
    struct Time {
      double seconds = 0;              // of one execution, as measured
      double missed_bytes = 0;         // then
      double missed_byte_seconds = 0;  // what one more of them costs
    };
    std::unordered_map<const ir::Instruction*, Time> times;
    std::array<double, kCostClasses> class_ratio;
    double encode_ratio = 1, decode_ratio = 1;
    Measurements() { class_ratio.fill(1); }
  };
  MeasuredCostModel(const CostModel& base, Measurements measurements, std::uint64_t version)
      : base_(base), measurements_(std::move(measurements)), version_(version) {}

  double seconds(const ir::Instruction& instruction) const override;
  double seconds_with(const ir::Instruction& instruction, double missed_bytes) const override;
  std::int64_t workspace_bytes(const ir::Instruction& instruction) const override {
    return base_.workspace_bytes(instruction);
  }
  double codec_seconds(const Codec& codec, const ir::Shape& shape, bool encode) const override;
  bool reads_encoded(const ir::Instruction& instruction, const EncodedInput& input) const override {
    return base_.reads_encoded(instruction, input);
  }
  bool writes_encoded(const ir::Instruction& instruction,
                      const EncodedOutput& output) const override {
    return base_.writes_encoded(instruction, output);
  }
  std::uint64_t version() const override { return version_; }

 private:
  const CostModel& base_;
  const Measurements measurements_;
  const std::uint64_t version_;
};

// Collects the measured times of one module's instructions, and publishes a new model when they
// have drifted far enough from the one in force. Thread-safe.
class MeasuredCosts {
 public:
  // Keeps `base` and what it returns by reference for as long as it lives.
  explicit MeasuredCosts(std::unique_ptr<const CostModel> base, const CacheSpeeds& cache = {});

  // The model in force. Models stay valid as long as this object: there are few, since the time
  // between two of them at least doubles.
  const CostModel& model() const;
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }

  // The model of before anything was measured.
  const CostModel& base() const { return *base_; }
  // The caches that missed bytes are counted for.
  const CacheSpeeds& cache() const { return cache_; }

  // `seconds` is the time of one launch, averaged over the `launches` of one run, in which caches
  // missed `missed_bytes` a launch. Of an instruction's latest times the median counts. What was
  // `disturbed` by transfers beside it counts for as long as nothing else was measured of it.
  void record(const ir::Instruction& instruction, double seconds, std::int64_t launches = 1,
              double missed_bytes = 0, bool disturbed = false);
  void record_codec(const Codec& codec, const ir::Shape& shape, bool encode, double seconds);
  // `bytes` and `seconds` of one transfer, averaged over the `transfers` of one run.
  void record_transfer(Link link, double bytes, double seconds, std::int64_t transfers = 1);
  // The tiers that plans are made for: their speeds hold until transfers were measured.
  void assume_tiers(const PerTier<Tier>& tiers);
  // The speeds of the model in force: those of `options`' tiers, where they were measured.
  void apply_links(PlanOptions& options) const;
  // A measured run is complete.
  void finish_run();
  std::int64_t runs() const { return runs_.load(std::memory_order_acquire); }
  // What `plan` takes by everything measured so far, which no model in force may know yet: kernels
  // with the cache misses of their place in the plan, transfers at their measured speeds.
  double seconds_of(const Plan& plan, const PlanOptions& options) const;

  // True when products and convolutions, in at least three runs and a millisecond a run by the base
  // model, took less than half of what it says: the machine is faster than it was measured to be.
  // That they take longer says nothing of the machine, as it may be busy, and kernels differ.
  bool contradict_base() const;

  // Sum of |measured - predicted| over the instructions measured, each as often as it runs, by the
  // sum of what the model in force predicts for them.
  double drift() const;
  // Publishes a model of what was measured when it has drifted by more than `share`, and enough
  // measured runs have passed: two, then twice as many each time. True when it did. Cheap when
  // there is nothing to do. A share of 0 never publishes.
  bool update(double share);

 private:
  struct Sample {
    double seconds = 0, missed_bytes = 0;  // of a launch, means over those of one run
  };
  struct Entry {
    static constexpr std::size_t kSamples = 9;
    std::array<Sample, kSamples> samples{};  // the latest ones
    std::int64_t count = 0;                  // of samples ever taken
    std::int64_t launches = 0;               // of the last run
    std::int64_t run = -1;                   // that one
    CostClass kind = CostClass::elementwise;
    bool is_disturbed = false;  // all samples are
    const Sample& last() const { return samples[at(count - 1) % kSamples]; }
    // The samples' median as if nothing had been missed, with what the last run missed.
    double seconds(double missed_byte_seconds) const;
  };
  struct Transfers {
    double assumed_rate = 0, published_rate = 0;
    double latency = 0;             // seconds of a transfer of no bytes
    double bytes = 0, seconds = 0;  // of one transfer: running averages
    std::int64_t count = 0;         // of the last run
    double rate() const;            // bytes per second beyond the latency, as measured
  };
  Transfers& on(Link link) { return links_[at(link)]; }
  // Of `options`' tiers, those for which `measured` gives a rate above 0.
  template <typename Measured>
  void set_rates(PlanOptions& options, Measured&& measured) const;
  double drift_locked() const;
  double missed_byte_seconds(const Entry& entry) const;
  double seconds_of(const Entry& entry) const { return entry.seconds(missed_byte_seconds(entry)); }
  MeasuredCostModel::Measurements measurements_locked() const;

  const std::unique_ptr<const CostModel> base_;
  const CacheSpeeds cache_;
  mutable std::mutex mutex_;
  std::unordered_map<const ir::Instruction*, Entry> index_;
  std::vector<const ir::Instruction*> order_;  // of first measurement: sums don't depend on hashes
  std::array<Transfers, kLinks> links_;
  double least_seconds_per_missed_byte_;  // of what streams, as measured
  double encode_seconds_ = 0, encode_predicted_ = 0, decode_seconds_ = 0, decode_predicted_ = 0;
  std::atomic<std::int64_t> runs_{0};
  std::atomic<std::int64_t> next_runs_{2};
  std::atomic<std::uint64_t> version_{0};
  std::vector<std::unique_ptr<const CostModel>> models_;  // published, oldest first
};

}  // namespace plimsoll::planner
