// SPDX-License-Identifier: Apache-2.0
#include "runtime/buffers/host_memory.h"

#include "runtime/base/alignment.h"

namespace plimsoll::buffers {

Result<HostMemory> HostMemory::allocate(std::shared_ptr<device::Device> device,
                                        std::int64_t bytes) {
  HostMemory made;
  made.bytes_ = aligned_bytes(bytes);
  PLIMSOLL_ASSIGN_OR_RETURN(made.data_, device->allocate_host(made.bytes_));
  made.device_ = std::move(device);
  return made;
}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  if (this == &other) return *this;
  let_go();
  device_ = std::move(other.device_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void HostMemory::let_go() noexcept {
  if (device_ != nullptr) device_->deallocate_host(data_, bytes_);
  device_ = nullptr;
}

}  // namespace plimsoll::buffers
