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

// What was measured of a program's kernels, at one moment.
struct Measurements {
  struct Time {
    double seconds = 0;              // of one execution, as measured
    double missed_bytes = 0;         // then
    double missed_byte_seconds = 0;  // what one more of them costs
  };
  // What a kernel takes at least where its bytes are in caches, of what it was measured to take.
  static constexpr double kLeastWithoutMisses = 0.3;

  std::unordered_map<const ir::Instruction*, Time> times;
  // By work_signature: the mean of those that do the same work.
  std::unordered_map<std::uint64_t, Time> by_work;
  std::array<double, kCostClasses> class_ratio;  // measured over predicted
  double encode_ratio = 1, decode_ratio = 1;
  std::uint64_t version = 0;
  Measurements() { class_ratio.fill(1); }
};

// Collects what the kernels and transfers of one program take, whichever of its forms they run in:
// forms differ in their fusions, and have most kernels in common. Thread-safe.
class MeasuredTimes {
 public:
  explicit MeasuredTimes(const CacheSpeeds& cache);

  const CacheSpeeds& cache() const { return cache_; }
  // What was published last; null before. Its version counts publications.
  std::shared_ptr<const Measurements> published() const;
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // All that is known by now, published or not.
  Measurements now() const;
  void publish();

  // See MeasuredCosts, whose `base` tells the instructions of its form, and whose `run` counts its
  // runs.
  void record(const CostModel& base, const ir::Instruction& instruction, std::int64_t run,
              double seconds, std::int64_t launches, double missed_bytes, bool disturbed);
  void record_codec(double predicted, bool encode, double seconds);
  void record_transfer(Link link, double bytes, double seconds, std::int64_t transfers);
  void assume_tiers(const PerTier<Tier>& tiers);
  // Those speeds of `options`' tiers that were measured, as published, and as they are known now.
  void apply_published_links(PlanOptions& options) const;
  void apply_links(PlanOptions& options) const;

  // Of the instructions of `base`'s form that were measured, each as often as it runs, and of the
  // links: the sum of |measured - predicted| over that of what `model` predicts.
  double drift(const CostModel& base, const CostModel& model) const;
  // Seconds of that form's products and convolutions in a run, measured and by `base`.
  struct Products {
    double measured = 0, predicted = 0;
  };
  Products products(const CostModel& base) const;

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
    bool is_disturbed = false;               // all samples are
    // Of the instruction, whose form may be gone by now.
    const CostModel* base = nullptr;
    CostClass kind = CostClass::elementwise;
    double predicted = 0;  // seconds by the base
    std::uint64_t work = 0;
    const Sample& last() const { return samples[at(count - 1) % kSamples]; }
    void forget_samples() { count = launches = 0, run = -1; }
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
  double missed_byte_seconds(const Entry& entry) const;
  double seconds_of(const Entry& entry) const { return entry.seconds(missed_byte_seconds(entry)); }
  Measurements now_locked() const;

  const CacheSpeeds cache_;
  mutable std::mutex mutex_;
  std::unordered_map<const ir::Instruction*, Entry> index_;
  std::vector<const ir::Instruction*> order_;  // of first measurement: sums don't depend on hashes
  std::array<Transfers, kLinks> links_;
  double least_seconds_per_missed_byte_;  // of what streams, as measured
  double encode_seconds_ = 0, encode_predicted_ = 0, decode_seconds_ = 0, decode_predicted_ = 0;
  std::shared_ptr<const Measurements> published_;
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace plimsoll::planner
