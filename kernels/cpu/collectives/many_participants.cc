// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/collectives/many_participants.h"

#include <fmt/core.h>
#include <cstring>
#include <numeric>
#include <string>

#include "kernels/cpu/collectives/members.h"
#include "kernels/cpu/collectives/reduction.h"
#include "runtime/base/index.h"

namespace plimsoll::kernels {
namespace {

using device::Communicator;
using device::Rows;
using ir::Opcode;

Status wrong(const ir::Instruction& instruction, const std::string& what) {
  return invalid_argument(
      fmt::format("{} {}: {}", ir::to_string(instruction.opcode()), instruction.name(), what));
}

// An array that is cut along one dimension, a piece for each member: `rows` x members x `bytes`.
struct Cut {
  std::int64_t rows = 1, bytes = 0;

  Rows piece(std::byte* array, std::size_t member, std::size_t members) const {
    return {array + static_cast<std::int64_t>(member) * bytes, rows, bytes,
            static_cast<std::int64_t>(members) * bytes};
  }
  // All of an array that is one such piece.
  Rows whole(std::byte* array) const { return {array, rows, bytes, bytes}; }
};

// Of an array of which `piece` is a piece along `dimension`.
Cut cut_of(const ir::Shape& piece, int dimension) {
  Cut cut;
  cut.bytes = dtype_bytes(piece.dtype());
  for (int i = 0; i < piece.rank(); ++i) {
    (i < dimension ? cut.rows : cut.bytes) *= piece.dim(i);
  }
  return cut;
}

std::byte* bytes_at(const void* pointer) {
  return static_cast<std::byte*>(const_cast<void*>(pointer));
}

// all-reduce and reduce-scatter.
class Reduces final : public KernelBase {
 public:
  struct Array {
    std::int64_t rows = 1, row = 0;
    std::shared_ptr<const device::Reduction> reduction;
  };
  Reduces(std::string name, Members members, std::vector<Array> arrays, bool scatters)
      : KernelBase(std::move(name), device::KernelOrigin::own),
        members_(std::move(members)),
        arrays_(std::move(arrays)),
        scatters_(scatters) {}

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    PLIMSOLL_ASSIGN_OR_RETURN(const Communicator::Call call, members_.call_of(stream));
    std::vector<Communicator::Reduce> reduced;
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      const Array& array = arrays_[i];
      reduced.push_back({arguments.inputs[i], arguments.outputs[i], array.rows, array.row,
                         array.reduction.get()});
    }
    return scatters_ ? stream.communicator()->reduce_scatter(call, reduced)
                     : stream.communicator()->all_reduce(call, reduced);
  }

 private:
  Members members_;
  std::vector<Array> arrays_;
  bool scatters_;
};

// all-gather, and all-to-all along a dimension: every array has a place for each member's piece,
// and is a piece itself or has one for each member.
class Trades final : public KernelBase {
 public:
  Trades(std::string name, Members members, std::vector<Cut> cuts, bool gathers)
      : KernelBase(std::move(name), device::KernelOrigin::own),
        members_(std::move(members)),
        cuts_(std::move(cuts)),
        gathers_(gathers) {}

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    PLIMSOLL_ASSIGN_OR_RETURN(Communicator::Call call, members_.call_of(stream));
    call.sends_the_same = gathers_;
    std::vector<Rows> sends, receives;
    for (std::size_t i = 0; i < cuts_.size(); ++i) {
      std::byte* const in = bytes_at(arguments.inputs[i]);
      for (std::size_t m = 0; m < call.group.size(); ++m) {
        sends.push_back(gathers_ ? cuts_[i].whole(in) : cuts_[i].piece(in, m, call.group.size()));
        receives.push_back(cuts_[i].piece(bytes_at(arguments.outputs[i]), m, call.group.size()));
      }
    }
    return stream.communicator()->exchange(call, sends, receives);
  }

 private:
  Members members_;
  std::vector<Cut> cuts_;
  bool gathers_;
};

// all-to-all of one operand for each member.
class Swaps final : public KernelBase {
 public:
  Swaps(std::string name, Members members, std::int64_t bytes)
      : KernelBase(std::move(name), device::KernelOrigin::own),
        members_(std::move(members)),
        bytes_(bytes) {}

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    PLIMSOLL_ASSIGN_OR_RETURN(const Communicator::Call call, members_.call_of(stream));
    std::vector<Rows> sends, receives;
    for (std::size_t m = 0; m < call.group.size(); ++m) {
      sends.push_back({bytes_at(arguments.inputs[m]), 1, bytes_, bytes_});
      receives.push_back({bytes_at(arguments.outputs[m]), 1, bytes_, bytes_});
    }
    return stream.communicator()->exchange(call, sends, receives);
  }

 private:
  Members members_;
  std::int64_t bytes_;
};

