// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/cost/measured_times.h"
#include "runtime/planner/planner.h"

namespace plimsoll::planner {

// Another model corrected by measurements: an instruction that was measured costs what it took, so
// much more or less as caches missed more or less of its bytes than when it was measured; one that
// does the same work as measured ones costs their mean; the others what the base model says times
// the ratio (measured over predicted) of their cost class, or of everything where nothing of their
// class was measured. Its answers never change. Thread-safe.
class MeasuredCostModel : public CostModel {
 public:
  MeasuredCostModel(const CostModel& base, std::shared_ptr<const Measurements> measurements)
      : base_(base), measurements_(std::move(measurements)) {}

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
  std::uint64_t version() const override { return measurements_->version; }

 private:
  // Null where nothing alike was measured.
  const Measurements::Time* measured(const ir::Instruction& instruction) const;

  const CostModel& base_;
  const std::shared_ptr<const Measurements> measurements_;
  mutable std::mutex mutex_;  // guards what follows
  // Of those that were not measured themselves: searches ask for the same ones again and again.
  mutable std::unordered_map<const ir::Instruction*, const Measurements::Time*> alike_;
};

// The prices of one form of a program, of what is measured of all its forms: publishes a new model
// when measurements have drifted far enough from the one in force. Thread-safe.
class MeasuredCosts {
 public:
  // Keeps `base` and what it returns by reference for as long as it lives. Forms of one program
  // share their `times`.
  MeasuredCosts(std::unique_ptr<const CostModel> base, std::shared_ptr<MeasuredTimes> times);
  // The only form.
  explicit MeasuredCosts(std::unique_ptr<const CostModel> base, const CacheSpeeds& cache = {});

  // The model in force. Models stay valid as long as this object: there are few, since the time
  // between two of them at least doubles.
  const CostModel& model() const;
  // Of the models of all forms: one changes with the other.
  std::uint64_t version() const { return times_->version(); }

  // The model of before anything was measured.
  const CostModel& base() const { return *base_; }
  const std::shared_ptr<MeasuredTimes>& times() const { return times_; }
  // The caches that missed bytes are counted for.
  const CacheSpeeds& cache() const { return times_->cache(); }

  // `seconds` is the time of one launch, averaged over the `launches` of one run, in which caches
  // missed `missed_bytes` a launch. Of an instruction's latest times the median counts. What was
  // `disturbed` by transfers beside it counts for as long as nothing else was measured of it.
  void record(const ir::Instruction& instruction, double seconds, std::int64_t launches = 1,
              double missed_bytes = 0, bool disturbed = false);
  void record_codec(const Codec& codec, const ir::Shape& shape, bool encode, double seconds);
  // `bytes` and `seconds` of one transfer, averaged over the `transfers` of one run.
  void record_transfer(Link link, double bytes, double seconds, std::int64_t transfers = 1);
  // The tiers that plans are made for: their speeds hold until transfers were measured.
  void assume_tiers(const PerTier<Tier>& tiers) { times_->assume_tiers(tiers); }
  // The speeds of the model in force: those of `options`' tiers, where they were measured.
  void apply_links(PlanOptions& options) const { times_->apply_published_links(options); }
  // A measured run of this form is complete.
  void finish_run();
  std::int64_t runs() const { return runs_.load(std::memory_order_acquire); }
  // What `plan`, of this form, takes by everything measured so far, which no model in force may
  // know yet: kernels with the cache misses of their place in the plan, transfers at their measured
  // speeds.
  double seconds_of(const Plan& plan, const PlanOptions& options) const;

  // True when products and convolutions, in at least three runs and a millisecond a run by the base
  // model, took less than half of what it says: the machine is faster than it was measured to be.
  // That they take longer says nothing of the machine, as it may be busy, and kernels differ.
  bool contradict_base() const;

  // Sum of |measured - predicted| over the instructions of this form that were measured, each as
  // often as it runs, by the sum of what the model in force predicts for them.
  double drift() const { return times_->drift(*base_, model()); }
  // Publishes what was measured when it has drifted by more than `share`, and enough measured runs
  // have passed: two, then twice as many each time. True when it did. Cheap when there is nothing
  // to do. A share of 0 never publishes.
  bool update(double share);

 private:
  const std::unique_ptr<const CostModel> base_;
  const std::shared_ptr<MeasuredTimes> times_;
  std::atomic<std::int64_t> runs_{0};
  std::atomic<std::int64_t> next_runs_{2};
  mutable std::mutex mutex_;                                      // guards what follows
  mutable std::vector<std::unique_ptr<const CostModel>> models_;  // given out, oldest first
};

}  // namespace plimsoll::planner
