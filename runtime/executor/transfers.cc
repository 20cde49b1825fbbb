// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/transfers.h"

#include <fmt/core.h>
#include <algorithm>
#include <utility>

namespace plimsoll::executor {

Result<TierBlocks> take_blocks(const memory::Tiers& tiers, const planner::Plan& plan) {
  TierBlocks blocks;
  const std::string what = "values swapped out by " + plan.computation->name();
  for (const MemorySpace tier : kTiers) {
    const std::int64_t bytes = plan.tier_bytes[tier];
    if (bytes == 0) continue;
    if (tiers[tier] == nullptr) {
      return failed_precondition(
          fmt::format("{}: the plan needs {} bytes of {}, which this budget does not have", what,
                      bytes, tier_info(tier).medium));
    }
    PLIMSOLL_ASSIGN_OR_RETURN(blocks[tier], tiers[tier]->allocate(bytes, what));
  }
  return blocks;
}

Status Transfers::start(const void* key, bool out, MemorySpace space, std::int64_t offset,
                        void* near, std::int64_t bytes) {
  memory::Tier* const tier = tiers_[space].get();
  memory::TierBlock* const block = blocks_[space].get();
  if (tier == nullptr || block == nullptr) return internal_error("a transfer without a tier");
  memory::TransferEngine& engine = out ? tier->out() : tier->in();
  PLIMSOLL_ASSIGN_OR_RETURN(std::shared_ptr<device::Event> ready, device_.create_event());
  PLIMSOLL_RETURN_IF_ERROR(stream_.record(*ready));
  auto transfer = engine.enqueue(bytes, [=](device::Stream& stream) -> Status {
    PLIMSOLL_RETURN_IF_ERROR(stream.wait(*ready));
    return out ? block->store(offset, near, bytes, stream)
               : block->load(offset, near, bytes, stream);
  });
  open_.push_back({key, &engine, std::move(transfer)});
  return ok_status();
}

Status Transfers::wait(const void* key, double* seconds,
                       std::chrono::steady_clock::time_point* started) {
  const auto found =
      std::find_if(open_.begin(), open_.end(), [&](const Open& open) { return open.key == key; });
  if (found == open_.end()) return internal_error("waits for a transfer that was never started");
  const Open open = std::move(*found);
  open_.erase(found);
  Status status = open.engine->wait(*open.transfer);
  if (seconds != nullptr) *seconds = open.transfer->seconds();
  if (started != nullptr) *started = open.transfer->started();
  return status;
}

void Transfers::wait_all() {
  for (const Open& open : open_) (void)open.engine->wait(*open.transfer);
  open_.clear();
}

}  // namespace plimsoll::executor
