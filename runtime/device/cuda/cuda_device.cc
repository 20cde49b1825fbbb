// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/cuda_device.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "runtime/device/cuda/cuda_stream.h"

namespace plimsoll::device::cuda {
namespace {

// One table for GPUs, as fusing must not depend on which one it is: about half of what one of the
// data centre does. Its caches give little to the next kernel beside what its memory does.
constexpr KernelSpeeds kSpeeds{.additions_per_second = 10e12,
                               .bytes_per_second = 1e12,
                               .launch_seconds = 3e-6,
                               .cached_bytes = 16 << 20,
                               .cache_speedup = 2.5,
                               .strided_factor = 4,
                               .scattered_read_work = 8};

}  // namespace

Result<std::shared_ptr<CudaDevice>> CudaDevice::create(const Driver& driver, int ordinal,
                                                       Libraries libraries) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto context, Context::create(driver, ordinal));
  PLIMSOLL_ASSIGN_OR_RETURN(auto memory, make_device_memory(context));
  return std::shared_ptr<CudaDevice>(
      new CudaDevice(std::move(context), std::move(memory), std::move(libraries)));
}

std::int64_t CudaDevice::free_bytes() const {
  const auto free = context_->free_bytes();
  return free.ok() ? *free + memory_->kept_bytes() : 0;
}

Properties CudaDevice::properties() const {
  const Facts& facts = context_->facts();
  Properties known;
  known.model = fmt::format("{}, sm_{}, {} multiprocessors, driver {}.{}", facts.model,
                            facts.compute_capability, facts.multiprocessors,
                            facts.driver_version / 1000, facts.driver_version % 1000 / 10);
  if (!libraries_.name.empty()) known.model += ", " + libraries_.name;
  known.near_memory_bytes = std::max<std::int64_t>(facts.cache_bytes, 1);
  known.has_launch_costs = true;
  known.kernel_speeds = kSpeeds;
  return known;
}

Result<void*> CudaDevice::allocate(std::int64_t bytes) {
  PLIMSOLL_RETURN_IF_ERROR(count(Call::allocate));
  return memory_->allocate(bytes);
}

void CudaDevice::deallocate(void* pointer, std::int64_t bytes) {
  memory_->deallocate(pointer, bytes);
}

void CudaDevice::use_small_copies() {
  if (small_copies_ != nullptr) return;
  auto made = SmallCopies::create(context_);
  if (!made.ok()) return;
  small_copies_ = std::move(*made);
  copies_.store(small_copies_.get(), std::memory_order_release);
}

void CudaDevice::release_kept() { memory_->release_kept(); }

Result<void*> CudaDevice::allocate_host(std::int64_t bytes) { return pinned_->allocate(bytes); }

void CudaDevice::deallocate_host(void* pointer, std::int64_t) { pinned_->deallocate(pointer); }

Result<std::unique_ptr<Stream>> CudaDevice::create_stream() { return CudaStream::create(*this); }

Result<std::unique_ptr<Event>> CudaDevice::create_event() { return CudaEvent::create(context_); }

}  // namespace plimsoll::device::cuda
