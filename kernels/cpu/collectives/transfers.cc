// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/collectives/transfers.h"

#include <fmt/core.h>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cpu/collectives/many_participants.h"
#include "runtime/base/index.h"
#include "runtime/device/communicator.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/participants.h"

namespace plimsoll::kernels {
namespace {

using device::Communicator;
using ir::Opcode;

void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (to == from || to == nullptr) return;
  device::parallel_for(bytes, 1 << 18, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(byte_offset(to, begin), byte_offset(from, begin),
                static_cast<std::size_t>(end - begin));
  });
}

class Transfer final : public KernelBase {
 public:
  // By participant: who is at the other end, or -1.
  Transfer(const ir::Instruction& instruction, std::vector<std::int64_t> others, std::int64_t bytes)
      : KernelBase(std::string(ir::to_string(instruction.opcode())), device::KernelOrigin::own),
        opcode_(instruction.opcode()),
        topology_(ir::topology_of(instruction)),
        others_(std::move(others)),
        bytes_(bytes),
        name_(instruction.name()),
        what_(ir::passage_name(instruction)) {}

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    Communicator* const communicator = stream.communicator();
    if (topology_.participants() > 1 &&
        (communicator == nullptr || communicator->participants() != topology_.participants())) {
      return failed_precondition(fmt::format(
          "{} '{}': the program is one of {} replicas x {} partitions, and was run by {} (run all "
          "of them together)",
          name(), name_, topology_.replicas, topology_.partitions,
          communicator == nullptr ? 1 : communicator->participants()));
    }
    const std::int64_t self = communicator == nullptr ? 0 : communicator->participant();
    const std::int64_t other = others_[at(self)];
    switch (opcode_) {
      case Opcode::send:
        // What is sent lies in the result, which stays until the done half has run.
        copy_bytes(arguments.outputs[0], arguments.inputs[0], bytes_);
        clear_context(arguments);
        if (other < 0) return ok_status();
        return communicator->begin_send({what_, self, other}, arguments.outputs[0], bytes_);
      case Opcode::recv:
        clear_context(arguments);
        if (other < 0) {
          std::memset(arguments.outputs[0], 0, static_cast<std::size_t>(bytes_));
          return ok_status();
        }
        return communicator->begin_receive({what_, other, self}, arguments.outputs[0], bytes_);
      case Opcode::send_done:
        return other < 0 ? ok_status() : communicator->end_send({what_, self, other});
      default:
        if (other >= 0) {
          PLIMSOLL_RETURN_IF_ERROR(communicator->end_receive({what_, other, self}));
        }
        copy_bytes(arguments.outputs[0], arguments.inputs[0], bytes_);
        return ok_status();
    }
  }

 private:
  static void clear_context(const device::KernelArguments& arguments) {
    if (arguments.outputs[1] == nullptr) return;
    std::memset(arguments.outputs[1], 0, sizeof(std::uint32_t));
  }

  Opcode opcode_;
  ir::Topology topology_;
  std::vector<std::int64_t> others_;
  std::int64_t bytes_;
  std::string name_, what_;
};

}  // namespace

KernelResult make_transfer(const ir::Instruction& instruction) {
  const Opcode opcode = instruction.opcode();
  const bool is_done = opcode == Opcode::send_done || opcode == Opcode::recv_done;
  const bool sends = opcode == Opcode::send || opcode == Opcode::send_done;
  const ir::Instruction& start = is_done ? *instruction.operand(0) : instruction;
  const auto& collective = start.attributes().collective;
  if (collective != nullptr && collective->is_host_transfer) {
    return unsupported(instruction,
                       "transfers to and from the host (arguments and results are, or "
                       "is_host_transfer=false between participants)");
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const ir::Pairs pairs, ir::sent_participants(instruction));
  const auto participants = ir::topology_of(instruction).participants();
  if (participants == 1 && !pairs.empty()) return unsupported(instruction, "to oneself");
  std::vector<std::int64_t> others(at(participants), -1);
  for (const auto& [from, to] : pairs) others[at(sends ? from : to)] = sends ? to : from;
  return KernelResult(std::make_shared<Transfer>(instruction, std::move(others),
                                                 start.shape().elements()[0].byte_size()));
}

}  // namespace plimsoll::kernels
