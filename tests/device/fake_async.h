// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/device/device.h"

namespace plimsoll::device {

// A device that is as unlike the host as one can be that runs the host's kernels, for tests:
//
// - Its addresses are such that the host can neither read nor write there: whoever does gets a
//   SIGSEGV. What lies behind them is mapped elsewhere; copies and launches translate.
// - Copies are the only way in and out. One that says the wrong direction is INTERNAL, as is a
//   kernel that is given a host pointer.
// - New memory begins with kFill (a MiB of it), memory given back is gone: late work that touches
// it
//   crashes.
// - Streams run their work later, on a thread each, out of step with each other.
class FakeAsyncDevice final : public Device {
 public:
  static constexpr std::byte kFill{0xA5};

  // For so many bytes at a time. `has_launch_costs`: as Properties say it.
  explicit FakeAsyncDevice(std::int64_t bytes, bool has_launch_costs = false);
  ~FakeAsyncDevice() override;

  std::string_view name() const override { return "fake_async"; }
  std::int64_t total_bytes() const override { return bytes_; }
  std::int64_t free_bytes() const override { return bytes_; }
  Properties properties() const override;
  Result<void*> allocate(std::int64_t bytes) override;
  void deallocate(void* pointer, std::int64_t bytes) override;
  Result<void*> allocate_host(std::int64_t bytes) override;
  void deallocate_host(void* pointer, std::int64_t bytes) override;
  Result<std::unique_ptr<Stream>> create_stream() override;
  Result<std::unique_ptr<Event>> create_event() override;

  // Given out and not given back.
  std::int64_t allocations() const;

  // Whether `pointer` is one of the device's addresses, and where what it stands for is mapped.
  bool is_device(const void* pointer) const;
  std::byte* mapped(const void* pointer) const;

 private:
  const std::int64_t bytes_;
  const bool has_launch_costs_;
  std::byte* addresses_ = nullptr;  // nothing is mapped there
  std::byte* memory_ = nullptr;     // as many bytes; what is given out can be read and written
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::int64_t> free_;  // begin and end
  std::int64_t used_bytes_ = 0, allocations_ = 0;
};

// The one that PLIMSOLL_DEVICE=fake_async means in programs that call this first; never freed.
const std::shared_ptr<FakeAsyncDevice>& fake_async_device();
Status register_fake_async();

}  // namespace plimsoll::device
