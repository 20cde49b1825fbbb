// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/collectives/ragged.h"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/collectives/members.h"
#include "runtime/base/index.h"
#include "runtime/device/communicator.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

using device::Communicator;
using device::Rows;

// One update, as its sender tells its receiver.
struct Update {
  std::int64_t rows = 0, place = 0;
};

// A vector of offsets or sizes. What no s64 holds is the largest one, which no array has.
struct Numbers {
  ir::DType dtype = ir::DType::s64;
  const void* data = nullptr;

  std::int64_t operator[](std::size_t i) const {
    switch (dtype) {
      case ir::DType::s32:
        return static_cast<const std::int32_t*>(data)[i];
      case ir::DType::u32:
        return static_cast<const std::uint32_t*>(data)[i];
      case ir::DType::u64:
        return static_cast<std::int64_t>(std::min<std::uint64_t>(
            static_cast<const std::uint64_t*>(data)[i], std::numeric_limits<std::int64_t>::max()));
      default:
        return static_cast<const std::int64_t*>(data)[i];
    }
  }
};

class RaggedTrades final : public KernelBase {
 public:
  RaggedTrades(const ir::Instruction& instruction, ir::Groups groups)
      : KernelBase(std::string(ir::to_string(instruction.opcode())), device::KernelOrigin::own),
        is_alone_(ir::topology_of(instruction).participants() == 1),
        updates_(at(instruction.operand(2)->shape().dim(0)) / groups[0].size()),
        in_rows_(instruction.operand(0)->shape().dim(0)),
        out_rows_(instruction.operand(1)->shape().dim(0)),
        row_bytes_(dtype_bytes(instruction.shape().dtype())),
        members_(instruction, std::move(groups)) {
    for (int i = 1; i < instruction.shape().rank(); ++i) row_bytes_ *= instruction.shape().dim(i);
    for (int i = 2; i < 6; ++i) dtypes_[i - 2] = instruction.operand(i)->shape().dtype();
    const std::int64_t bytes =
        instruction.operand(2)->shape().dim(0) * static_cast<std::int64_t>(sizeof(Update));
    told_ = reserve_workspace(bytes);
    heard_ = reserve_workspace(bytes);
  }

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    constexpr std::int64_t kNobodyElse[] = {0};
    Communicator::Call call{members_.what(), kNobodyElse, 0};
    if (!is_alone_) {
      PLIMSOLL_ASSIGN_OR_RETURN(call, members_.call_of(stream));
    }
    Communicator::Memory* const memory = is_alone_ ? nullptr : stream.communicator()->memory();
    const std::size_t members = call.group.size(), count = members * updates_;
    Numbers numbers[4];
    std::vector<std::uint64_t> read[4];
    for (std::size_t i = 0; i < 4; ++i) {
      numbers[i] = {dtypes_[i], arguments.inputs[2 + i]};
      if (memory == nullptr) continue;
      read[i].resize(count);
      PLIMSOLL_RETURN_IF_ERROR(
          memory->read(read[i].data(), numbers[i].data,
                       static_cast<std::int64_t>(count) * dtype_bytes(dtypes_[i])));
      numbers[i].data = read[i].data();
    }
    const auto& [begins, sizes, places, expected] = numbers;
    auto* const workspace = static_cast<std::byte*>(arguments.workspace);
    auto* const told = reinterpret_cast<Update*>(workspace + told_);
    auto* heard = reinterpret_cast<Update*>(workspace + heard_);
    for (std::size_t i = 0; i < count; ++i) {
      told[i] = {sizes[i], places[i]};
      if (lies_within(begins[i], sizes[i], in_rows_)) continue;
      return wrong(call, fmt::format("participant {} sends {} rows from row {} on, of {}",
                                     call.group[call.self], sizes[i], begins[i], in_rows_));
    }
    if (members == 1) {
      heard = told;
    } else {
      std::vector<Rows> sends, receives;
      const auto bytes = static_cast<std::int64_t>(updates_ * sizeof(Update));
      for (std::size_t m = 0; m < members; ++m) {
        sends.push_back({reinterpret_cast<std::byte*>(told + m * updates_), 1, bytes, bytes});
        receives.push_back({reinterpret_cast<std::byte*>(heard + m * updates_), 1, bytes, bytes});
      }
      Communicator& host = memory == nullptr ? *stream.communicator() : memory->host();
      PLIMSOLL_RETURN_IF_ERROR(host.exchange(call, sends, receives));
    }
    PLIMSOLL_RETURN_IF_ERROR(check_heard(call, heard, expected));
    if (memory == nullptr) {
      copy_bytes(arguments.outputs[0], arguments.inputs[1], out_rows_ * row_bytes_);
    } else if (arguments.outputs[0] != arguments.inputs[1]) {
      PLIMSOLL_RETURN_IF_ERROR(
          memory->copy(arguments.outputs[0], arguments.inputs[1], out_rows_ * row_bytes_));
    }
    std::vector<Rows> sends(count), receives(count);
    for (std::size_t m = 0; m < members; ++m) {
      for (std::size_t k = 0; k < updates_; ++k) {
        const std::size_t i = m * updates_ + k;
        sends[k * members + m] = rows_of(arguments.inputs[0], begins[i], sizes[i]);
        receives[k * members + m] = rows_of(arguments.outputs[0], heard[i].place, heard[i].rows);
      }
    }
    if (!is_alone_) return stream.communicator()->exchange(call, sends, receives);
    for (std::size_t k = 0; k < updates_; ++k) {
      copy_bytes(receives[k].data, sends[k].data, sends[k].bytes);
    }
    return ok_status();
  }

 private:
  // Where there are no rows, any place will do.
  static bool lies_within(std::int64_t begin, std::int64_t rows, std::int64_t all) {
    return rows == 0 || (rows > 0 && begin >= 0 && rows <= all && begin <= all - rows);
  }

  static void copy_bytes(void* to, const void* from, std::int64_t bytes) {
    if (to == from) return;
    device::parallel_for(bytes, 1 << 18, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(byte_offset(to, begin), byte_offset(from, begin),
                  static_cast<std::size_t>(end - begin));
    });
  }

  Rows rows_of(const void* array, std::int64_t begin, std::int64_t rows) const {
    auto* const data = static_cast<std::byte*>(const_cast<void*>(array));
    if (rows == 0) return {data, 1, 0, 0};
    return {data + begin * row_bytes_, 1, rows * row_bytes_, rows * row_bytes_};
  }

  static Status wrong(const Communicator::Call& call, const std::string& what) {
    return invalid_argument(fmt::format("{}: {}", call.what, what));
  }

  // What others send this member, each from its own number on, fits its result and what it was
  // told.
  Status check_heard(const Communicator::Call& call, const Update* heard,
                     const Numbers& expected) const {
    struct Written {
      std::int64_t begin = 0, end = 0, by = 0;
    };
    const std::int64_t self = call.group[call.self];
    std::vector<Written> written;
    for (std::size_t i = 0; i < call.group.size() * updates_; ++i) {
      const std::int64_t sender = call.group[i / updates_];
      const auto [rows, place] = heard[i];
      if (rows != expected[i]) {
        return wrong(call, fmt::format("participant {} sends participant {} {} rows, which expects "
                                       "{} (its recv_sizes)",
                                       sender, self, rows, expected[i]));
      }
      if (!lies_within(place, rows, out_rows_)) {
        return wrong(call, fmt::format("participant {} sends participant {} {} rows to row {}, of "
                                       "{}",
                                       sender, self, rows, place, out_rows_));
      }
      if (rows > 0) written.push_back({place, place + rows, sender});
    }
    std::sort(written.begin(), written.end(),
              [](const Written& a, const Written& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < written.size(); ++i) {
      if (written[i].begin >= written[i - 1].end) continue;
      return wrong(call, fmt::format("participants {} and {} both send participant {} its row {}",
                                     written[i - 1].by, written[i].by, self, written[i].begin));
    }
    return ok_status();
  }

  bool is_alone_;
  std::size_t updates_;  // from one member to one other
  std::int64_t in_rows_, out_rows_, row_bytes_;
  Members members_;
  ir::DType dtypes_[4];
  std::int64_t told_ = 0, heard_ = 0;  // in the workspace
};

}  // namespace

KernelResult make_ragged_all_to_all(const ir::Instruction& instruction) {
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Groups groups, ir::collective_groups(instruction));
  const std::int64_t count = instruction.operand(2)->shape().dim(0);
  const std::size_t members = groups[0].size();
  for (const auto& group : groups) {
    if (group.size() == members && at(count) % members == 0) continue;
    return invalid_argument(fmt::format(
        "{} {}: {} updates in a group of {} participants (groups are of one size, and offsets and "
        "sizes hold as many numbers for each member)",
        ir::to_string(instruction.opcode()), instruction.name(), count, group.size()));
  }
  return KernelResult(std::make_shared<RaggedTrades>(instruction, std::move(groups)));
}

}  // namespace plimsoll::kernels
