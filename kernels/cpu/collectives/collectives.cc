// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/collectives/collectives.h"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <string>

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

// Whether anyone has to come from elsewhere. Of a module with one participant, groups and pairs are
// checked, and nobody has.
Result<bool> meets_others(const ir::Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::collective_broadcast:
    case Opcode::all_reduce_start:
    case Opcode::all_gather_start: {
      PLIMSOLL_ASSIGN_OR_RETURN(const ir::Groups groups, ir::collective_groups(instruction));
      return std::any_of(groups.begin(), groups.end(),
                         [](const auto& group) { return group.size() > 1; });
    }
    case Opcode::collective_permute:
    case Opcode::collective_permute_start: {
      PLIMSOLL_RETURN_IF_ERROR(ir::permuted_participants(instruction).status());
      return ir::topology_of(instruction).participants() > 1;
    }
    default:
      return false;
  }
}

// What each result leaf is: a copy of an input leaf, or zeros (-1).
struct LeafCopy {
  int input = -1;
  ir::DType from = ir::DType::f32, to = ir::DType::f32;
  std::int64_t count = 0;
};

struct CopyLeaves {
  std::vector<LeafCopy> copies;

  Status operator()(device::Stream&, const device::KernelArguments& arguments) const {
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
};

LeafCopy zeros(const ir::Shape& shape) {
  if (!shape.is_array()) return {};
  return {-1, shape.dtype(), shape.dtype(), shape.element_count()};
}

// Appends copies of input leaves from `first` on for the leaves of `shape`.
Status append_copies(const ir::Instruction& instruction, const std::vector<const ir::Shape*>& in,
                     std::size_t first, const ir::Shape& shape, std::vector<LeafCopy>& copies) {
  for (const ir::Shape* to : ir::leaves(shape)) {
    if (first >= in.size()) return unsupported(instruction, "more results than operands");
    const ir::Shape& from = *in[first];
    if (!to->is_array() || !from.is_array()) {
      copies.push_back({});
    } else if (from.dims() != to->dims()) {
      return unsupported(instruction,
                         from.to_string() + " to " + to->to_string() + " with one participant");
    } else {
      copies.push_back({static_cast<int>(first), from.dtype(), to->dtype(), to->element_count()});
    }
    ++first;
  }
  return ok_status();
}

// Whether the only participant receives anything; who is no target gets zeros.
bool permute_receives(const ir::Instruction& instruction) {
  const auto& collective = instruction.attributes().collective;
  return collective != nullptr && !collective->source_target_pairs.empty();
}

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

KernelResult make_start(const ir::Instruction& instruction, const std::vector<const ir::Shape*>& in,
                        std::shared_ptr<const device::Kernel> inner) {
  const auto& elements = instruction.shape().elements();
  CopyLeaves copies;
  PLIMSOLL_RETURN_IF_ERROR(append_copies(instruction, in, 0, elements[0], copies.copies));
  const std::size_t result_leaf = copies.copies.size();
  const std::size_t result_count = at(ir::leaf_count(elements[1]));
  copies.copies.resize(result_leaf + result_count);
  for (std::size_t i = 2; i < elements.size(); ++i) {
    for (const ir::Shape* leaf : ir::leaves(elements[i])) copies.copies.push_back(zeros(*leaf));
  }
  return KernelResult(
      std::make_shared<AsyncStart>(std::move(inner), std::move(copies), result_leaf, result_count));
}

// Of a computation that is one operation on its parameters in order.
KernelResult make_async_start(const ir::Instruction& instruction,
                              const std::vector<const ir::Shape*>& in) {
  if (instruction.called_computations().size() != 1)
    return unsupported(instruction, "no called computation");
  const ir::Computation& computation = *instruction.called(0);
  const ir::Instruction& root = *computation.root();
  bool plain = root.operands().size() == computation.parameters().size() &&
               static_cast<std::size_t>(computation.instruction_count()) ==
                   computation.parameters().size() + 1;
  for (std::size_t i = 0; plain && i < computation.parameters().size(); ++i)
    plain = root.operands()[i] == computation.parameters()[i];
  if (!plain || !supports(root)) {
    return unsupported(instruction, "computation " + computation.name() +
                                        " (one operation with a kernel is supported)");
  }
  PLIMSOLL_ASSIGN_OR_RETURN(auto inner, make_kernel(root));
  return make_start(instruction, in, std::move(inner));
}

}  // namespace

KernelResult make_collective(const ir::Instruction& instruction) {
  const Opcode opcode = instruction.opcode();
  std::vector<const ir::Shape*> in;
  for (const ir::Instruction* operand : instruction.operands()) {
    for (const ir::Shape* leaf : ir::leaves(operand->shape())) in.push_back(leaf);
  }
  const ir::Shape& shape = instruction.shape();
  CopyLeaves result;
  PLIMSOLL_ASSIGN_OR_RETURN(const bool meets, meets_others(instruction));
  if (meets) {
    const bool starts =
        opcode == Opcode::all_gather_start || opcode == Opcode::collective_permute_start;
    if (starts && (!shape.is_tuple() || shape.elements().size() < 2)) {
      return unsupported(instruction, "result " + shape.to_string());
    }
    KernelResult kernel =
        make_many_participants(instruction, in, starts ? shape.elements()[1] : shape);
    if (!starts || !kernel.ok()) return kernel;
    return make_start(instruction, in, std::move(*kernel));
  }
  switch (opcode) {
    case Opcode::collective_permute:
      if (!permute_receives(instruction)) {
        for (const ir::Shape* leaf : ir::leaves(shape)) result.copies.push_back(zeros(*leaf));
        break;
      }
      [[fallthrough]];
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::collective_broadcast:
    case Opcode::all_reduce_start:
    case Opcode::all_reduce_done:
    case Opcode::async_update:
      PLIMSOLL_RETURN_IF_ERROR(append_copies(instruction, in, 0, shape, result.copies));
      break;
    case Opcode::async_start:
    case Opcode::all_gather_start:
    case Opcode::collective_permute_start:
    case Opcode::copy_start: {
      // (operands, result, contexts...); copy-start has (result, operand, context).
      if (!shape.is_tuple() || shape.elements().size() < 2)
        return unsupported(instruction, "result " + shape.to_string());
      if (opcode == Opcode::async_start) return make_async_start(instruction, in);
      const bool receives =
          opcode != Opcode::collective_permute_start || permute_receives(instruction);
      for (std::size_t i = 0; i < shape.elements().size(); ++i) {
        const ir::Shape& element = shape.elements()[i];
        if (i > 1 || (i == 1 && !receives)) {
          for (const ir::Shape* leaf : ir::leaves(element)) result.copies.push_back(zeros(*leaf));
        } else {
          PLIMSOLL_RETURN_IF_ERROR(append_copies(instruction, in, 0, element, result.copies));
        }
      }
      break;
    }
    case Opcode::copy_done:
    case Opcode::all_gather_done:
    case Opcode::collective_permute_done:
    case Opcode::async_done: {
      const ir::Shape& operand = instruction.operand(0)->shape();
      const int element = opcode == Opcode::copy_done ? 0 : 1;
      if (!operand.is_tuple() || static_cast<int>(operand.elements().size()) <= element)
        return unsupported(instruction, "operand " + operand.to_string());
      const auto first = at(ir::leaf_offset(operand, element));
      PLIMSOLL_RETURN_IF_ERROR(append_copies(instruction, in, first, shape, result.copies));
      break;
    }
    default:
      return unsupported(instruction, "transfers to and from outside");
  }
  return KernelResult(make_function_kernel(std::string(ir::to_string(opcode)), std::move(result)));
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
