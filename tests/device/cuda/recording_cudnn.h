// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device/cuda/libraries/cudnn.h"
#include "tests/device/cuda/recording_driver.h"

namespace plimsoll::device::cuda {

// cuDNN for tests, without a GPU, as recording_cublaslt.h has cuBLASLt: the whole table of
// cudnn.def for GPUs of a recording driver. Against the contract are, besides handles and
// descriptors that are not there: tensors and filters that do not belong together, or are neither
// channels first nor last as the filters are; an algorithm that must not be taken, less workspace
// than it needs, math by tensor cores for f32. It offers first what must not be taken: algorithms
// of other bits in every run, by transforms, of too much workspace. Thread-safe. One a driver,
// which must outlive it.
class RecordingCudnn {
 public:
  // What the GPU's memory has less for a handle, and for the first convolution of each kind.
  explicit RecordingCudnn(RecordingDriver& driver, std::int64_t handle_bytes = 0,
                          std::int64_t code_bytes = 0);
  ~RecordingCudnn();
  RecordingCudnn(const RecordingCudnn&) = delete;
  RecordingCudnn& operator=(const RecordingCudnn&) = delete;

  const Cudnn& table() const;
  // What was made and is not destroyed yet: "1 handles, 2 tensors"; empty: nothing.
  std::string leaks() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::device::cuda
