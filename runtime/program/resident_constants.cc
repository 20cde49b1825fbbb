// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/resident_constants.h"

#include <algorithm>

namespace plimsoll::executor {

ResidentConstants::~ResidentConstants() {
  for (const auto& budget : budgets_) {
    if (const auto there = budget.lock()) there->forget(key());
  }
}

void ResidentConstants::note(memory::Budget& budget) const {
  const std::lock_guard lock(mutex_);
  std::erase_if(budgets_, [](const auto& known) { return known.expired(); });
  const bool is_known = std::any_of(budgets_.begin(), budgets_.end(), [&](const auto& known) {
    return known.lock().get() == &budget;
  });
  if (!is_known) budgets_.push_back(budget.weak_from_this());
}

}  // namespace plimsoll::executor
