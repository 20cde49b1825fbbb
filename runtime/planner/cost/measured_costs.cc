// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/measured_costs.h"

#include <algorithm>
#include <utility>

#include "runtime/planner/cost/builtin_costs.h"
#include "runtime/planner/cost/work_signature.h"

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
// Instructions that have not run yet (this plan recomputes what the last one kept, or is of another
// form) take what others took that do the same work; where none did, the builtin price times what
// their class was off by: if all dots measured took 1.3 times their prediction, so will this one.

namespace plimsoll::planner {
const Measurements::Time* MeasuredCostModel::measured(const ir::Instruction& instruction) const {
  const auto own = measurements_->times.find(&instruction);
  if (own != measurements_->times.end()) return &own->second;
  if (measurements_->by_work.empty()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto [it, inserted] = alike_.try_emplace(&instruction, nullptr);
  if (inserted) {
    const auto alike = measurements_->by_work.find(work_signature(instruction));
    if (alike != measurements_->by_work.end()) it->second = &alike->second;
  }
  return it->second;
}

double MeasuredCostModel::seconds(const ir::Instruction& instruction) const {
  const Measurements::Time* const time = measured(instruction);
  if (time != nullptr) return time->seconds;
  return base_.seconds(instruction) * measurements_->class_ratio[at(cost_class(instruction))];
}

double MeasuredCostModel::seconds_with(const ir::Instruction& instruction,
                                       double missed_bytes) const {
  const Measurements::Time* const time = measured(instruction);
  if (time == nullptr) return seconds(instruction);
  return std::max(time->seconds + time->missed_byte_seconds * (missed_bytes - time->missed_bytes),
                  Measurements::kLeastWithoutMisses * time->seconds);
}

double MeasuredCostModel::codec_seconds(const Codec& codec, const ir::Shape& shape,
                                        bool encode) const {
  return base_.codec_seconds(codec, shape, encode) *
         (encode ? measurements_->encode_ratio : measurements_->decode_ratio);
}

MeasuredCosts::MeasuredCosts(std::unique_ptr<const CostModel> base,
                             std::shared_ptr<MeasuredTimes> times)
    : base_(std::move(base)), times_(std::move(times)) {}

MeasuredCosts::MeasuredCosts(std::unique_ptr<const CostModel> base, const CacheSpeeds& cache)
    : MeasuredCosts(std::move(base), std::make_shared<MeasuredTimes>(cache)) {}

const CostModel& MeasuredCosts::model() const {
  std::shared_ptr<const Measurements> published = times_->published();
  if (published == nullptr) return *base_;
  const std::lock_guard lock(mutex_);
  // Another thread may have asked for a newer one since.
  if (models_.empty() || models_.back()->version() < published->version) {
    models_.push_back(std::make_unique<MeasuredCostModel>(*base_, std::move(published)));
  }
  return *models_.back();
}

void MeasuredCosts::record(const ir::Instruction& instruction, double seconds,
                           std::int64_t launches, double missed_bytes, bool disturbed) {
  if (!(seconds >= 0) || launches <= 0) return;
  times_->record(*base_, instruction, runs(), seconds, launches, missed_bytes, disturbed);
}

void MeasuredCosts::record_codec(const Codec& codec, const ir::Shape& shape, bool encode,
                                 double seconds) {
  if (!(seconds >= 0)) return;
  times_->record_codec(base_->codec_seconds(codec, shape, encode), encode, seconds);
}

void MeasuredCosts::record_transfer(Link link, double bytes, double seconds,
                                    std::int64_t transfers) {
  if (!(seconds > 0) || !(bytes > 0) || transfers <= 0) return;
  times_->record_transfer(link, bytes, seconds, transfers);
}

void MeasuredCosts::finish_run() { runs_.fetch_add(1, std::memory_order_release); }

bool MeasuredCosts::contradict_base() const {
  constexpr std::int64_t kLeastRuns = 3;
  constexpr double kLeastSeconds = 1e-3, kFasterThan = 0.5;
  if (runs() < kLeastRuns) return false;
  const MeasuredTimes::Products products = times_->products(*base_);
  return products.predicted >= kLeastSeconds &&
         products.measured < kFasterThan * products.predicted;
}

double MeasuredCosts::seconds_of(const Plan& plan, const PlanOptions& options) const {
  PlanOptions measured = options;
  times_->apply_links(measured);
  const MeasuredCostModel model(*base_, std::make_shared<const Measurements>(times_->now()));
  Plan priced = plan;
  price_plan(priced, model, measured, cache().bytes);
  return priced.predicted_seconds;
}

// New prices mean a new plan, which costs seconds in the background. So prices are looked at after
// 2, 4, 8, ... runs only, and published only if they are off by more than `share`: the number of
// looks grows with the logarithm of the runs, and a steady program settles.
bool MeasuredCosts::update(double share) {
  if (!(share > 0)) return false;
  std::int64_t due = next_runs_.load(std::memory_order_relaxed);
  const std::int64_t runs = this->runs();
  // One of several threads looks.
  if (runs < due || !next_runs_.compare_exchange_strong(due, 2 * runs, std::memory_order_relaxed)) {
    return false;
  }
  if (!(drift() > share)) return false;
  times_->publish();
  return true;
}

}  // namespace plimsoll::planner
