// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/measured_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/planner/cost/builtin_costs.h"

// From measurements to prices.
//
// A launch's time is split into what the kernel takes with its bytes in the cache and what the
// misses add: t = t0 + m * c, with m the missed bytes of the step by the model (cache_misses.h) and
// c seconds a byte, of the machine. t0 is what is remembered, the median of the last nine
// measurements, since single ones are disturbed by everything else on the machine. Another plan's
// step is then priced by its own m: t0 + m' * c. The split is a model, so c is never taken
// for so much that it would leave t0 less than three tenths of what was measured.
//
// Example: a kernel measured with 500 us at 4 MB missed, c = 1 s / 20 GB: 200 us are misses, t0 =
// 300 us. In a plan where its operands have just been written, m' = 0.5 MB: 325 us.
//
// Instructions that have not run yet (this plan recomputes what the last one kept) take the builtin
// price times what their class was off by: if all dots measured took 1.3 times their prediction, so
// will this one.

namespace plimsoll::planner {
namespace {

// Share of a new measurement in the running average: about the last five count.
constexpr double kNewest = 0.3;

// What a kernel takes at least, of its measured time, where its bytes are in caches.
constexpr double kLeastWithoutMisses = 0.3;

// Missed bytes of a launch that tell what a byte takes, and not what launches do.
constexpr double kEnoughMissed = 1 << 18;

bool does_compute(CostClass kind) {
  return kind == CostClass::contraction || kind == CostClass::convolution;
}

double ratio_of(double measured, double predicted, double otherwise) {
  return predicted > 0 && measured > 0 ? measured / predicted : otherwise;
}

}  // namespace

double MeasuredCostModel::seconds(const ir::Instruction& instruction) const {
  const auto it = measurements_.times.find(&instruction);
  if (it != measurements_.times.end()) return it->second.seconds;
  return base_.seconds(instruction) * measurements_.class_ratio[at(cost_class(instruction))];
}

double MeasuredCostModel::seconds_with(const ir::Instruction& instruction,
                                       double missed_bytes) const {
  const auto it = measurements_.times.find(&instruction);
  if (it == measurements_.times.end()) return seconds(instruction);
  const auto& time = it->second;
  return std::max(time.seconds + time.missed_byte_seconds * (missed_bytes - time.missed_bytes),
                  kLeastWithoutMisses * time.seconds);
}

double MeasuredCostModel::codec_seconds(const Codec& codec, const ir::Shape& shape,
                                        bool encode) const {
  return base_.codec_seconds(codec, shape, encode) *
         (encode ? measurements_.encode_ratio : measurements_.decode_ratio);
}

MeasuredCosts::MeasuredCosts(std::unique_ptr<const CostModel> base, const CacheSpeeds& cache)
    : base_(std::move(base)),
      cache_(cache),
      least_seconds_per_missed_byte_(std::numeric_limits<double>::infinity()) {}

// Of two the smaller: the first launch also pays for memory that was never touched.
double MeasuredCosts::Entry::seconds(double missed_byte_seconds) const {
  std::array<double, kSamples> sorted{};
  const auto used = std::min<std::ptrdiff_t>(count, kSamples);
  for (std::size_t i = 0; i < at(used); ++i) {
    sorted[i] = samples[i].seconds - samples[i].missed_bytes * missed_byte_seconds;
  }
  const auto middle = sorted.begin() + (used - 1) / 2;
  std::nth_element(sorted.begin(), middle, sorted.begin() + used);
  return *middle + last().missed_bytes * missed_byte_seconds;
}

// What the machine was measured to take for a byte that is not in the caches, but no more than
// would leave every sample a share of its time, and three times what it leaves the quickest kernel
// that streams: what was measured while other programs used the memory would make plans that touch
// more of it look dearer than they are.
double MeasuredCosts::missed_byte_seconds(const Entry& entry) const {
  constexpr double kLessRegular = 3, kMost = 1 - kLeastWithoutMisses;
  const bool computes = does_compute(entry.kind);
  double seconds = std::min(cache_.missed_byte_seconds(entry.kind),
                            (computes ? kLessRegular : 1) * kMost * least_seconds_per_missed_byte_);
  for (std::size_t i = 0; i < Entry::kSamples && i < at(entry.count); ++i) {
    const Sample& sample = entry.samples[i];
    if (sample.missed_bytes > 0) {
      seconds = std::min(seconds, kMost * sample.seconds / sample.missed_bytes);
    }
  }
  return seconds;
}

// A transfer is priced as its link's latency and its bytes over the rate. Small ones are mostly
// latency: 30 KB in 8 us, of which 5 are latency, go at 10 GB/s and not at 3.75.
double MeasuredCosts::Transfers::rate() const {
  constexpr double kLeastShare = 0.2;  // of a transfer, that its bytes take
  return bytes / std::max(seconds - latency, kLeastShare * seconds);
}

const CostModel& MeasuredCosts::model() const {
  const std::lock_guard lock(mutex_);
  return models_.empty() ? *base_ : *models_.back();
}

void MeasuredCosts::record(const ir::Instruction& instruction, double seconds,
                           std::int64_t launches, double missed_bytes, bool disturbed) {
  if (!(seconds >= 0) || launches <= 0) return;
  const std::lock_guard lock(mutex_);
  const auto [it, inserted] = index_.try_emplace(&instruction);
  Entry& entry = it->second;
  if (inserted) {
    order_.push_back(&instruction);
    entry.kind = cost_class(instruction);
    entry.is_disturbed = disturbed;
  }
  if (disturbed && !entry.is_disturbed) return;
  if (entry.is_disturbed && !disturbed) {
    entry = {};
    entry.kind = cost_class(instruction);
  }
  // First and later executions of one run come one after the other, and are one sample: their mean.
  // As two they would be two kinds, of which a median takes one.
  const std::int64_t run = runs();
  if (entry.run != run) {
    entry.launches = 0;
    ++entry.count;
  }
  const auto before = static_cast<double>(entry.launches);
  const auto more = static_cast<double>(launches);
  const auto with = [&](double mean, double next) {
    return (before * mean + more * next) / (before + more);
  };
  Sample& sample = entry.samples[at(entry.count - 1) % Entry::kSamples];
  sample = {with(sample.seconds, seconds), with(sample.missed_bytes, missed_bytes)};
  if (!does_compute(entry.kind) && missed_bytes >= kEnoughMissed && seconds > 0) {
    least_seconds_per_missed_byte_ =
        std::min(least_seconds_per_missed_byte_, seconds / missed_bytes);
  }
  entry.launches += launches;
  entry.run = run;
}

void MeasuredCosts::record_codec(const Codec& codec, const ir::Shape& shape, bool encode,
                                 double seconds) {
  if (!(seconds >= 0)) return;
  const double predicted = base_->codec_seconds(codec, shape, encode);
  const std::lock_guard lock(mutex_);
  double& sum = encode ? encode_seconds_ : decode_seconds_;
  double& total = encode ? encode_predicted_ : decode_predicted_;
  sum += kNewest * (seconds - sum);
  total += kNewest * (predicted - total);
}

void MeasuredCosts::record_transfer(Link link, double bytes, double seconds,
                                    std::int64_t transfers) {
  if (!(seconds > 0) || !(bytes > 0) || transfers <= 0) return;
  const std::lock_guard lock(mutex_);
  Transfers& sum = on(link);
  if (sum.seconds == 0) {
    sum.bytes = bytes;
    sum.seconds = seconds;
  } else {
    sum.bytes += kNewest * (bytes - sum.bytes);
    sum.seconds += kNewest * (seconds - sum.seconds);
  }
  sum.count = transfers;
}

void MeasuredCosts::assume_tiers(const PerTier<Tier>& tiers) {
  const std::lock_guard lock(mutex_);
  for (const MemorySpace tier : kTiers) {
    for (const bool out : {false, true}) {
      for (const bool synchronous : {false, true}) {
        Transfers& sum = on(link_of(tier, out, synchronous));
        sum.assumed_rate = tiers[tier].*rate_of(out, synchronous);
        sum.latency = synchronous ? 0 : tiers[tier].latency_seconds;
      }
    }
  }
}

void MeasuredCosts::apply_links(PlanOptions& options) const {
  const std::lock_guard lock(mutex_);
  set_rates(options, [](const Transfers& sum) { return sum.published_rate; });
}

template <typename Measured>
void MeasuredCosts::set_rates(PlanOptions& options, Measured&& measured) const {
  for (const MemorySpace tier : kTiers) {
    for (const bool out : {false, true}) {
      for (const bool synchronous : {false, true}) {
        const double rate = measured(links_[at(link_of(tier, out, synchronous))]);
        if (rate > 0) options[tier].*rate_of(out, synchronous) = rate;
      }
    }
  }
}

void MeasuredCosts::finish_run() { runs_.fetch_add(1, std::memory_order_release); }

// By how much the prices in use are wrong, in the time of a run: the sum of |measured - predicted|
// over the sum of predicted, both by the number of launches. Errors of opposite signs do not
// cancel: a plan rests on comparisons between operations, which a common factor does not change but
// contrary errors do.
double MeasuredCosts::drift_locked() const {
  const CostModel& model = models_.empty() ? *base_ : *models_.back();
  double difference = 0, predicted = 0;
  for (const ir::Instruction* instruction : order_) {
    const Entry& entry = index_.at(instruction);
    const double expected = model.seconds(*instruction);
    const auto launches = static_cast<double>(entry.launches);
    difference += launches * std::fabs(seconds_of(entry) - expected);
    predicted += launches * expected;
  }
  for (const Transfers& link : links_) {
    const double rate = link.published_rate > 0 ? link.published_rate : link.assumed_rate;
    if (!(rate > 0) || link.count == 0) continue;
    const auto count = static_cast<double>(link.count);
    const double expected = link.latency + link.bytes / rate;
    difference += count * std::fabs(link.seconds - expected);
    predicted += count * expected;
  }
  return predicted > 0 ? difference / predicted : 0;
}

double MeasuredCosts::drift() const {
  const std::lock_guard lock(mutex_);
  return drift_locked();
}

bool MeasuredCosts::contradict_base() const {
  constexpr std::int64_t kLeastRuns = 3;
  constexpr double kLeastSeconds = 1e-3, kFasterThan = 0.5;
  if (runs() < kLeastRuns) return false;
  const std::lock_guard lock(mutex_);
  double measured = 0, predicted = 0;
  for (const ir::Instruction* instruction : order_) {
    if (!does_compute(cost_class(*instruction))) continue;
    const Entry& entry = index_.at(instruction);
    const auto launches = static_cast<double>(entry.launches);
    measured += launches * seconds_of(entry);
    predicted += launches * base_->seconds(*instruction);
  }
  return predicted >= kLeastSeconds && measured < kFasterThan * predicted;
}

MeasuredCostModel::Measurements MeasuredCosts::measurements_locked() const {
  MeasuredCostModel::Measurements made;
  std::array<double, kCostClasses> measured{}, predicted{};
  double all_measured = 0, all_predicted = 0;
  for (const ir::Instruction* instruction : order_) {
    const Entry& entry = index_.at(instruction);
    const double seconds = seconds_of(entry);
    made.times[instruction] = {seconds, entry.last().missed_bytes, missed_byte_seconds(entry)};
    const auto kind = static_cast<std::size_t>(cost_class(*instruction));
    const auto launches = static_cast<double>(entry.launches);
    measured[kind] += launches * seconds;
    predicted[kind] += launches * base_->seconds(*instruction);
    all_measured += launches * seconds;
    all_predicted += launches * base_->seconds(*instruction);
  }
  const double overall = ratio_of(all_measured, all_predicted, 1);
  for (std::size_t kind = 0; kind < made.class_ratio.size(); ++kind) {
    made.class_ratio[kind] = ratio_of(measured[kind], predicted[kind], overall);
  }
  made.encode_ratio = ratio_of(encode_seconds_, encode_predicted_, overall);
  made.decode_ratio = ratio_of(decode_seconds_, decode_predicted_, overall);
  return made;
}

double MeasuredCosts::seconds_of(const Plan& plan, const PlanOptions& options) const {
  PlanOptions measured = options;
  std::unique_ptr<const CostModel> model;
  {
    const std::lock_guard lock(mutex_);
    set_rates(measured, [](const Transfers& sum) { return sum.seconds > 0 ? sum.rate() : 0.0; });
    model = std::make_unique<MeasuredCostModel>(*base_, measurements_locked(), 0);
  }
  Plan priced = plan;
  price_plan(priced, *model, measured, cache_.bytes);
  return priced.predicted_seconds;
}

// New prices mean a new plan, which costs seconds in the background. So prices are looked at after
// 2, 4, 8, ... runs only, and published only if they are off by more than `share`: the number of
// looks grows with the logarithm of the runs, and a steady program settles.
bool MeasuredCosts::update(double share) {
  if (!(share > 0)) return false;
  if (runs_.load(std::memory_order_acquire) < next_runs_.load(std::memory_order_relaxed)) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  const std::int64_t runs = runs_.load(std::memory_order_acquire);
  if (runs < next_runs_.load(std::memory_order_relaxed)) return false;
  next_runs_.store(2 * runs, std::memory_order_relaxed);
  if (!(drift_locked() > share)) return false;
  for (Transfers& link : links_) {
    if (link.seconds > 0) link.published_rate = link.rate();
  }
  const std::uint64_t version = version_.load(std::memory_order_relaxed) + 1;
  models_.push_back(std::make_unique<MeasuredCostModel>(*base_, measurements_locked(), version));
  version_.store(version, std::memory_order_release);
  return true;
}

}  // namespace plimsoll::planner
