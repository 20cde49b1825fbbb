// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/budget.h"

#include <algorithm>
#include <utility>

#include "runtime/base/alignment.h"

namespace plimsoll::memory {
namespace {

constexpr std::int64_t kSmallestCachedBlock = std::int64_t{256} << 10;
constexpr std::size_t kMostCachedBlocks = 4;

}  // namespace

std::string_view to_string(Tag tag) {
  switch (tag) {
    case Tag::parameters:
      return "parameters";
    case Tag::constants:
      return "constants";
    case Tag::outputs:
      return "outputs";
    case Tag::arena:
      return "arena";
    case Tag::staging:
      return "staging";
  }
  return "?";
}

Allocation::Allocation(Allocation&& other) noexcept { *this = std::move(other); }

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  if (this == &other) return *this;
  if (budget_ != nullptr) budget_->release(data_, bytes_, tag_);
  budget_ = std::move(other.budget_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  tag_ = other.tag_;
  return *this;
}

Allocation::~Allocation() {
  if (budget_ != nullptr) budget_->release(data_, bytes_, tag_);
}

void Allocation::retag(Tag tag) {
  if (budget_ == nullptr || tag == tag_) return;
  const std::lock_guard lock(budget_->mutex_);
  budget_->statistics_.used_by_tag[static_cast<std::size_t>(tag_)] -= bytes_;
  budget_->statistics_.used_by_tag[static_cast<std::size_t>(tag)] += bytes_;
  tag_ = tag;
}

std::shared_ptr<Budget> Budget::create(std::shared_ptr<device::Device> device,
                                       std::int64_t limit_bytes, Tiers tiers) {
  return std::shared_ptr<Budget>(new Budget(std::move(device), limit_bytes, std::move(tiers)));
}

Budget::Budget(std::shared_ptr<device::Device> device, std::int64_t limit_bytes, Tiers tiers)
    : device_(std::move(device)), tiers_(std::move(tiers)) {
  statistics_.limit_bytes = limit_bytes;
}

Budget::~Budget() { trim(statistics_.cached_bytes); }

void Budget::trim(std::int64_t bytes_wanted) {
  while (bytes_wanted > 0 && !cached_.empty()) {
    const Block block = cached_.front();
    cached_.erase(cached_.begin());
    statistics_.cached_bytes -= block.bytes;
    bytes_wanted -= block.bytes;
    device_->deallocate(block.data, block.bytes);
  }
}

Result<Allocation> Budget::allocate(std::int64_t bytes, Tag tag, std::string_view what) {
  const std::int64_t rounded = aligned_bytes(bytes);
  const std::lock_guard lock(mutex_);
  if (fail_in_ > 0 && --fail_in_ == 0) {
    return Status::resource_exhausted("allocating " + std::to_string(rounded) + " bytes for " +
                                          std::string(what) + ": failure injected by the test hook",
                                      {statistics_.limit_bytes, 0, std::string(what)});
  }
  if (rounded > statistics_.limit_bytes - statistics_.used_bytes) {
    return Status::resource_exhausted(
        "allocating " + std::to_string(rounded) + " bytes for " + std::string(what) + ": " +
            std::to_string(statistics_.used_bytes) + " of " +
            std::to_string(statistics_.limit_bytes) +
            " bytes are in use (raise the memory limit or release tensors)",
        {statistics_.limit_bytes, statistics_.used_bytes + rounded, std::string(what)});
  }
  void* data = nullptr;
  const auto cached = std::find_if(cached_.rbegin(), cached_.rend(),
                                   [&](const Block& block) { return block.bytes == rounded; });
  if (cached != cached_.rend()) {
    data = cached->data;
    cached_.erase(std::next(cached).base());
    statistics_.cached_bytes -= rounded;
  } else {
    trim(rounded - (statistics_.limit_bytes - statistics_.used_bytes - statistics_.cached_bytes));
    auto allocated = device_->allocate(rounded);
    if (!allocated.ok()) {
      trim(statistics_.cached_bytes);
      allocated = device_->allocate(rounded);
    }
    if (!allocated.ok()) return allocated.status().with_context(what);
    data = *allocated;
  }
  statistics_.used_bytes += rounded;
  statistics_.used_by_tag[static_cast<std::size_t>(tag)] += rounded;
  ++statistics_.allocations;
  if (statistics_.used_bytes > statistics_.peak_bytes) {
    statistics_.peak_bytes = statistics_.used_bytes;
    statistics_.peak_by_tag = statistics_.used_by_tag;
  }
  Allocation allocation;
  allocation.budget_ = shared_from_this();
  allocation.data_ = data;
  allocation.bytes_ = rounded;
  allocation.tag_ = tag;
  return allocation;
}

void Budget::release(void* data, std::int64_t bytes, Tag tag) {
  const std::lock_guard lock(mutex_);
  statistics_.used_bytes -= bytes;
  statistics_.used_by_tag[static_cast<std::size_t>(tag)] -= bytes;
  // Above the limit (it was lowered) nothing is kept.
  const bool keep =
      bytes >= kSmallestCachedBlock &&
      statistics_.used_bytes + statistics_.cached_bytes + bytes <= statistics_.limit_bytes;
  if (!keep) {
    device_->deallocate(data, bytes);
    return;
  }
  if (cached_.size() == kMostCachedBlocks) trim(1);
  cached_.push_back({data, bytes});
  statistics_.cached_bytes += bytes;
}

Statistics Budget::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void Budget::reset_peak() {
  const std::lock_guard lock(mutex_);
  statistics_.peak_bytes = statistics_.used_bytes;
  statistics_.peak_by_tag = statistics_.used_by_tag;
}

void Budget::set_limit(std::int64_t limit_bytes) {
  const std::lock_guard lock(mutex_);
  statistics_.limit_bytes = limit_bytes;
  trim(statistics_.used_bytes + statistics_.cached_bytes - limit_bytes);
}

std::int64_t Budget::limit() const {
  const std::lock_guard lock(mutex_);
  return statistics_.limit_bytes;
}

std::int64_t Budget::available() const {
  const std::lock_guard lock(mutex_);
  return std::max<std::int64_t>(0, statistics_.limit_bytes - statistics_.used_bytes);
}

void Budget::fail_allocation(std::int64_t n) {
  const std::lock_guard lock(mutex_);
  fail_in_ = n;
}

}  // namespace plimsoll::memory
