// SPDX-License-Identifier: Apache-2.0
// The recording driver's errors, devices, contexts and memory.
#include <cstdlib>
#include <cstring>

#include "tests/device/cuda/recording_driver_impl.h"

namespace plimsoll::device::cuda {

// Errors.

DriverResult RecordingDriver::Impl::get_error_name(DriverResult result, const char** name) {
  switch (result) {
    case invalid_value:
      *name = "CUDA_ERROR_INVALID_VALUE";
      return success;
    case out_of_memory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return success;
    case invalid_ptx:
      *name = "CUDA_ERROR_INVALID_PTX";
      return success;
    case unknown:
      *name = "CUDA_ERROR_UNKNOWN";
      return success;
    default:
      *name = nullptr;
      return invalid_value;
  }
}

DriverResult RecordingDriver::Impl::get_error_string(DriverResult result, const char** text) {
  *text = result == out_of_memory ? "out of memory" : "as the recording driver has it";
  return success;
}

// The driver and its devices.

DriverResult RecordingDriver::Impl::init(unsigned flags) {
  if (flags != 0) return violate(invalid_value, "cuInit: flags");
  is_initialized = true;
  return success;
}

DriverResult RecordingDriver::Impl::driver_get_version(int* version) {
  *version = 12040;
  return success;
}

DriverResult RecordingDriver::Impl::device_get_count(int* count) {
  *count = options.devices;
  return success;
}

DriverResult RecordingDriver::Impl::device_get(DeviceHandle* handle, int ordinal) {
  if (ordinal < 0 || ordinal >= options.devices) return violate(invalid_device, "cuDeviceGet");
  *handle = ordinal;
  return success;
}

DriverResult RecordingDriver::Impl::device_get_name(char* name, int bytes, DeviceHandle handle) {
  if (handle < 0 || handle >= options.devices) return violate(invalid_device, "cuDeviceGetName");
  std::strncpy(name, "Recording GPU", static_cast<std::size_t>(bytes));
  return success;
}

DriverResult RecordingDriver::Impl::device_get_attribute(int* value, DeviceAttribute which,
                                                         DeviceHandle handle) {
  if (handle < 0 || handle >= options.devices) {
    return violate(invalid_device, "cuDeviceGetAttribute");
  }
  switch (which) {
    case DeviceAttribute::max_threads_per_block:
      *value = 1024;
      return success;
    case DeviceAttribute::multiprocessor_count:
      *value = 132;
      return success;
    case DeviceAttribute::memory_clock_rate:
      *value = 2'619'000;
      return success;
    case DeviceAttribute::global_memory_bus_width:
      *value = 5120;
      return success;
    case DeviceAttribute::l2_cache_size:
      *value = 50 << 20;
      return success;
    case DeviceAttribute::max_threads_per_multiprocessor:
      *value = 2048;
      return success;
    case DeviceAttribute::compute_capability_major:
      *value = options.compute_capability / 10;
      return success;
    case DeviceAttribute::compute_capability_minor:
      *value = options.compute_capability % 10;
      return success;
    case DeviceAttribute::max_shared_memory_per_block_optin:
      *value = 227 << 10;
      return success;
    case DeviceAttribute::virtual_memory_management_supported:
      *value = options.maps_memory ? 1 : 0;
      return success;
  }
  return violate(invalid_value, "cuDeviceGetAttribute: " + std::to_string(static_cast<int>(which)));
}

// Contexts.

DriverResult RecordingDriver::Impl::primary_context_retain(ContextHandle* made,
                                                           DeviceHandle handle) {
  if (handle < 0 || handle >= options.devices) {
    return violate(invalid_device, "cuDevicePrimaryCtxRetain");
  }
  ContextObject& found = *contexts[static_cast<std::size_t>(handle)];
  RecordedMemory& its_memory = *memories[static_cast<std::size_t>(handle)];
  if (found.holders == 0 && !its_memory.take(options.context_bytes)) return out_of_memory;
  ++found.holders;
  *made = &found;
  return success;
}

DriverResult RecordingDriver::Impl::primary_context_release(DeviceHandle handle) {
  if (handle < 0 || handle >= options.devices ||
      contexts[static_cast<std::size_t>(handle)]->holders == 0) {
    return violate(invalid_context, "cuDevicePrimaryCtxRelease");
  }
  if (--contexts[static_cast<std::size_t>(handle)]->holders == 0) {
    memories[static_cast<std::size_t>(handle)]->give_back(options.context_bytes);
  }
  return success;
}

DriverResult RecordingDriver::Impl::context_get_current(ContextHandle* current) {
  *current = current_contexts.empty() ? nullptr : current_contexts.back();
  return success;
}

DriverResult RecordingDriver::Impl::context_push(ContextHandle handle) {
  const bool is_mine = std::any_of(contexts.begin(), contexts.end(), [&](const auto& one) {
    return one.get() == handle && one->holders > 0;
  });
  if (!is_mine) return violate(invalid_context, "cuCtxPushCurrent");
  current_contexts.push_back(handle);
  return success;
}

DriverResult RecordingDriver::Impl::context_pop(ContextHandle* popped) {
  if (current_contexts.empty()) return violate(invalid_context, "cuCtxPopCurrent");
  *popped = current_contexts.back();
  current_contexts.pop_back();
  return success;
}

// Memory.

DriverResult RecordingDriver::Impl::mem_get_info(std::size_t* free, std::size_t* total) {
  PLIMSOLL_NEEDS_CONTEXT("cuMemGetInfo");
  *free = static_cast<std::size_t>(memory().free_bytes());
  *total = static_cast<std::size_t>(options.device_bytes);
  return success;
}

DriverResult RecordingDriver::Impl::mem_alloc(Address* address, std::size_t bytes) {
  PLIMSOLL_NEEDS_CONTEXT("cuMemAlloc");
  if (bytes == 0) return violate(invalid_value, "cuMemAlloc: 0 bytes");
  *address = memory().allocate(static_cast<std::int64_t>(bytes));
  return *address == 0 ? out_of_memory : success;
}

DriverResult RecordingDriver::Impl::mem_free(Address address) {
  PLIMSOLL_NEEDS_CONTEXT("cuMemFree");
  std::int64_t bytes = 0;
  if (!memory().free(address, &bytes)) return violate(invalid_value, "cuMemFree: no such block");
  check_unused(reinterpret_cast<void*>(address), bytes, "cuMemFree");
  return success;
}

DriverResult RecordingDriver::Impl::mem_host_alloc(void** made, std::size_t bytes, unsigned) {
  PLIMSOLL_NEEDS_CONTEXT("cuMemHostAlloc");
  constexpr std::size_t kPage = 4096;
  if (bytes == 0) return violate(invalid_value, "cuMemHostAlloc: 0 bytes");
  *made = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (*made == nullptr) return out_of_memory;
  pinned[*made] = static_cast<std::int64_t>(bytes);
  return success;
}

DriverResult RecordingDriver::Impl::mem_free_host(void* pointer) {
  PLIMSOLL_NEEDS_CONTEXT("cuMemFreeHost");
  const auto found = pinned.find(pointer);
  if (found == pinned.end()) return violate(invalid_value, "cuMemFreeHost: no such block");
  check_unused(pointer, found->second, "cuMemFreeHost");
  std::free(pointer);
  pinned.erase(found);
  return success;
}

DriverResult RecordingDriver::Impl::mem_get_granularity(std::size_t* bytes,
                                                        const MemoryProperties* properties, int) {
  if (!options.maps_memory) return not_supported;
  if (properties->type != kMemoryPinned || properties->location.type != kLocationDevice) {
    return violate(invalid_value, "cuMemGetAllocationGranularity");
  }
  *bytes = std::size_t{2} << 20;
  return success;
}

DriverResult RecordingDriver::Impl::mem_address_reserve(Address* address, std::size_t bytes,
                                                        std::size_t, Address wanted,
                                                        unsigned long long flags) {
  PLIMSOLL_NEEDS_CONTEXT("cuMemAddressReserve");
  if (!options.maps_memory) return not_supported;
  if (wanted != 0 || flags != 0 || bytes % (std::size_t{2} << 20) != 0) {
    return violate(invalid_value, "cuMemAddressReserve");
  }
  *address = memory().reserve(static_cast<std::int64_t>(bytes));
  return *address == 0 ? out_of_memory : success;
}

DriverResult RecordingDriver::Impl::mem_address_free(Address address, std::size_t bytes) {
  PLIMSOLL_NEEDS_CONTEXT("cuMemAddressFree");
  if (memory().unreserve(address, static_cast<std::int64_t>(bytes))) return success;
  return violate(invalid_value, "cuMemAddressFree: no such range, or something is mapped there");
}

DriverResult RecordingDriver::Impl::mem_create(MemoryHandle* made, std::size_t bytes,
                                               const MemoryProperties* properties,
                                               unsigned long long flags) {
  PLIMSOLL_NEEDS_CONTEXT("cuMemCreate");
  if (!options.maps_memory) return not_supported;
  if (flags != 0 || properties->location.id != device || bytes % (std::size_t{2} << 20) != 0) {
    return violate(invalid_value, "cuMemCreate");
  }
  *made = memory().create(static_cast<std::int64_t>(bytes));
  return *made == 0 ? out_of_memory : success;
}

DriverResult RecordingDriver::Impl::mem_release(MemoryHandle handle) {
  PLIMSOLL_NEEDS_CONTEXT("cuMemRelease");
  return memory().release(handle) ? success : violate(invalid_value, "cuMemRelease");
}

DriverResult RecordingDriver::Impl::mem_map(Address address, std::size_t bytes, std::size_t offset,
                                            MemoryHandle handle, unsigned long long flags) {
  PLIMSOLL_NEEDS_CONTEXT("cuMemMap");
  if (offset == 0 && flags == 0 &&
      memory().map(address, static_cast<std::int64_t>(bytes), handle)) {
    return success;
  }
  return violate(invalid_value, "cuMemMap");
}

DriverResult RecordingDriver::Impl::mem_unmap(Address address, std::size_t bytes) {
  PLIMSOLL_NEEDS_CONTEXT("cuMemUnmap");
  check_unused(reinterpret_cast<void*>(address), static_cast<std::int64_t>(bytes), "cuMemUnmap");
  if (memory().unmap(address, static_cast<std::int64_t>(bytes))) return success;
  return violate(invalid_value, "cuMemUnmap");
}

DriverResult RecordingDriver::Impl::mem_set_access(Address address, std::size_t bytes,
                                                   const MemoryAccess* access, std::size_t count) {
  PLIMSOLL_NEEDS_CONTEXT("cuMemSetAccess");
  if (count == 1 && access->flags == kAccessReadWrite && access->location.id == device &&
      memory().allow(address, static_cast<std::int64_t>(bytes))) {
    return success;
  }
  return violate(invalid_value, "cuMemSetAccess");
}

}  // namespace plimsoll::device::cuda
