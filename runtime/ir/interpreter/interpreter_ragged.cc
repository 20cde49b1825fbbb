// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>
#include <cstring>

#include "runtime/ir/interpreter/interpreter_parts.h"
#include "runtime/ir/participants.h"

// ragged-all-to-all: members write rows of their first operands into each other's results.
namespace plimsoll::ir::interpreter {

Result<Literal> ragged_together(Context& context, const Instruction& instruction,
                                Operands operands) {
  const std::int64_t participant = context.participation.participant;
  PLIMSOLL_ASSIGN_OR_RETURN(const Groups groups, collective_groups(instruction));
  const auto& group = *std::find_if(groups.begin(), groups.end(), [&](const auto& one) {
    return std::find(one.begin(), one.end(), participant) != one.end();
  });
  const auto members = static_cast<std::int64_t>(group.size());
  const auto self = std::find(group.begin(), group.end(), participant) - group.begin();
  const std::int64_t count = operands[2]->shape().dim(0), updates = count / members;
  const auto wrong = [&](const std::string& what) {
    return invalid_argument(
        fmt::format("{} '{}': {}", to_string(instruction.opcode()), instruction.name(), what));
  };
  for (const auto& one : groups) {
    if (one.size() == group.size() && count % members == 0) continue;
    return wrong(fmt::format("{} updates in a group of {} participants", count, one.size()));
  }
  Literal result = *operands[1];
  const std::int64_t rows = result.shape().dim(0);
  const std::int64_t row_bytes =
      rows == 0 ? 0 : static_cast<std::int64_t>(result.bytes().size()) / rows;
  const auto work = [&](std::span<const void* const> shown) -> Status {
    std::vector<bool> is_written(at(rows), false);
    for (std::int64_t m = 0; m < members; ++m) {
      const Operands theirs = *static_cast<const Operands*>(shown[at(m)]);
      const std::int64_t has = theirs[0]->shape().dim(0);
      for (std::int64_t k = 0; k < updates; ++k) {
        const std::int64_t i = self * updates + k;
        const std::int64_t from = integer_at(*theirs[2], i), size = integer_at(*theirs[3], i),
                           to = integer_at(*theirs[4], i);
        if (size != integer_at(*operands[5], m * updates + k)) {
          return wrong("another size is sent than expected");
        }
        if (size == 0) continue;
        if (size < 0 || from < 0 || to < 0 || from > has || to > rows || size > has - from ||
            size > rows - to) {
          return wrong("rows that there are not");
        }
        for (std::int64_t row = 0; row < size; ++row) {
          if (is_written[at(to + row)]) return wrong("a row is written twice");
          is_written[at(to + row)] = true;
          std::memcpy(result.mutable_bytes().data() + (to + row) * row_bytes,
                      theirs[0]->bytes().data() + (from + row) * row_bytes, at(row_bytes));
        }
      }
    }
    return ok_status();
  };
  if (topology_of(instruction).participants() == 1) {
    const void* const shown[] = {&operands};
    PLIMSOLL_RETURN_IF_ERROR(work(shown));
    return result;
  }
  if (context.participation.place == nullptr) {
    return unsupported(instruction, "several participants (interpret_together runs them all)");
  }
  const std::string what =
      fmt::format("{} '{}'", to_string(instruction.opcode()), instruction.name());
  PLIMSOLL_RETURN_IF_ERROR(context.participation.place->meet(
      {group, static_cast<std::size_t>(self), what}, &operands, work));
  return result;
}

}  // namespace plimsoll::ir::interpreter
