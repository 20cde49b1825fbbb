// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/swap_model.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::planner {
namespace {

// So long that nobody wants it; sums of such times are still whole.
constexpr double kMostNanoseconds = 1e13;

double whole_nanoseconds(double seconds) {
  return std::min(kMostNanoseconds, std::round(seconds * 1e9));
}

}  // namespace

SwapModel::SwapModel(const Problem& problem, std::span<const Form> forms,
                     const PerTier<Tier>& tiers, std::int64_t arena_limit)
    : problem_(problem), tiers_(tiers), limit_(arena_limit) {
  first_way_.assign(problem.values.size() + 1, 0);
  PerTier<bool> used;
  for (const Form& form : forms) {
    if (form.kind == RemedyKind::compress) continue;
    const MemorySpace tier = space_of(form.kind);
    ways_.push_back({tier, form.bytes, whole_nanoseconds(form.out.engine_seconds),
                     whole_nanoseconds(form.in.engine_seconds),
                     whole_nanoseconds(form.out.taken_seconds),
                     whole_nanoseconds(form.in.taken_seconds), &form});
    ++first_way_[form.value + 1];
    used[tier] = true;
  }
  for (const ValueId v : problem.values.ids()) first_way_[v + 1] += first_way_[v];
  for (const MemorySpace tier : kTiers) {
    if (used[tier]) used_.push_back(tier);
  }
  for (const Op& op : problem.ops) {
    nanoseconds_.push_back(whole_nanoseconds(op.seconds));
    once_ += nanoseconds_.back();
  }
}

}  // namespace plimsoll::planner
