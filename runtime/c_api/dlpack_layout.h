// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// The structs of DLPack as its documentation lays them out ("C API", version 1.0, and the struct
// without a version that was there before), under its own tags, which is what crosses the ABI.

struct DLPackVersion {
  std::uint32_t major, minor;
};

struct DLDevice {
  std::int32_t type;
  std::int32_t number;
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t rank;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; NULL: dense, row-major
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor tensor;
  void* manager;
  void (*deleter)(DLManagedTensor* self);  // may be NULL
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager;
  void (*deleter)(DLManagedTensorVersioned* self);  // may be NULL
  std::uint64_t flags;
  DLTensor tensor;
};

static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, shape) == 24 &&
              sizeof(DLManagedTensor) == 64 && sizeof(DLManagedTensorVersioned) == 80 &&
              offsetof(DLManagedTensorVersioned, tensor) == 32);

namespace plimsoll::c_api {

inline constexpr std::int32_t kDlpackCpu = 1, kDlpackCuda = 2, kDlpackPinned = 3;
inline constexpr std::uint64_t kDlpackReadOnly = 1;
inline constexpr std::uint32_t kDlpackMajor = 1;

}  // namespace plimsoll::c_api
