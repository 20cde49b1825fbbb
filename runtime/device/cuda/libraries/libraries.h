// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/device/cuda/libraries/cublaslt.h"
#include "runtime/device/cuda/libraries/cudnn.h"

namespace plimsoll::device::cuda {

// What a GPU's kernels are computed with beside our own code.
struct Libraries {
  const Cublaslt* products = nullptr;   // null: products are our own kernels'
  const Cudnn* convolutions = nullptr;  // null: convolutions are
  bool allows_tf32 = false;             // either may take f32 for TF32
  std::string name;   // what speeds depend on: "cuBLASLt 13.1.0, own convolutions"
  std::string about;  // for people: which, from where, or why there is none
};

// Those of this machine for a driver of this version (12040 for 12.4), by PLIMSOLL_CUDA_LIBRARIES
// and PLIMSOLL_TF32 as they are when it is first asked for: libraries do not come while a process
// runs. One that is missing is a warning in the log, once. INVALID_ARGUMENT for a variable that is
// not understood. Thread-safe.
const Result<Libraries>& machine_libraries(int driver_version);

}  // namespace plimsoll::device::cuda
