// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/memory/budget/budget.h"

namespace plimsoll::executor {

// Constants of a program that stay in device memory between its runs, as long as nobody needs the
// room: under its key in each budget that it runs by. They go with this. Thread-safe.
class ResidentConstants {
 public:
  ResidentConstants() = default;
  ResidentConstants(const ResidentConstants&) = delete;
  ResidentConstants& operator=(const ResidentConstants&) = delete;
  ~ResidentConstants();

  memory::ContentKey key() const { return this; }
  // They are about to be kept there.
  void note(memory::Budget& budget) const;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::weak_ptr<memory::Budget>> budgets_;
};

}  // namespace plimsoll::executor
