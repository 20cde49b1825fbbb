// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/collectives/collectives.h"

#include <cstring>
#include <string>

#include "kernels/cpu/collectives/leaf_copies.h"
#include "kernels/cpu/collectives/many_participants.h"
#include "kernels/kernels.h"
#include "runtime/base/index.h"
#include "runtime/device/communicator.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/interpreter/interpreter_elementwise.h"
#include "runtime/ir/participants.h"

namespace plimsoll::kernels {
namespace {

using ir::Opcode;

struct CopyLeaves {
  std::vector<LeafCopy> copies;

  Status operator()(device::Stream& stream, const device::KernelArguments& arguments) const {
    if (device::Communicator* const communicator = stream.communicator();
        communicator != nullptr && communicator->memory() != nullptr) {
      return copy_on_device(*communicator->memory(), arguments);
    }
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const LeafCopy& copy = copies[i];
      std::byte* to = static_cast<std::byte*>(arguments.outputs[i]);
      if (to == nullptr || copy.count == 0) continue;
      const std::int64_t to_bytes = dtype_bytes(copy.to);
      if (copy.input < 0) {
        std::memset(to, 0, static_cast<std::size_t>(copy.count * to_bytes));
        continue;
      }
      const void* from = arguments.inputs[at(copy.input)];
      if (from == to) continue;
      const std::int64_t from_bytes = dtype_bytes(copy.from);
      device::parallel_for(copy.count, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        if (copy.from == copy.to) {
          std::memcpy(to + begin * to_bytes, byte_offset(from, begin * from_bytes),
                      static_cast<std::size_t>((end - begin) * to_bytes));
        } else {
          ir::interpreter::convert_elements({copy.from, byte_offset(from, begin * from_bytes)},
                                            copy.to, to + begin * to_bytes, end - begin);
        }
      });
    }
    return ok_status();
  }

  Status copy_on_device(device::Communicator::Memory& memory,
                        const device::KernelArguments& arguments) const {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const LeafCopy& copy = copies[i];
      void* const to = arguments.outputs[i];
      if (to == nullptr || copy.count == 0) continue;
      const std::int64_t bytes = copy.count * dtype_bytes(copy.to);
      const void* const from = copy.input < 0 ? nullptr : arguments.inputs[at(copy.input)];
      if (from == to) continue;
      if (!copy.is_of_bytes()) {
        return internal_error("a start half that converts its operands on a device");
      }
      PLIMSOLL_RETURN_IF_ERROR(from == nullptr ? memory.clear(to, bytes)
                                               : memory.copy(to, from, bytes));
    }
    return ok_status();
  }
};

// A start half: the operation's kernel writes the result element, the operands are copied.
class AsyncStart final : public KernelBase {
 public:
  AsyncStart(std::shared_ptr<const device::Kernel> inner, CopyLeaves copies,
             std::size_t result_leaf, std::size_t result_count)
      : KernelBase("async-start." + inner->name(), inner->origin()),
        inner_(std::move(inner)),
        copies_(std::move(copies)),
        result_leaf_(result_leaf),
        result_count_(result_count) {
    reserve_workspace(inner_->workspace_bytes());
  }

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    PLIMSOLL_RETURN_IF_ERROR(inner_->launch(
        stream, {arguments.inputs, arguments.outputs.subspan(result_leaf_, result_count_),
                 arguments.workspace}));
    // The copies leave the result's leaves alone: their counts are zero.
    return copies_(stream, arguments);
  }

 private:
  std::shared_ptr<const device::Kernel> inner_;
  CopyLeaves copies_;
  std::size_t result_leaf_, result_count_;
};

KernelResult make_start(const ir::Instruction& instruction,
                        std::shared_ptr<const device::Kernel> inner) {
  PLIMSOLL_ASSIGN_OR_RETURN(StartCopies start, start_copies(instruction));
  return KernelResult(std::make_shared<AsyncStart>(std::move(inner),
                                                   CopyLeaves{std::move(start.copies)},
                                                   start.result_leaf, start.result_count));
}

KernelResult make_async_start(const ir::Instruction& instruction) {
  PLIMSOLL_ASSIGN_OR_RETURN(const ir::Instruction* const operation, async_operation(instruction));
  if (!supports(*operation)) {
    return unsupported(instruction, "computation " + instruction.called(0)->name() +
                                        " (one operation with a kernel is supported)");
  }
  PLIMSOLL_ASSIGN_OR_RETURN(auto inner, make_kernel(*operation));
  return make_start(instruction, std::move(inner));
}

}  // namespace

KernelResult make_collective(const ir::Instruction& instruction) {
  const Opcode opcode = instruction.opcode();
  PLIMSOLL_ASSIGN_OR_RETURN(const bool meets, meets_others(instruction));
  if (meets) {
    std::vector<const ir::Shape*> in;
    for (const ir::Instruction* operand : instruction.operands()) {
      for (const ir::Shape* leaf : ir::leaves(operand->shape())) in.push_back(leaf);
    }
    const ir::Shape& shape = instruction.shape();
    const bool starts =
        opcode == Opcode::all_gather_start || opcode == Opcode::collective_permute_start;
    if (starts && (!shape.is_tuple() || shape.elements().size() < 2)) {
      return unsupported(instruction, "result " + shape.to_string());
    }
    KernelResult kernel =
        make_many_participants(instruction, in, starts ? shape.elements()[1] : shape);
    if (!starts || !kernel.ok()) return kernel;
    return make_start(instruction, std::move(*kernel));
  }
  if (opcode == Opcode::async_start) return make_async_start(instruction);
  PLIMSOLL_ASSIGN_OR_RETURN(std::vector<LeafCopy> copies, leaf_copies(instruction));
  return KernelResult(
      make_function_kernel(std::string(ir::to_string(opcode)), CopyLeaves{std::move(copies)}));
}

KernelResult make_participant_id(const ir::Instruction& instruction) {
  const ir::Topology topology = ir::topology_of(instruction);
  const bool of_replica = instruction.opcode() == Opcode::replica_id;
  return KernelResult(make_function_kernel(
      std::string(ir::to_string(instruction.opcode())),
      [topology, of_replica](device::Stream& stream, const device::KernelArguments& arguments) {
        const device::Communicator* const communicator = stream.communicator();
        const std::int64_t self = communicator == nullptr ? 0 : communicator->participant();
        const auto id = static_cast<std::uint32_t>(of_replica ? self / topology.partitions
                                                              : self % topology.partitions);
        std::memcpy(arguments.outputs[0], &id, sizeof(id));
        return ok_status();
      }));
}

}  // namespace plimsoll::kernels
