// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/measured_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/planner/cost/work_signature.h"

namespace plimsoll::planner {
namespace {

// Share of a new measurement in the running average: about the last five count.
constexpr double kNewest = 0.3;

// Missed bytes of a launch that tell what a byte takes, and not what launches do.
constexpr double kEnoughMissed = 1 << 18;

bool does_compute(CostClass kind) {
  return kind == CostClass::contraction || kind == CostClass::convolution;
}

double ratio_of(double measured, double predicted, double otherwise) {
  return predicted > 0 && measured > 0 ? measured / predicted : otherwise;
}

}  // namespace

MeasuredTimes::MeasuredTimes(const CacheSpeeds& cache)
    : cache_(cache), least_seconds_per_missed_byte_(std::numeric_limits<double>::infinity()) {}

// Of two the smaller: the first launch also pays for memory that was never touched.
double MeasuredTimes::Entry::seconds(double missed_byte_seconds) const {
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
double MeasuredTimes::missed_byte_seconds(const Entry& entry) const {
  constexpr double kLessRegular = 3, kMost = 1 - Measurements::kLeastWithoutMisses;
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
double MeasuredTimes::Transfers::rate() const {
  constexpr double kLeastShare = 0.2;  // of a transfer, that its bytes take
  return bytes / std::max(seconds - latency, kLeastShare * seconds);
}

void MeasuredTimes::record(const CostModel& base, const ir::Instruction& instruction,
                           std::int64_t run, double seconds, std::int64_t launches,
                           double missed_bytes, bool disturbed) {
  const std::lock_guard lock(mutex_);
  const auto [it, inserted] = index_.try_emplace(&instruction);
  Entry& entry = it->second;
  if (inserted) {
    order_.push_back(&instruction);
    entry.base = &base;
    entry.kind = cost_class(instruction);
    entry.predicted = base.seconds(instruction);
    entry.work = work_signature(instruction);
    entry.is_disturbed = disturbed;
  }
  if (disturbed && !entry.is_disturbed) return;
  if (entry.is_disturbed && !disturbed) {
    entry.is_disturbed = false;
    entry.forget_samples();
  }
  // First and later executions of one run come one after the other, and are one sample: their mean.
  // As two they would be two kinds, of which a median takes one.
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

void MeasuredTimes::record_codec(double predicted, bool encode, double seconds) {
  const std::lock_guard lock(mutex_);
  double& sum = encode ? encode_seconds_ : decode_seconds_;
  double& total = encode ? encode_predicted_ : decode_predicted_;
  sum += kNewest * (seconds - sum);
  total += kNewest * (predicted - total);
}

void MeasuredTimes::record_transfer(Link link, double bytes, double seconds,
                                    std::int64_t transfers) {
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

void MeasuredTimes::assume_tiers(const PerTier<Tier>& tiers) {
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

void MeasuredTimes::apply_published_links(PlanOptions& options) const {
  const std::lock_guard lock(mutex_);
  set_rates(options, [](const Transfers& sum) { return sum.published_rate; });
}

void MeasuredTimes::apply_links(PlanOptions& options) const {
  const std::lock_guard lock(mutex_);
  set_rates(options, [](const Transfers& sum) { return sum.seconds > 0 ? sum.rate() : 0.0; });
}

template <typename Measured>
void MeasuredTimes::set_rates(PlanOptions& options, Measured&& measured) const {
  for (const MemorySpace tier : kTiers) {
    for (const bool out : {false, true}) {
      for (const bool synchronous : {false, true}) {
        const double rate = measured(links_[at(link_of(tier, out, synchronous))]);
        if (rate > 0) options[tier].*rate_of(out, synchronous) = rate;
      }
    }
  }
}

// By how much the prices in use are wrong, in the time of a run: the sum of |measured - predicted|
// over the sum of predicted, both by the number of launches. Errors of opposite signs do not
// cancel: a plan rests on comparisons between operations, which a common factor does not change but
// contrary errors do.
double MeasuredTimes::drift(const CostModel& base, const CostModel& model) const {
  const std::lock_guard lock(mutex_);
  double difference = 0, predicted = 0;
  for (const ir::Instruction* instruction : order_) {
    const Entry& entry = index_.at(instruction);
    if (entry.base != &base) continue;
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

MeasuredTimes::Products MeasuredTimes::products(const CostModel& base) const {
  const std::lock_guard lock(mutex_);
  Products sum;
  for (const ir::Instruction* instruction : order_) {
    const Entry& entry = index_.at(instruction);
    if (entry.base != &base || !does_compute(entry.kind)) continue;
    const auto launches = static_cast<double>(entry.launches);
    sum.measured += launches * seconds_of(entry);
    sum.predicted += launches * entry.predicted;
  }
  return sum;
}

Measurements MeasuredTimes::now_locked() const {
  Measurements made;
  std::array<double, kCostClasses> measured{}, predicted{};
  std::unordered_map<std::uint64_t, double> launched;
  double all_measured = 0, all_predicted = 0;
  for (const ir::Instruction* instruction : order_) {
    const Entry& entry = index_.at(instruction);
    const Measurements::Time time{seconds_of(entry), entry.last().missed_bytes,
                                  missed_byte_seconds(entry)};
    made.times[instruction] = time;
    const auto launches = static_cast<double>(entry.launches);
    const auto kind = at(entry.kind);
    measured[kind] += launches * time.seconds;
    predicted[kind] += launches * entry.predicted;
    all_measured += launches * time.seconds;
    all_predicted += launches * entry.predicted;
    double& before = launched[entry.work];
    Measurements::Time& mean = made.by_work[entry.work];
    const auto include = [&](double& of, double next) {
      of = (before * of + launches * next) / (before + launches);
    };
    include(mean.seconds, time.seconds);
    include(mean.missed_bytes, time.missed_bytes);
    include(mean.missed_byte_seconds, time.missed_byte_seconds);
    before += launches;
  }
  const double overall = ratio_of(all_measured, all_predicted, 1);
  for (std::size_t kind = 0; kind < made.class_ratio.size(); ++kind) {
    made.class_ratio[kind] = ratio_of(measured[kind], predicted[kind], overall);
  }
  made.encode_ratio = ratio_of(encode_seconds_, encode_predicted_, overall);
  made.decode_ratio = ratio_of(decode_seconds_, decode_predicted_, overall);
  made.version = version();
  return made;
}

Measurements MeasuredTimes::now() const {
  const std::lock_guard lock(mutex_);
  return now_locked();
}

void MeasuredTimes::publish() {
  const std::lock_guard lock(mutex_);
  for (Transfers& link : links_) {
    if (link.seconds > 0) link.published_rate = link.rate();
  }
  Measurements made = now_locked();
  ++made.version;
  const std::uint64_t version = made.version;
  published_ = std::make_shared<const Measurements>(std::move(made));
  version_.store(version, std::memory_order_release);
}

std::shared_ptr<const Measurements> MeasuredTimes::published() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

}  // namespace plimsoll::planner
