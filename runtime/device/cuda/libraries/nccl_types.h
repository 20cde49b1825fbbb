// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Types of NCCL's C interface, declared anew, so that nothing of the library is needed to build.
// Layouts and numbers are the same from NCCL 2.14 on; tests/device/cuda/nccl_abi_test.cc compares
// them with the library's header where there is one.
namespace plimsoll::device::cuda {

// ncclResult_t.
enum class NcclResult : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

using NcclHandle = struct NcclObject*;  // ncclComm_t

// ncclUniqueId, which is passed by value.
struct NcclId {
  char bytes[128] = {};
};

// ncclDataType_t.
enum class NcclType : int {
  s8 = 0,
  u8 = 1,
  s32 = 2,
  u32 = 3,
  s64 = 4,
  u64 = 5,
  f16 = 6,
  f32 = 7,
  f64 = 8,
  bf16 = 9,
};

// ncclRedOp_t.
enum class NcclOperation : int { sum = 0, product = 1, maximum = 2, minimum = 3 };

// ncclConfig_t as NCCL 2.14 had it, which later ones take for what it says it is.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int unused = 0;
};

}  // namespace plimsoll::device::cuda