// Whole arrays from one member to others: collective-broadcast and collective-permute. Who receives
// nothing gets zeros.
class Sends final : public KernelBase {
 public:
  // By participant: to whom it sends; and from whom it receives, or -1.
  struct Ways {
    std::vector<std::vector<std::int64_t>> targets;
    std::vector<std::int64_t> source;
  };
  Sends(std::string name, Members members, std::vector<std::int64_t> bytes, Ways ways)
      : KernelBase(std::move(name), device::KernelOrigin::own),
        members_(std::move(members)),
        bytes_(std::move(bytes)),
        ways_(std::move(ways)) {}

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    PLIMSOLL_ASSIGN_OR_RETURN(const Communicator::Call call, members_.call_of(stream));
    const std::size_t members = call.group.size();
    const std::int64_t self = call.group[call.self];
    std::vector<Rows> sends(bytes_.size() * members), receives(bytes_.size() * members);
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const std::int64_t source = ways_.source[at(self)];
      for (std::size_t m = 0; m < members; ++m) {
        if (call.group[m] == source) {
          receives[i * members + m] = {bytes_at(arguments.outputs[i]), 1, bytes_[i], bytes_[i]};
        }
        for (const std::int64_t target : ways_.targets[at(self)]) {
          if (call.group[m] != target) continue;
          sends[i * members + m] = {bytes_at(arguments.inputs[i]), 1, bytes_[i], bytes_[i]};
        }
      }
      if (source < 0) {
        PLIMSOLL_RETURN_IF_ERROR(clear(*stream.communicator(), arguments.outputs[i], bytes_[i]));
      }
    }
    return stream.communicator()->exchange(call, sends, receives);
  }

 private:
  static Status clear(Communicator& communicator, void* to, std::int64_t bytes) {
    Communicator::Memory* const memory = communicator.memory();
    if (memory != nullptr) return memory->clear(to, bytes);
    std::memset(to, 0, static_cast<std::size_t>(bytes));
    return ok_status();
  }

  Members members_;
  std::vector<std::int64_t> bytes_;
  Ways ways_;
};

Opcode without_start(Opcode opcode) {
  switch (opcode) {
    case Opcode::all_reduce_start:
      return Opcode::all_reduce;
    case Opcode::all_gather_start:
      return Opcode::all_gather;
    case Opcode::collective_permute_start:
      return Opcode::collective_permute;
    default:
      return opcode;
  }
}

// One result for each operand, of the dtype that it has.
Status check_results(const ir::Instruction& instruction, const std::vector<const ir::Shape*>& in,
                     const std::vector<const ir::Shape*>& out) {
  if (in.size() != out.size()) {
    return unsupported(instruction,
                       fmt::format("{} results of {} operands", out.size(), in.size()));
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i]->is_array() || !out[i]->is_array() || in[i]->dtype() != out[i]->dtype()) {
      return unsupported(instruction, in[i]->to_string() + " to " + out[i]->to_string());
    }
  }
  return ok_status();
}

// The one dimension that members' pieces lie along, where `large` is cut in `members` pieces like
// `small`.
Result<int> piece_dimension(const ir::Instruction& instruction, const ir::Shape& small,
                            const ir::Shape& large, const ir::Groups& groups) {
  const auto& dimensions = instruction.attributes().dimensions;
  if (dimensions.size() != 1) return wrong(instruction, "needs one dimension");
  const int dimension = static_cast<int>(dimensions[0]);
  for (const auto& group : groups) {
    const auto members = static_cast<std::int64_t>(group.size());
    if (small.dim(dimension) * members == large.dim(dimension)) continue;
    return wrong(
        instruction,
        fmt::format("{} and {} in a group of {} participants (dimension {} of the larger one "
                    "is that of the other times the members)",
                    small.to_string(), large.to_string(), members, dimension));
  }
  return dimension;
}

KernelResult make_reduces(const ir::Instruction& instruction,
                          const std::vector<const ir::Shape*>& in,
                          const std::vector<const ir::Shape*>& out, ir::Groups groups,
                          bool scatters) {
  PLIMSOLL_RETURN_IF_ERROR(check_results(instruction, in, out));
  std::vector<Reduces::Array> arrays;
  for (std::size_t i = 0; i < in.size(); ++i) {
    Reduces::Array array;
    array.row = in[i]->element_count();
    if (scatters) {
      PLIMSOLL_ASSIGN_OR_RETURN(const int dimension,
                                piece_dimension(instruction, *out[i], *in[i], groups));
      const Cut cut = cut_of(*out[i], dimension);
      array.rows = cut.rows;
      array.row = cut.bytes / dtype_bytes(in[i]->dtype());
    }
    PLIMSOLL_ASSIGN_OR_RETURN(array.reduction,
                              make_reduction(*instruction.to_apply(), in[i]->dtype()));
    arrays.push_back(std::move(array));
  }
  return KernelResult(std::make_shared<Reduces>(std::string(ir::to_string(instruction.opcode())),
                                                Members(instruction, std::move(groups)),
                                                std::move(arrays), scatters));
}

