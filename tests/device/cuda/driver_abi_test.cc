// SPDX-License-Identifier: Apache-2.0
// Our declarations of the driver's interface against the toolkit's, where this machine has it.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <type_traits>

#include "runtime/device/cuda/driver.h"

#ifdef PLIMSOLL_CUDA_HEADER
#include <cuda.h>
#endif

namespace plimsoll::device::cuda {
namespace {

#ifdef PLIMSOLL_CUDA_HEADER

// Same number of parameters, each passed the same way.
template <typename... Ours, typename... Theirs>
constexpr bool is_same_call(DriverResult (*)(Ours...), CUresult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
    return (
        (sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>) &&
        ...);
  } else {
    return false;
  }
}

#define PLIMSOLL_CUDA_CALL(member, symbol, parameters)                                     \
  static_assert(                                                                           \
      is_same_call(decltype(Driver::member){}, static_cast<decltype(&::symbol)>(nullptr)), \
      #symbol);
#include "runtime/device/cuda/driver.def"
#undef PLIMSOLL_CUDA_CALL

template <auto kOurs, auto kTheirs>
constexpr bool is_same = static_cast<long long>(kOurs) == static_cast<long long>(kTheirs);

static_assert(is_same<DriverResult::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY>);
static_assert(is_same<DriverResult::not_initialized, CUDA_ERROR_NOT_INITIALIZED>);
static_assert(is_same<DriverResult::stub_library, CUDA_ERROR_STUB_LIBRARY>);
static_assert(is_same<DriverResult::no_device, CUDA_ERROR_NO_DEVICE>);
static_assert(is_same<DriverResult::invalid_device, CUDA_ERROR_INVALID_DEVICE>);
static_assert(is_same<DriverResult::invalid_context, CUDA_ERROR_INVALID_CONTEXT>);
static_assert(is_same<DriverResult::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU>);
static_assert(is_same<DriverResult::invalid_ptx, CUDA_ERROR_INVALID_PTX>);
static_assert(is_same<DriverResult::invalid_handle, CUDA_ERROR_INVALID_HANDLE>);
static_assert(is_same<DriverResult::not_found, CUDA_ERROR_NOT_FOUND>);
static_assert(is_same<DriverResult::not_ready, CUDA_ERROR_NOT_READY>);
static_assert(is_same<DriverResult::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS>);
static_assert(is_same<DriverResult::launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES>);
static_assert(is_same<DriverResult::launch_failed, CUDA_ERROR_LAUNCH_FAILED>);
static_assert(is_same<DriverResult::not_supported, CUDA_ERROR_NOT_SUPPORTED>);
static_assert(
    is_same<DriverResult::stream_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED>);
static_assert(
    is_same<DriverResult::stream_capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED>);
static_assert(is_same<DriverResult::unknown, CUDA_ERROR_UNKNOWN>);

static_assert(
    is_same<DeviceAttribute::max_threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK>);
static_assert(
    is_same<DeviceAttribute::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT>);
static_assert(is_same<DeviceAttribute::memory_clock_rate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE>);
static_assert(
    is_same<DeviceAttribute::global_memory_bus_width, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH>);
static_assert(is_same<DeviceAttribute::l2_cache_size, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE>);
static_assert(is_same<DeviceAttribute::max_threads_per_multiprocessor,
                      CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR>);
static_assert(is_same<DeviceAttribute::compute_capability_major,
                      CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR>);
static_assert(is_same<DeviceAttribute::compute_capability_minor,
                      CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR>);
static_assert(is_same<DeviceAttribute::max_shared_memory_per_block_optin,
                      CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN>);
static_assert(is_same<DeviceAttribute::virtual_memory_management_supported,
                      CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED>);

static_assert(is_same<FunctionAttribute::max_dynamic_shared_bytes,
                      CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES>);
static_assert(is_same<JitOption::error_log_buffer, CU_JIT_ERROR_LOG_BUFFER>);
static_assert(is_same<JitOption::error_log_buffer_bytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES>);

static_assert(is_same<kStreamNonBlocking, CU_STREAM_NON_BLOCKING>);
static_assert(is_same<kHostMemoryPortable, CU_MEMHOSTALLOC_PORTABLE>);
static_assert(is_same<kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL>);
static_assert(is_same<kGranularityMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM>);
static_assert(is_same<kMemoryPinned, CU_MEM_ALLOCATION_TYPE_PINNED>);
static_assert(is_same<kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE>);
static_assert(is_same<kAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE>);

static_assert(sizeof(RowsCopy) == sizeof(CUDA_MEMCPY2D));
static_assert(offsetof(RowsCopy, from) == offsetof(CUDA_MEMCPY2D, srcDevice));
static_assert(offsetof(RowsCopy, from_pitch) == offsetof(CUDA_MEMCPY2D, srcPitch));
static_assert(offsetof(RowsCopy, to_type) == offsetof(CUDA_MEMCPY2D, dstMemoryType));
static_assert(offsetof(RowsCopy, to) == offsetof(CUDA_MEMCPY2D, dstDevice));
static_assert(offsetof(RowsCopy, to_pitch) == offsetof(CUDA_MEMCPY2D, dstPitch));
static_assert(offsetof(RowsCopy, rows) == offsetof(CUDA_MEMCPY2D, Height));
static_assert(RowsCopy::kDevice == CU_MEMORYTYPE_DEVICE);
static_assert(sizeof(MemoryProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(MemoryProperties, type) == offsetof(CUmemAllocationProp, type));
static_assert(offsetof(MemoryProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(MemoryProperties, windows_handle_metadata) ==
              offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(MemoryProperties, usage) == offsetof(CUmemAllocationProp, allocFlags.usage));
static_assert(sizeof(MemoryAccess) == sizeof(CUmemAccessDesc));
static_assert(offsetof(MemoryAccess, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(MemoryLocation) == sizeof(CUmemLocation));

TEST(CudaDriverAbi, IsThatOfTheToolkitsHeader) {
  EXPECT_GE(CUDA_VERSION, 11040) << "the functions of driver.def are those of 11.4";
}

#else

TEST(CudaDriverAbi, IsThatOfTheToolkitsHeader) {
  GTEST_SKIP() << "this machine has no cuda.h to compare with";
}

#endif

}  // namespace
}  // namespace plimsoll::device::cuda
