// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

namespace plimsoll::examples::serve {

// Host memory for bodies of requests and responses of all connections together, which the device's
// limit does not count. Thread-safe.
class HostBudget {
 public:
  explicit HostBudget(std::size_t limit) : limit_(limit) {}
  std::size_t limit() const { return limit_; }
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }

  // Bytes of it, given back at the end.
  class Lease {
   public:
    Lease() = default;
    explicit Lease(HostBudget& budget) : budget_(&budget) {}
    Lease(Lease&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Lease() {
      if (budget_ != nullptr) budget_->used_ -= bytes_;
    }
    // False, and nothing taken, where the budget has not so many left.
    bool grow(std::size_t bytes) {
      if (budget_ == nullptr) {
        bytes_ += bytes;
        return true;
      }
      std::size_t used = budget_->used_.load();
      do {
        if (bytes > budget_->limit_ || used > budget_->limit_ - bytes) return false;
      } while (!budget_->used_.compare_exchange_weak(used, used + bytes));
      bytes_ += bytes;
      return true;
    }
    // Gives `bytes` of it back, or all but `bytes`.
    void shrink(std::size_t bytes) {
      bytes = std::min(bytes, bytes_);
      bytes_ -= bytes;
      if (budget_ != nullptr) budget_->used_ -= bytes;
    }
    void shrink_to(std::size_t bytes) { shrink(bytes_ - std::min(bytes, bytes_)); }
    // One of the same budget, which holds nothing yet.
    Lease another() const { return budget_ == nullptr ? Lease() : Lease(*budget_); }
    // Adds what another of the same budget holds.
    void take(Lease&& other) { bytes_ += std::exchange(other.bytes_, 0); }
    std::size_t bytes() const { return bytes_; }

   private:
    HostBudget* budget_ = nullptr;  // null: not counted
    std::size_t bytes_ = 0;
  };

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> used_{0};
};

}  // namespace plimsoll::examples::serve
