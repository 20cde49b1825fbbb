// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/tiers/tier.h"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "runtime/base/alignment.h"

namespace plimsoll::memory {
namespace {

// Measured rates vary by some percent; plans should not.
double rounded(double rate) { return std::exp2(std::round(std::log2(rate) * 4) / 4); }

// Writes every byte, so that none of it is new to the machine later.
Status touch(device::Device& device, void* memory, std::int64_t bytes) {
  PLIMSOLL_ASSIGN_OR_RETURN(const auto stream, device.create_stream());
  const std::vector<char> ones(static_cast<std::size_t>(std::min(bytes, std::int64_t{1} << 20)), 1);
  const auto piece = static_cast<std::int64_t>(ones.size());
  for (std::int64_t at = 0; at < bytes; at += piece) {
    PLIMSOLL_RETURN_IF_ERROR(stream->copy(static_cast<char*>(memory) + at, ones.data(),
                                          std::min(piece, bytes - at),
                                          device::CopyKind::host_to_device));
  }
  return stream->synchronize();
}

}  // namespace

Tier::Tier(std::string name, std::int64_t limit_bytes, std::shared_ptr<device::Device> device)
    : name_(std::move(name)),
      device_(device),
      out_("moving to " + name_, device),
      in_("moving from " + name_, device) {
  statistics_.limit_bytes = limit_bytes;
}

TierReservation& TierReservation::operator=(TierReservation&& other) noexcept {
  if (this == &other) return *this;
  close();
  tier_ = std::move(other.tier_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void TierReservation::close() {
  if (tier_ == nullptr) return;
  {
    const std::lock_guard lock(tier_->mutex_);
    tier_->statistics_.reserved_bytes -= std::exchange(bytes_, 0);
  }
  tier_ = nullptr;
}

Status Tier::check_available(std::int64_t bytes, std::string_view what) {
  const std::int64_t taken = statistics_.used_bytes + statistics_.reserved_bytes;
  const auto refusal = [&](const std::string& why) {
    return Status::resource_exhausted(
        fmt::format("allocating {} bytes of {} for {}: {}", bytes, name_, what, why),
        {statistics_.limit_bytes, taken + bytes, std::string(what)});
  };
  if (fail_in_ > 0 && --fail_in_ == 0) return refusal("failure injected by the test hook");
  if (bytes <= statistics_.limit_bytes - taken) return ok_status();
  return refusal(
      fmt::format("{} of {} bytes are in use (raise its limit)", taken, statistics_.limit_bytes));
}

Result<std::unique_ptr<TierBlock>> Tier::take(std::int64_t bytes, std::string_view what) {
  auto block = allocate_block(bytes);
  if (!block.ok()) return block.status().with_context(what);
  statistics_.used_bytes += bytes;
  statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.used_bytes);
  ++statistics_.allocations;
  return block;
}

Result<std::unique_ptr<TierBlock>> Tier::allocate(std::int64_t bytes, std::string_view what) {
  const std::int64_t rounded = aligned_bytes(bytes);
  const std::lock_guard lock(mutex_);
  PLIMSOLL_RETURN_IF_ERROR(check_available(rounded, what));
  return take(rounded, what);
}

Result<TierReservation> Tier::reserve(std::int64_t bytes, std::string_view what) {
  TierReservation reservation;
  const std::int64_t rounded = aligned_bytes(bytes);
  const std::lock_guard lock(mutex_);
  PLIMSOLL_RETURN_IF_ERROR(check_available(rounded, what));
  reservation.tier_ = shared_from_this();
  reservation.bytes_ = rounded;
  statistics_.reserved_bytes += rounded;
  return reservation;
}

Result<std::unique_ptr<TierBlock>> Tier::allocate(std::int64_t bytes, std::string_view what,
                                                  TierReservation& from) {
  const std::int64_t rounded = aligned_bytes(bytes);
  const std::lock_guard lock(mutex_);
  if (rounded > from.bytes_) {
    return internal_error(fmt::format("allocating {} bytes of {} for {}: {} are reserved", rounded,
                                      name_, what, from.bytes_));
  }
  auto block = take(rounded, what);
  if (!block.ok()) return block;
  from.bytes_ -= rounded;
  statistics_.reserved_bytes -= rounded;
  return block;
}

void Tier::give_back(std::int64_t bytes) { statistics_.used_bytes -= bytes; }

TierStatistics Tier::statistics() const {
  TierStatistics result;
  {
    const std::lock_guard lock(mutex_);
    result = statistics_;
  }
  result.staging_bytes = staging_bytes_.load();
  result.out = out_.statistics();
  result.in = in_.statistics();
  return result;
}

void Tier::reset_peak() {
  const std::lock_guard lock(mutex_);
  statistics_.peak_bytes = statistics_.used_bytes;
}

Result<LinkSpeed> Tier::speed() {
  const std::lock_guard lock(speed_mutex_);
  if (speed_.out_bytes_per_second <= 0) {
    PLIMSOLL_ASSIGN_OR_RETURN(speed_, measure());
  }
  return speed_;
}

void Tier::set_speed(const LinkSpeed& speed) {
  const std::lock_guard lock(speed_mutex_);
  speed_ = speed;
}

std::int64_t Tier::fail_allocation(std::int64_t n) {
  const std::lock_guard lock(mutex_);
  return std::exchange(fail_in_, n);
}

Result<LinkSpeed> time_transfers(Tier& tier, device::Device& device, std::int64_t bytes) {
  constexpr int kRepeats = 3;
  PLIMSOLL_ASSIGN_OR_RETURN(void* const memory, device.allocate(bytes));
  const std::shared_ptr<void> near(memory, [&](void* p) { device.deallocate(p, bytes); });
  PLIMSOLL_RETURN_IF_ERROR(touch(device, memory, bytes));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto block, tier.allocate(bytes, "measuring the link"));
  const auto seconds = [&](bool out, std::int64_t size) -> Result<double> {
    // The first one also pays for fresh memory: the best of all counts.
    double best = 1e9;
    for (int i = 0; i < kRepeats; ++i) {
      TransferEngine& engine = out ? tier.out() : tier.in();
      const auto start = std::chrono::steady_clock::now();
      const auto transfer = engine.enqueue(size, [&](device::Stream& stream) {
        return out ? block->store(0, memory, size, stream) : block->load(0, memory, size, stream);
      });
      PLIMSOLL_RETURN_IF_ERROR(engine.wait(*transfer));
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      best = std::min(best, elapsed.count());
    }
    return best;
  };
  PLIMSOLL_ASSIGN_OR_RETURN(const double out, seconds(true, bytes));
  PLIMSOLL_ASSIGN_OR_RETURN(const double in, seconds(false, bytes));
  PLIMSOLL_ASSIGN_OR_RETURN(const double latency, seconds(true, device::kBufferAlignment));
  const auto rate = [&](double total) {
    return rounded(static_cast<double>(bytes) / std::max(total - latency, 1e-9));
  };
  return LinkSpeed{
      .out_bytes_per_second = rate(out),
      .in_bytes_per_second = rate(in),
      .latency_seconds = rounded(latency),
      .compute_share = device.properties().copy_compute_share,
  };
}

}  // namespace plimsoll::memory
