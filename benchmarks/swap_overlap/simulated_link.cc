// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/swap_overlap/simulated_link.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "runtime/device/cpu/parallel.h"

namespace plimsoll::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

// An engine of its own waits for no processor: where the system lets us, the thread takes one the
// moment it wakes. By default it would also add up to 50 us to a sleep.
bool take_precedence() {
  prctl(PR_SET_TIMERSLACK, 1000);
  sched_param parameters{};
  parameters.sched_priority = 2;  // above the kernels, should they run at 1 (chrt -r 1)
  return sched_setscheduler(0, SCHED_FIFO, &parameters) == 0;
}

// Sleeping rather than spinning: the processor is the kernels' again.
void sleep_until(Clock::time_point time) {
  [[maybe_unused]] thread_local const bool precedes = take_precedence();
  std::this_thread::sleep_until(time);
}

}  // namespace

class SimulatedLink::Block final : public memory::TierBlock {
 public:
  Block(std::shared_ptr<SimulatedLink> link, std::unique_ptr<memory::TierBlock> block,
        std::int64_t bytes)
      : link_(std::move(link)), block_(std::move(block)), bytes_(bytes) {}
  ~Block() override {
    block_.reset();
    const std::lock_guard lock(link_->mutex());
    link_->give_back(bytes_);
  }
  Status store(std::int64_t offset, const void* from, std::int64_t bytes,
               device::Stream& stream) override {
    const Clock::time_point end = end_of(bytes, link_->asked_.out_bytes_per_second);
    PLIMSOLL_RETURN_IF_ERROR(block_->store(offset, from, bytes, stream));
    sleep_until(end);
    return ok_status();
  }
  Status load(std::int64_t offset, void* to, std::int64_t bytes, device::Stream& stream) override {
    const Clock::time_point end = end_of(bytes, link_->asked_.in_bytes_per_second);
    PLIMSOLL_RETURN_IF_ERROR(block_->load(offset, to, bytes, stream));
    sleep_until(end);
    return ok_status();
  }

 private:
  Clock::time_point end_of(std::int64_t bytes, double bytes_per_second) const {
    const std::chrono::duration<double> seconds(link_->asked_.latency_seconds +
                                                static_cast<double>(bytes) / bytes_per_second);
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds);
  }

  const std::shared_ptr<SimulatedLink> link_;
  std::unique_ptr<memory::TierBlock> block_;
  const std::int64_t bytes_;
};

Result<std::shared_ptr<SimulatedLink>> SimulatedLink::create(std::shared_ptr<device::Device> device,
                                                             std::int64_t limit_bytes,
                                                             double bytes_per_second,
                                                             double latency_seconds) {
  constexpr std::int64_t kMeasured = std::int64_t{64} << 20;
  PLIMSOLL_ASSIGN_OR_RETURN(const memory::LinkSpeed copy,
                            memory::HostTier::create(device, kMeasured)->measure());
  memory::LinkSpeed asked{bytes_per_second, bytes_per_second, latency_seconds, 0};
  // The kernels lose a processor while it copies, unless there is one that they do not use.
  if (device::thread_count() >= static_cast<int>(std::thread::hardware_concurrency())) {
    const double copied =
        bytes_per_second / std::min(copy.out_bytes_per_second, copy.in_bytes_per_second);
    asked.compute_share = std::min(copied, 1.0) * device->properties().copy_compute_share;
  }
  std::shared_ptr<SimulatedLink> link(new SimulatedLink(std::move(device), limit_bytes, asked));
  link->set_speed(asked);
  return link;
}

SimulatedLink::SimulatedLink(std::shared_ptr<device::Device> device, std::int64_t limit_bytes,
                             memory::LinkSpeed asked)
    : Tier("host memory by a simulated link", limit_bytes, device),
      asked_(asked),
      memory_(memory::HostTier::create(std::move(device), limit_bytes)) {}

Result<memory::LinkSpeed> SimulatedLink::measure() { return asked_; }

Result<std::unique_ptr<memory::TierBlock>> SimulatedLink::allocate_block(std::int64_t bytes) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto block, memory_->allocate(bytes, "the simulated link"));
  auto self = std::static_pointer_cast<SimulatedLink>(shared_from_this());
  return std::unique_ptr<memory::TierBlock>(
      std::make_unique<Block>(std::move(self), std::move(block), bytes));
}

}  // namespace plimsoll::benchmarks
