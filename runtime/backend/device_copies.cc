// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/device_copies.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/collectives/leaf_copies.h"
#include "runtime/base/index.h"
#include "runtime/device/communicator.h"
#include "runtime/device/cuda/cuda_stream.h"
#include "runtime/ir/participants.h"

namespace plimsoll::backend {
namespace {

using ir::Opcode;
using kernels::LeafCopy;

class DeviceCopies final : public device::Kernel {
 public:
  DeviceCopies(std::string name, std::vector<LeafCopy> copies)
      : name_(std::move(name)), copies_(std::move(copies)) {}

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    auto& on = static_cast<device::cuda::CudaStream&>(stream);
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const LeafCopy& copy = copies_[i];
      void* const to = arguments.outputs[i];
      if (to == nullptr || copy.count == 0) continue;
      const std::int64_t bytes = copy.count * ir::dtype_bytes(copy.to);
      if (copy.input < 0) {
        PLIMSOLL_RETURN_IF_ERROR(on.fill(to, std::byte{0}, bytes));
      } else if (const void* const from = arguments.inputs[at(copy.input)]; from != to) {
        PLIMSOLL_RETURN_IF_ERROR(stream.copy(to, from, bytes, device::CopyKind::device_to_device));
      }
    }
    return ok_status();
  }
  device::KernelOrigin origin() const override { return device::KernelOrigin::own; }
  const std::string& name() const override { return name_; }

 private:
  const std::string name_;
  const std::vector<LeafCopy> copies_;
};

// The operation's kernel writes the result, the operands are copied.
class DeviceStart final : public device::Kernel {
 public:
  DeviceStart(std::shared_ptr<const device::Kernel> operation, kernels::StartCopies start)
      : operation_(std::move(operation)),
        result_leaf_(start.result_leaf),
        result_count_(start.result_count),
        copies_("async-start." + operation_->name(), std::move(start.copies)) {}

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    PLIMSOLL_RETURN_IF_ERROR(operation_->launch(
        stream, {arguments.inputs, arguments.outputs.subspan(result_leaf_, result_count_),
                 arguments.workspace}));
    return copies_.launch(stream, arguments);
  }
  std::int64_t workspace_bytes() const override { return operation_->workspace_bytes(); }
  device::KernelOrigin origin() const override { return operation_->origin(); }
  const std::string& name() const override { return copies_.name(); }

 private:
  const std::shared_ptr<const device::Kernel> operation_;
  const std::size_t result_leaf_, result_count_;
  const DeviceCopies copies_;
};

// Which participant runs it is known when it is launched.
class ParticipantId final : public device::Kernel {
 public:
  explicit ParticipantId(const ir::Instruction& instruction)
      : name_(ir::to_string(instruction.opcode())),
        partitions_(ir::topology_of(instruction).partitions),
        is_of_replica_(instruction.opcode() == Opcode::replica_id) {}

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    const device::Communicator* const communicator = stream.communicator();
    const std::int64_t self = communicator == nullptr ? 0 : communicator->participant();
    return static_cast<device::cuda::CudaStream&>(stream).fill_word(
        arguments.outputs[0],
        static_cast<std::uint32_t>(is_of_replica_ ? self / partitions_ : self % partitions_));
  }
  device::KernelOrigin origin() const override { return device::KernelOrigin::own; }
  const std::string& name() const override { return name_; }

 private:
  const std::string name_;
  const std::int64_t partitions_;
  const bool is_of_replica_;
};

bool moves_data_alone(Opcode opcode) {
  switch (opcode) {
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::collective_permute:
    case Opcode::collective_broadcast:
    case Opcode::all_reduce_start:
    case Opcode::all_reduce_done:
    case Opcode::all_gather_start:
    case Opcode::all_gather_done:
    case Opcode::collective_permute_start:
    case Opcode::collective_permute_done:
    case Opcode::copy_start:
    case Opcode::copy_done:
    case Opcode::async_update:
    case Opcode::async_done:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<std::shared_ptr<const device::Kernel>> make_device_copies(const ir::Instruction& instruction,
                                                                 const KernelOf& kernel_of) {
  using Made = std::shared_ptr<const device::Kernel>;
  const Opcode opcode = instruction.opcode();
  if (opcode == Opcode::partition_id || opcode == Opcode::replica_id) {
    return Made(std::make_shared<ParticipantId>(instruction));
  }
  if (opcode == Opcode::async_start) {
    PLIMSOLL_ASSIGN_OR_RETURN(const ir::Instruction* const operation,
                              kernels::async_operation(instruction));
    PLIMSOLL_ASSIGN_OR_RETURN(kernels::StartCopies start, kernels::start_copies(instruction));
    const bool converts = !std::all_of(start.copies.begin(), start.copies.end(),
                                       [](const LeafCopy& copy) { return copy.is_of_bytes(); });
    if (converts) return Made();
    PLIMSOLL_ASSIGN_OR_RETURN(Made made, kernel_of(*operation));
    return Made(std::make_shared<DeviceStart>(std::move(made), std::move(start)));
  }
  if (!moves_data_alone(opcode)) return Made();
  PLIMSOLL_ASSIGN_OR_RETURN(const bool meets, kernels::meets_others(instruction));
  if (meets) return Made();
  PLIMSOLL_ASSIGN_OR_RETURN(std::vector<LeafCopy> copies, kernels::leaf_copies(instruction));
  const bool converts = !std::all_of(copies.begin(), copies.end(),
                                     [](const LeafCopy& copy) { return copy.is_of_bytes(); });
  if (converts) return Made();
  return Made(
      std::make_shared<DeviceCopies>(std::string(ir::to_string(opcode)), std::move(copies)));
}

}  // namespace plimsoll::backend
