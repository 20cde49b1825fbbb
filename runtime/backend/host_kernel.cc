// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/host_kernel.h"

#include <fmt/core.h>

#include <cstddef>
#include <utility>

#include "kernels/cpu/calls/custom_call.h"
#include "runtime/base/alignment.h"
#include "runtime/base/index.h"
#include "runtime/device/communicator.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cuda/cuda_stream.h"
#include "runtime/ir/participants.h"

namespace plimsoll::backend {
namespace {

using device::CopyKind;

// What a launch hands to the host.
struct HostWork {
  std::shared_ptr<const device::Kernel> kernel;
  std::shared_ptr<device::Stream> stream;  // the CPU's, with the launching one's communicator
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* workspace = nullptr;

  Status run() const {
    const Status status = kernel->launch(*stream, {inputs, outputs, workspace});
    return status.ok() ? status : status.with_context("'" + kernel->name() + "' on the host");
  }
};

bool is_transfer(ir::Opcode opcode) {
  return opcode == ir::Opcode::send || opcode == ir::Opcode::send_done ||
         opcode == ir::Opcode::recv || opcode == ir::Opcode::recv_done;
}

void add_bytes(const ir::Shape& shape, std::vector<std::int64_t>& bytes) {
  for (const ir::Shape* leaf : ir::leaves(shape)) {
    bytes.push_back(leaf->is_array() ? leaf->byte_size() : 0);
  }
}

}  // namespace

HostKernel::HostKernel(std::shared_ptr<const device::Kernel> kernel,
                       std::vector<std::int64_t> input_bytes,
                       std::vector<std::int64_t> output_bytes, Place place_of_work)
    : kernel_(std::move(kernel)), name_("host." + kernel_->name()), place_(place_of_work) {
  place(input_bytes, inputs_);
  place(output_bytes, outputs_);
  workspace_ = staging_bytes_;
  staging_bytes_ += aligned_bytes(kernel_->workspace_bytes());
}

void HostKernel::place(const std::vector<std::int64_t>& bytes, std::vector<Array>& arrays) {
  for (const std::int64_t of_one : bytes) {
    arrays.push_back({of_one, staging_bytes_});
    staging_bytes_ += aligned_bytes(of_one);
  }
}

Result<std::shared_ptr<HostKernel>> HostKernel::create(
    const ir::Instruction& instruction, std::shared_ptr<const device::Kernel> kernel) {
  const bool meets_others =
      ir::is_meeting(instruction) && ir::topology_of(instruction).participants() > 1;
  if (meets_others && is_transfer(instruction.opcode())) {
    return unimplemented(fmt::format(
        "{} '{}' between participants on GPUs (an all-to-all or a collective-permute is)",
        ir::to_string(instruction.opcode()), instruction.name()));
  }
  std::vector<std::int64_t> inputs, outputs;
  for (const ir::Instruction* operand : instruction.operands()) {
    add_bytes(operand->shape(), inputs);
  }
  add_bytes(instruction.shape(), outputs);
  return std::make_shared<HostKernel>(std::move(kernel), std::move(inputs), std::move(outputs),
                                      meets_others ? Place::among_participants
                                      : kernels::is_custom_call_registered(instruction)
                                          ? Place::launching_thread
                                          : Place::stream);
}

Status HostKernel::launch_on_device(device::Stream& stream,
                                    const device::KernelArguments& arguments) const {
  device::Communicator* const communicator = stream.communicator();
  device::Communicator* const on_device =
      place_ == Place::among_participants && communicator != nullptr
          ? communicator->on_device(stream)
          : nullptr;
  if (on_device == nullptr) return unimplemented("'" + name_ + "' on the device");
  // What a kernel keeps for itself is the host's.
  std::vector<std::byte> workspace(at(kernel_->workspace_bytes()));
  stream.set_communicator(on_device);
  const Status status =
      kernel_->launch(stream, {arguments.inputs, arguments.outputs, workspace.data()});
  stream.set_communicator(communicator);
  return status;
}

Status HostKernel::launch(device::Stream& stream, const device::KernelArguments& arguments) const {
  if (arguments.inputs.size() != inputs_.size() || arguments.outputs.size() != outputs_.size()) {
    return internal_error(fmt::format("'{}' was given {} inputs and {} outputs, wants {} and {}",
                                      name_, arguments.inputs.size(), arguments.outputs.size(),
                                      inputs_.size(), outputs_.size()));
  }
  if (const Status met = launch_on_device(stream, arguments);
      met.code() != StatusCode::unimplemented) {
    return met;
  }
  auto& on = static_cast<device::cuda::CudaStream&>(stream);
  if (say_ != nullptr) std::call_once(said_, say_);
  auto staged = on.staging(staging_bytes_);
  if (!staged.ok()) return staged.status().with_context("'" + name_ + "'");
  std::byte* const staging = *staged;
  const auto work = std::make_shared<HostWork>();
  work->kernel = kernel_;
  PLIMSOLL_ASSIGN_OR_RETURN(work->stream, device::cpu_device()->create_stream());
  work->stream->set_communicator(stream.communicator());
  work->workspace = staging + workspace_;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto [bytes, offset] = inputs_[i];
    const void* const from = arguments.inputs[i];
    work->inputs.push_back(from == nullptr ? nullptr : staging + offset);
    if (from == nullptr) continue;
    PLIMSOLL_RETURN_IF_ERROR(stream.copy(staging + offset, from, bytes, CopyKind::device_to_host));
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    work->outputs.push_back(arguments.outputs[i] == nullptr ? nullptr
                                                            : staging + outputs_[i].offset);
  }
  if (place_ != Place::stream) {
    PLIMSOLL_RETURN_IF_ERROR(stream.synchronize());
    PLIMSOLL_RETURN_IF_ERROR(work->run());
  } else {
    PLIMSOLL_RETURN_IF_ERROR(on.call_on_host([work] { return work->run(); }));
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (work->outputs[i] == nullptr) continue;
    PLIMSOLL_RETURN_IF_ERROR(stream.copy(arguments.outputs[i], staging + outputs_[i].offset,
                                         outputs_[i].bytes, CopyKind::host_to_device));
  }
  return ok_status();
}

}  // namespace plimsoll::backend
