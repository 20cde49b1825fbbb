// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace plimsoll::buffers {

// Bytes of the host, aligned as buffers are; no limit counts them. Movable.
class HostMemory {
 public:
  // `is_pinned`: of a kind that the device's transfers reach at full speed. RESOURCE_EXHAUSTED
  // where the host has no room.
  static Result<HostMemory> allocate(std::shared_ptr<device::Device> device, std::int64_t bytes,
                                     bool is_pinned);
  HostMemory() = default;
  HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }
  HostMemory& operator=(HostMemory&& other) noexcept;
  ~HostMemory() { let_go(); }

  void* data() const { return data_; }

 private:
  void let_go() noexcept;

  std::shared_ptr<device::Device> device_;  // null: of no device's kind
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace plimsoll::buffers
