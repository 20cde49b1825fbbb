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
                        void* near, std::int64_t bytes, bool synchronous) {
  memory::Tier* const tier = tiers_[space].get();
  memory::TierBlock* const block = blocks_[space].get();
  if (tier == nullptr || block == nullptr) return internal_error("a transfer without a tier");
  memory::TransferEngine& engine = out ? tier->out() : tier->in();
  const auto move = [=](device::Stream& stream) {
    return out ? block->store(offset, near, bytes, stream)
               : block->load(offset, near, bytes, stream);
  };
  if (synchronous) {
    if (block->data() == nullptr) return internal_error("a synchronous copy of what is elsewhere");
    std::byte* const far = block->data() + offset;
    return engine.issue(bytes, [&] {
      return out ? stream_.copy(far, near, bytes, device::CopyKind::device_to_host)
                 : stream_.copy(near, far, bytes, device::CopyKind::host_to_device);
    });
  }
  PLIMSOLL_ASSIGN_OR_RETURN(std::shared_ptr<device::Event> ready, device_.create_event());
  PLIMSOLL_RETURN_IF_ERROR(stream_.record(*ready));
  if (by_streams_ && space == MemorySpace::host) {
    PLIMSOLL_ASSIGN_OR_RETURN(device::Stream* const copies, stream_of(out));
    PLIMSOLL_ASSIGN_OR_RETURN(std::shared_ptr<device::Event> ended, device_.create_event());
    events_.push_back(ready);
    events_.push_back(ended);
    PLIMSOLL_RETURN_IF_ERROR(engine.issue(bytes, [&]() -> Status {
      PLIMSOLL_RETURN_IF_ERROR(copies->wait(*ready));
      PLIMSOLL_RETURN_IF_ERROR(move(*copies));
      return copies->record(*ended);
    }));
    open_.push_back({key, &engine, nullptr, std::move(ended)});
    return ok_status();
  }
  auto transfer = engine.enqueue(bytes, [=](device::Stream& stream) -> Status {
    PLIMSOLL_RETURN_IF_ERROR(stream.wait(*ready));
    return move(stream);
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
  if (open.transfer == nullptr) return stream_.wait(*open.ended);
  Status status = open.engine->wait(*open.transfer);
  if (seconds != nullptr) *seconds = open.transfer->seconds();
  if (started != nullptr) *started = open.transfer->started();
  return status;
}

Status Transfers::wait_all() {
  for (const Open& open : open_) {
    if (open.transfer != nullptr) (void)open.engine->wait(*open.transfer);
  }
  open_.clear();
  Status status;
  for (const auto* stream : {&out_, &in_}) {
    if (*stream == nullptr) continue;
    const Status ended = (*stream)->synchronize();
    if (status.ok()) status = ended;
  }
  return status;
}

Result<device::Stream*> Transfers::stream_of(bool out) {
  std::unique_ptr<device::Stream>& stream = out ? out_ : in_;
  if (stream == nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(stream, device_.create_stream());
  }
  return stream.get();
}

}  // namespace plimsoll::executor
