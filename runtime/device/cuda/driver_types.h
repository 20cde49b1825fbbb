// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Types of the CUDA driver's C interface (libcuda), declared anew, so that nothing of the toolkit
// is needed to build. Layouts and numbers are those of the interface, which never change;
// tests/device/cuda/driver_abi_test.cc compares them with the toolkit's header where there is one.
namespace plimsoll::device::cuda {

// Results that the library tells apart; every other number may come, too.
enum class DriverResult : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  stub_library = 34,
  no_device = 100,
  invalid_device = 101,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  invalid_ptx = 218,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_failed = 719,
  not_supported = 801,
  stream_capture_unsupported = 900,
  stream_capture_invalidated = 901,
  unknown = 999,
};

using DeviceHandle = int;
using Address = std::uint64_t;  // in device memory
using ContextHandle = struct ContextObject*;
using StreamHandle = struct StreamObject*;
using EventHandle = struct EventObject*;
using ModuleHandle = struct ModuleObject*;
using FunctionHandle = struct FunctionObject*;
using GraphHandle = struct GraphObject*;
using GraphExecutableHandle = struct GraphExecutableObject*;
using MemoryHandle = std::uint64_t;             // physical memory
using HostFunction = void (*)(void* argument);  // CUhostFn

// CUdevice_attribute.
enum class DeviceAttribute : int {
  max_threads_per_block = 1,
  multiprocessor_count = 16,
  memory_clock_rate = 36,        // kHz
  global_memory_bus_width = 37,  // bits
  l2_cache_size = 38,
  max_threads_per_multiprocessor = 39,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_memory_per_block_optin = 97,
  virtual_memory_management_supported = 102,
};

// CUfunction_attribute.
enum class FunctionAttribute : int {
  max_dynamic_shared_bytes = 8,
};

// CUjit_option.
enum class JitOption : int { error_log_buffer = 5, error_log_buffer_bytes = 6 };

// Flags.
inline constexpr unsigned kStreamNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kHostMemoryPortable = 1;  // CU_MEMHOSTALLOC_PORTABLE
inline constexpr int kCaptureThreadLocal = 1;       // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
inline constexpr int kGranularityMinimum = 0;       // CU_MEM_ALLOC_GRANULARITY_MINIMUM
inline constexpr int kMemoryPinned = 1;             // CU_MEM_ALLOCATION_TYPE_PINNED
inline constexpr int kLocationDevice = 1;           // CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int kAccessReadWrite = 3;          // CU_MEM_ACCESS_FLAGS_PROT_READWRITE

// CUmemLocation.
struct MemoryLocation {
  int type = kLocationDevice;
  int id = 0;
};

// CUmemAllocationProp.
struct MemoryProperties {
  int type = kMemoryPinned;
  int requested_handle_types = 0;
  MemoryLocation location;
  void* windows_handle_metadata = nullptr;
  unsigned char compression_type = 0;
  unsigned char direct_rdma_capable = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};

// CUDA_MEMCPY2D, from rows in device memory to others.
struct RowsCopy {
  static constexpr int kDevice = 2;  // CU_MEMORYTYPE_DEVICE
  std::size_t from_x = 0, from_y = 0;
  int from_type = kDevice;
  const void* from_host = nullptr;
  Address from = 0;
  void* from_array = nullptr;
  std::size_t from_pitch = 0;  // bytes from one row to the next
  std::size_t to_x = 0, to_y = 0;
  int to_type = kDevice;
  void* to_host = nullptr;
  Address to = 0;
  void* to_array = nullptr;
  std::size_t to_pitch = 0;
  std::size_t bytes = 0, rows = 0;  // of a row, and how many
};

// CUmemAccessDesc.
struct MemoryAccess {
  MemoryLocation location;
  int flags = kAccessReadWrite;
};

}  // namespace plimsoll::device::cuda
