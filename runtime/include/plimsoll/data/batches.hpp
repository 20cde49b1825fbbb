// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/error.hpp"
#include "plimsoll/random.hpp"

namespace plimsoll::data {

// Cuts 0..count-1 into batches of equal size, in an order that depends on (seed, epoch) alone. What
// doesn't fill a batch at the end of an epoch is left out, so that every step has the same shapes.
class ShuffledBatches {
 public:
  ShuffledBatches(std::int64_t count, std::int64_t batch, std::uint64_t seed)
      : order_(static_cast<std::size_t>(count < 0 ? 0 : count)), batch_(batch), seed_(seed) {
    if (batch <= 0 || batch > count) {
      throw Error(ErrorCode::invalid_argument, "[ShuffledBatches] batch size " +
                                                   std::to_string(batch) + " is not in 1.." +
                                                   std::to_string(count));
    }
    start_epoch(0);
  }

  std::int64_t batches_per_epoch() const { return std::ssize(order_) / batch_; }
  std::int64_t epoch() const { return epoch_; }

  void start_epoch(std::int64_t epoch) {
    epoch_ = epoch;
    next_ = 0;
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    HostRandom random(seed_, static_cast<std::uint64_t>(epoch) + 1);
    for (std::size_t left = order_.size(); left > 1; --left) {
      std::swap(order_[left - 1], order_[static_cast<std::size_t>(random.next_below(left))]);
    }
  }

  // The indices of the next batch, going on to the next epoch after the last one. Valid until the
  // next call.
  std::span<const std::int64_t> next() {
    if (next_ == batches_per_epoch()) start_epoch(epoch_ + 1);
    const std::span<const std::int64_t> all(order_);
    return all.subspan(static_cast<std::size_t>(batch_ * next_++),
                       static_cast<std::size_t>(batch_));
  }

 private:
  std::vector<std::int64_t> order_;
  std::int64_t batch_;
  std::uint64_t seed_;
  std::int64_t epoch_ = 0;
  std::int64_t next_ = 0;
};

}  // namespace plimsoll::data
