// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/meeting_place.h"
#include "runtime/ir/interpreter/interpreter.h"

// The parts of the interpreter; only interpreter*.cc include this. Everything takes verified
// instructions: operand shapes, attributes and called computations are as shape inference wants.
namespace plimsoll::ir::interpreter {

using Operands = std::span<const Literal* const>;

// What a computation needs to be evaluated many times.
struct Prepared {
  std::unordered_map<const Instruction*, std::size_t> position;
  // Per instruction, the last instruction that reads it (itself when nothing does).
  std::vector<std::size_t> last_use;
};

// Which of a program's participants evaluates, and where it meets the others.
struct Participation {
  std::int64_t participant = 0;
  MeetingPlace* place = nullptr;
};

// The state of one call of `interpret`.
struct Context {
  Participation participation;
  // What sends have given and receives have got, until their done halves: by the first halves.
  std::unordered_map<const Instruction*, Literal> under_way;

  // Draws made so far by `rng` and `rng-get-and-update-state`: draw n of a call always gives the
  // same numbers.
  std::uint64_t draws = 0;
  std::unordered_map<const Computation*, std::unique_ptr<Prepared>> prepared;

  explicit Context(const Participation& whose = {}) : participation(whose) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() {
    if (participation.place != nullptr) participation.place->forget(participation.participant);
  }
};

Result<Literal> evaluate(Context& context, const Computation& computation, Operands arguments);
Result<Literal> evaluate(Context& context, const Instruction& instruction, Operands operands);

// By op class, one file each.
Result<Literal> elementwise(const Instruction& instruction, Operands operands);
Result<Literal> creation(Context& context, const Instruction& instruction);
Result<Literal> movement(const Instruction& instruction, Operands operands);
Result<Literal> contraction(const Instruction& instruction, Operands operands);
Result<Literal> reduction(Context& context, const Instruction& instruction, Operands operands);
Result<Literal> irregular(Context& context, const Instruction& instruction, Operands operands);
Result<Literal> random(Context& context, const Instruction& instruction, Operands operands);
Result<Literal> control(Context& context, const Instruction& instruction, Operands operands);
Result<Literal> collective(Context& context, const Instruction& instruction, Operands operands);

// The result of a collective, or what the start half of one adds to its operands, of `shape`: the
// operands of all participants go into it.
Result<Literal> together(Context& context, const Instruction& instruction, Operands operands,
                         const Shape& shape);

// A ragged-all-to-all: rows of each member's operand in the results of others.
Result<Literal> ragged_together(Context& context, const Instruction& instruction,
                                Operands operands);

// One half of what one participant sends another one.
Result<Literal> transfer(Context& context, const Instruction& instruction, Operands operands);

// UNIMPLEMENTED `opcode 'name': what`.
Status unsupported(const Instruction& instruction, std::string_view what);

// The integer at `index`, u64 values beyond int64 saturated.
std::int64_t integer_at(const Literal& literal, std::int64_t index);

// Where `index` lies in an array of these strides, in elements.
inline std::int64_t offset_of(const Dims& strides, std::span<const std::int64_t> index) {
  std::int64_t offset = 0;
  for (int i = 0; i < strides.size(); ++i) offset += strides[i] * index[at(i)];
  return offset;
}

// Steps a row-major multi-index; false after the last one. Indices of an empty dims list have one
// position; of dims with a zero, none: check element counts first.
template <typename Index, typename Sizes>
bool next_index(Index& index, const Sizes& sizes) {
  for (int i = static_cast<int>(std::size(sizes)) - 1; i >= 0; --i) {
    if (++*(std::begin(index) + i) < *(std::begin(sizes) + i)) return true;
    *(std::begin(index) + i) = 0;
  }
  return false;
}

}  // namespace plimsoll::ir::interpreter
