// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/kernel.h"
#include "runtime/ir/module.h"

namespace plimsoll::backend {

// A kernel of the CPU's as one of a GPU: inputs are copied to pinned host memory, a function that
// the stream calls there runs the kernel, and results are copied back, all in the stream's order.
// The pinned memory is the stream's (device::cuda::CudaStream::staging). It takes no part in
// graphs: a launch during a capture is UNIMPLEMENTED.
//
// What may not run there runs on the launching thread instead, which waits for the stream: kernels
// that meet other participants, as functions that a GPU calls may not wait for each other, and
// users' functions, which may call the driver. Participants that meet on the device
// (device::Communicator::on_device) do so with the arrays as they are, where they can.
class HostKernel final : public device::Kernel {
 public:
  enum class Place : std::uint8_t { stream, launching_thread, among_participants };
  // `bytes` of each input and output; 0: nothing to be copied.
  HostKernel(std::shared_ptr<const device::Kernel> kernel, std::vector<std::int64_t> input_bytes,
             std::vector<std::int64_t> output_bytes, Place place = Place::stream);
  // Calls `say` with the first launch that goes by way of the host.
  void say_when_staged(std::function<void()> say) { say_ = std::move(say); }
  // Of an instruction, whose kernel on the CPU this is. UNIMPLEMENTED for halves of transfers
  // between participants, which use their arrays after the launch.
  static Result<std::shared_ptr<HostKernel>> create(const ir::Instruction& instruction,
                                                    std::shared_ptr<const device::Kernel> kernel);

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override;
  device::KernelOrigin origin() const override { return kernel_->origin(); }
  const std::string& name() const override { return name_; }

 private:
  struct Array {
    std::int64_t bytes = 0, offset = 0;  // in the staging memory
  };
  // UNIMPLEMENTED, before anything is done, where there is no way but over the host.
  Status launch_on_device(device::Stream& stream, const device::KernelArguments& arguments) const;
  void place(const std::vector<std::int64_t>& bytes, std::vector<Array>& arrays);

  const std::shared_ptr<const device::Kernel> kernel_;
  const std::string name_;
  const Place place_;
  std::function<void()> say_;
  mutable std::once_flag said_;
  std::vector<Array> inputs_, outputs_;
  std::int64_t workspace_ = 0, staging_bytes_ = 0;
};

}  // namespace plimsoll::backend
