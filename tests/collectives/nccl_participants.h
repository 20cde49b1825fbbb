// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/nccl.h"
#include "runtime/base/status.h"
#include "runtime/device/communicator.h"
#include "tests/device/cuda/recorded_gpu.h"
#include "tests/device/cuda/recording_nccl.h"

namespace plimsoll::collectives {

using Body = std::function<Status(device::Communicator&)>;

// Participants that are threads, each with a recorded GPU of its own, which meet by a recorded
// NCCL. What was against any contract, and what is left when they have ended, are failures of the
// test.
class NcclParticipants {
 public:
  struct Options {
    std::chrono::duration<double> timeout = std::chrono::seconds(60);
    bool keeps_order = false;
    std::int64_t communicator_bytes = 1 << 20;
    device::cuda::MakeKernels make_kernels = nullptr;
  };
  NcclParticipants(std::int64_t count, const Options& options);
  ~NcclParticipants();

  // `body` for every participant, on a thread each, by a communicator whose arrays are in host
  // memory: calls bring them to the GPU and back, as a program's kernels find them there.
  std::vector<Status> run(const Body& body);
  // The same by the communicator itself.
  std::vector<Status> run_nccl(const std::function<Status(NcclCommunicator&)>& body);

  device::cuda::RecordingNccl& nccl() { return nccl_; }
  device::cuda::RecordedGpu& gpu(std::int64_t participant) {
    return *gpus_[static_cast<std::size_t>(participant)];
  }
  // What has been against the contract so far.
  std::string complaints() const;

 private:
  const Options options_;
  std::vector<std::unique_ptr<device::cuda::RecordedGpu>> gpus_;
  device::cuda::RecordingNccl nccl_;
};

}  // namespace plimsoll::collectives
