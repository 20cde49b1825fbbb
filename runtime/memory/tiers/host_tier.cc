// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/tiers/host_tier.h"

#include <algorithm>
#include <utility>

#include "runtime/base/one_thread.h"

namespace plimsoll::memory {
namespace {

constexpr std::int64_t kMeasuredBytes = std::int64_t{64} << 20;

}  // namespace

class HostTier::Block final : public TierBlock {
 public:
  Block(std::shared_ptr<HostTier> tier, void* data, std::int64_t bytes)
      : tier_(std::move(tier)), data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  ~Block() override {
    const std::lock_guard lock(tier_->mutex());
    tier_->give_back(bytes_);
    tier_->drop_kept();
    tier_->kept_ = data_;
    tier_->kept_bytes_ = bytes_;
  }
  Status store(std::int64_t offset, const void* from, std::int64_t bytes,
               device::Stream& stream) override {
    const OneThread alone;  // the pool is the kernels'
    return stream.copy(data_ + offset, from, bytes, device::CopyKind::device_to_host);
  }
  Status load(std::int64_t offset, void* to, std::int64_t bytes, device::Stream& stream) override {
    const OneThread alone;
    return stream.copy(to, data_ + offset, bytes, device::CopyKind::host_to_device);
  }
  std::byte* data() override { return data_; }

 private:
  const std::shared_ptr<HostTier> tier_;
  std::byte* const data_;
  const std::int64_t bytes_;
};

std::shared_ptr<HostTier> HostTier::create(std::shared_ptr<device::Device> device,
                                           std::int64_t limit_bytes) {
  return std::shared_ptr<HostTier>(new HostTier(std::move(device), limit_bytes));
}

HostTier::HostTier(std::shared_ptr<device::Device> device, std::int64_t limit_bytes)
    : Tier("host memory", limit_bytes, std::move(device)) {}

HostTier::~HostTier() { drop_kept(); }

void HostTier::drop_kept() {
  if (kept_ != nullptr) device()->deallocate_host(kept_, kept_bytes_);
  kept_ = nullptr;
  kept_bytes_ = 0;
}

Result<std::unique_ptr<TierBlock>> HostTier::allocate_block(std::int64_t bytes) {
  void* data = nullptr;
  if (kept_ != nullptr && kept_bytes_ == bytes) {
    data = std::exchange(kept_, nullptr);
    kept_bytes_ = 0;
  } else {
    if (kept_bytes_ > limit_bytes() - used_bytes() - bytes) drop_kept();
    PLIMSOLL_ASSIGN_OR_RETURN(data, device()->allocate_host(bytes));
  }
  auto self = std::static_pointer_cast<HostTier>(shared_from_this());
  return std::unique_ptr<TierBlock>(std::make_unique<Block>(std::move(self), data, bytes));
}

// On a tier of its own: this one may be full.
Result<LinkSpeed> HostTier::measure() {
  const std::int64_t bytes = std::min(kMeasuredBytes, limit_bytes());
  return time_transfers(*create(device(), bytes), *device(), bytes);
}

}  // namespace plimsoll::memory