KernelResult make_trades(const ir::Instruction& instruction,
                         const std::vector<const ir::Shape*>& in,
                         const std::vector<const ir::Shape*>& out, ir::Groups groups,
                         bool gathers) {
  PLIMSOLL_RETURN_IF_ERROR(check_results(instruction, in, out));
  std::vector<Cut> cuts;
  for (std::size_t i = 0; i < in.size(); ++i) {
    ir::Shape piece = *in[i];
    if (!gathers) {
      const auto split = instruction.attributes().dimensions[0];
      ir::Dims dims = piece.dims();
      const auto members = static_cast<std::int64_t>(groups[0].size());
      if (dims[static_cast<int>(split)] % members != 0) {
        return wrong(instruction,
                     fmt::format("{} in a group of {} participants (dimension {} is cut in as many "
                                 "equal pieces as there are members)",
                                 piece.to_string(), members, split));
      }
      dims[static_cast<int>(split)] /= members;
      piece = ir::Shape(piece.dtype(), dims);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const int dimension,
                              piece_dimension(instruction, piece, *out[i], groups));
    cuts.push_back(cut_of(piece, dimension));
  }
  return KernelResult(std::make_shared<Trades>(std::string(ir::to_string(instruction.opcode())),
                                               Members(instruction, std::move(groups)),
                                               std::move(cuts), gathers));
}

KernelResult make_swaps(const ir::Instruction& instruction, const std::vector<const ir::Shape*>& in,
                        const std::vector<const ir::Shape*>& out, ir::Groups groups) {
  PLIMSOLL_RETURN_IF_ERROR(check_results(instruction, in, out));
  for (const auto& group : groups) {
    if (group.size() == in.size()) continue;
    return wrong(instruction,
                 fmt::format("{} operands in a group of {} participants (one for each member)",
                             in.size(), group.size()));
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (*in[i] == *in[0] && *out[i] == *in[0]) continue;
    return wrong(instruction, "operands of different shapes");
  }
  return KernelResult(std::make_shared<Swaps>(std::string(ir::to_string(instruction.opcode())),
                                              Members(instruction, std::move(groups)),
                                              in[0]->byte_size()));
}

KernelResult make_sends(const ir::Instruction& instruction, const std::vector<const ir::Shape*>& in,
                        const std::vector<const ir::Shape*>& out, ir::Groups groups,
                        Sends::Ways ways) {
  PLIMSOLL_RETURN_IF_ERROR(check_results(instruction, in, out));
  std::vector<std::int64_t> bytes;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!(*in[i] == *out[i])) {
      return unsupported(instruction, in[i]->to_string() + " to " + out[i]->to_string());
    }
    bytes.push_back(in[i]->byte_size());
  }
  return KernelResult(std::make_shared<Sends>(std::string(ir::to_string(instruction.opcode())),
                                              Members(instruction, std::move(groups)),
                                              std::move(bytes), std::move(ways)));
}

}  // namespace

Status unsupported(const ir::Instruction& instruction, const std::string& what) {
  return unimplemented(
      fmt::format("{} {}: {}", ir::to_string(instruction.opcode()), instruction.name(), what));
}

KernelResult make_many_participants(const ir::Instruction& instruction,
                                    const std::vector<const ir::Shape*>& in,
                                    const ir::Shape& result) {
  const std::vector<const ir::Shape*> out = ir::leaves(result);
  const auto participants = ir::topology_of(instruction).participants();
  Sends::Ways ways;
  const auto nobody_sends = [&] {
    ways.targets.resize(at(participants));
    ways.source.assign(at(participants), -1);
  };
  const Opcode opcode = without_start(instruction.opcode());
  if (opcode == Opcode::collective_permute) {
    if (in.size() != out.size()) {
      return unsupported(instruction, "the form that writes into an operand");
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const ir::Pairs pairs, ir::permuted_participants(instruction));
    nobody_sends();
    for (const auto& [source, target] : pairs) {
      ways.targets[at(source)].push_back(target);
      ways.source[at(target)] = source;
    }
    // All come, whether or not they send something.
    ir::Groups all(1, std::vector<std::int64_t>(at(participants)));
    std::iota(all[0].begin(), all[0].end(), 0);
    return make_sends(instruction, in, out, std::move(all), std::move(ways));
  }
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Groups groups, ir::collective_groups(instruction));
  switch (opcode) {
    case Opcode::all_reduce:
    case Opcode::reduce_scatter:
      return make_reduces(instruction, in, out, std::move(groups),
                          opcode == Opcode::reduce_scatter);
    case Opcode::all_gather:
      return make_trades(instruction, in, out, std::move(groups), true);
    case Opcode::all_to_all:
      return instruction.attributes().dimensions.empty()
                 ? make_swaps(instruction, in, out, std::move(groups))
                 : make_trades(instruction, in, out, std::move(groups), false);
    case Opcode::collective_broadcast:
      nobody_sends();
      for (const auto& group : groups) {
        ways.targets[at(group[0])] = group;
        for (const std::int64_t member : group) ways.source[at(member)] = group[0];
      }
      return make_sends(instruction, in, out, std::move(groups), std::move(ways));
    default:
      return unsupported(instruction, "transfers to and from outside");
  }
}

}  // namespace plimsoll::kernels
