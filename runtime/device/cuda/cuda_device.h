// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/device/cuda/context.h"
#include "runtime/device/cuda/device_memory.h"
#include "runtime/device/cuda/libraries/libraries.h"
#include "runtime/device/cuda/pinned_memory.h"
#include "runtime/device/cuda/small_copies.h"
#include "runtime/device/device.h"
#include "runtime/device/shared_device.h"

namespace plimsoll::device::cuda {

// One of NVIDIA's GPUs, by its driver. All of a process that use it share its primary context, and
// may go on using it for themselves.
class CudaDevice final : public SharedDevice {
 public:
  // The driver must outlive it, and so must the libraries that kernels may be computed with.
  // NOT_FOUND for an ordinal that it does not show.
  static Result<std::shared_ptr<CudaDevice>> create(const Driver& driver, int ordinal,
                                                    Libraries libraries = {});

  std::string_view name() const override { return context_->name(); }
  // What this process could get at most when it began to use the GPU: not what others had by then,
  // nor what the context itself takes.
  std::int64_t total_bytes() const override { return context_->bytes_at_start(); }
  std::int64_t free_bytes() const override;
  std::int64_t overhead_bytes() const override { return context_->overhead_bytes(); }
  Properties properties() const override;
  Result<void*> allocate(std::int64_t bytes) override;
  void deallocate(void* pointer, std::int64_t bytes) override;
  void release_kept() override;
  Result<void*> allocate_host(std::int64_t bytes) override;
  void deallocate_host(void* pointer, std::int64_t bytes) override;
  Result<std::unique_ptr<Stream>> create_stream() override;
  Result<std::unique_ptr<Event>> create_event() override;
  Status wait_for_all() override { return context_->call(&Driver::context_synchronize); }

  const std::shared_ptr<const Context>& context() const { return context_; }
  const Facts& facts() const { return context_->facts(); }
  const Libraries& libraries() const { return libraries_; }
  PinnedMemory& pinned() { return *pinned_; }
  // From now on small copies in graphs are a kernel's, whose code is loaded here, where the driver
  // takes it. For one thread at a time.
  void use_small_copies();
  // Null: they are the driver's.
  const SmallCopies* small_copies() const { return copies_.load(std::memory_order_acquire); }
  const DeviceMemory& memory() const { return *memory_; }

 private:
  CudaDevice(std::shared_ptr<const Context> context, std::unique_ptr<DeviceMemory> memory,
             Libraries libraries)
      : context_(context),
        memory_(std::move(memory)),
        pinned_(std::make_unique<PinnedMemory>(std::move(context))),
        libraries_(std::move(libraries)) {}

  const std::shared_ptr<const Context> context_;
  const std::unique_ptr<DeviceMemory> memory_;
  const std::unique_ptr<PinnedMemory> pinned_;
  const Libraries libraries_;
  std::shared_ptr<const SmallCopies> small_copies_;
  std::atomic<const SmallCopies*> copies_{nullptr};  // small_copies_, for any thread
};

}  // namespace plimsoll::device::cuda
