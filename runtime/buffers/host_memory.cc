// SPDX-License-Identifier: Apache-2.0
#include "runtime/buffers/host_memory.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "runtime/base/alignment.h"
#include "runtime/base/index.h"

namespace plimsoll::buffers {

Result<HostMemory> HostMemory::allocate(std::shared_ptr<device::Device> device, std::int64_t bytes,
                                        bool is_pinned) {
  HostMemory made;
  made.bytes_ = aligned_bytes(bytes);
  if (!is_pinned) {
    const std::size_t size = at(std::max(made.bytes_, kBufferAlignment));
    made.data_ = std::aligned_alloc(kBufferAlignment, size);
    if (made.data_ != nullptr) return made;
    return Status(StatusCode::resource_exhausted,
                  "the host has no room for " + std::to_string(bytes) + " bytes");
  }
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
  if (device_ != nullptr) {
    device_->deallocate_host(data_, bytes_);
  } else {
    std::free(data_);
  }
  device_ = nullptr;
  data_ = nullptr;
}

}  // namespace plimsoll::buffers
