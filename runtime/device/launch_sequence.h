// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace plimsoll {
struct Stop;
}

namespace plimsoll::ir {
class Instruction;
}

namespace plimsoll::device {

class JointLaunch;
class Kernel;
class Stream;

// One step of a sequence. Its places are a range of SequenceText::places: of a launch the inputs,
// outputs and workspaces (one a part), in this order; of a copy the source and the destination; of
// a loop or a branch what decides it.
struct SequenceStep {
  enum class Kind : std::uint8_t {
    launch,  // of `kernel`
    joint,   // of `joint`, or of the steps up to `end`, which are its parts
    copy,    // of `bytes`
    loop,    // `rounds` of them, or as long as the steps before `body` leave a pred that is true
    branch,  // of the blocks up to `end` one: by a pred (true: the first), or by an s32's number;
             // one that names none is the last
    block,   // of a branch: the steps up to `end`
  };
  Kind kind = Kind::launch;
  std::int32_t places = 0;
  std::int32_t input_count = 0, output_count = 0, workspace_count = 0;
  const Kernel* kernel = nullptr;
  const JointLaunch* joint = nullptr;
  const ir::Instruction* instruction = nullptr;  // that `kernel` is of; null: of none as it stands
  std::string_view name;                         // the instruction's, for errors
  std::int64_t bytes = 0;
  std::int64_t rounds = -1;
  bool is_pred = false;
  // Steps [this + 1, body) are a loop's condition, [body, end) its body.
  std::int32_t body = 0, end = 0;
};

// Steps one after the other, and the places that they use: of each the number of an address in
// those of a run, or -1 for none.
struct SequenceText {
  std::vector<SequenceStep> steps;
  std::vector<std::int32_t> places;
  std::int32_t addresses = 0;
};

// Whether a launch's input and output of these numbers are one buffer.
inline bool is_in_place(const SequenceText& text, const SequenceStep& launch, int input,
                        int output) {
  return text.places[static_cast<std::size_t>(launch.places + input)] ==
         text.places[static_cast<std::size_t>(launch.places + launch.input_count + output)];
}

// Launches that are known beforehand, with the loops and branches around them, as one. Each has the
// bits that it has alone. Made by KernelProvider::sequence. Immutable and thread-safe.
class LaunchSequence {
 public:
  virtual ~LaunchSequence() = default;
  // `addresses`: SequenceText::addresses of them; the same number is the same memory all the time.
  // Of a loop that is the first step, the first `done` rounds are over. `stop` is looked at again
  // and again; null: never.
  virtual Status run(Stream& stream, std::span<void* const> addresses, std::int64_t done,
                     const Stop* stop) const = 0;
};

}  // namespace plimsoll::device
