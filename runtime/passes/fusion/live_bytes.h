// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::passes {

// The bytes of values that are alive while the instructions of a computation run in some order.
// Views take none, nor do parameters, constants and the entry's results, whose buffers are the
// caller's; a result takes over the buffer of an operand that dies with it where that is sound
// (ir/fusions/in_place.h). Instructions are told by their number in the computation's order.
class LiveBytes {
 public:
  explicit LiveBytes(const ir::Computation& computation);

  // Runs these at once (their results are born together, their operands die together): the bytes
  // alive meanwhile. Each instruction runs once, after what it reads.
  std::int64_t run(std::span<const int> together);
  // What is alive between two runs.
  std::int64_t live() const { return live_; }
  // Of the results that stay until the end.
  std::int64_t kept() const { return kept_; }

  struct Needs {
    std::int64_t results = 0;   // bytes that running the instruction now would add
    std::int64_t operands = 0;  // of its distinct operands
    std::int64_t freed = 0;     // of these, what dies with it
  };
  Needs needs(int instruction) const;

  // Takes back the runs since a mark.
  struct Mark {
    std::size_t reads = 0;
    std::int64_t live = 0;
  };
  Mark mark() const { return {reads_.size(), live_}; }
  void undo(const Mark& to);

 private:
  struct Reuse {
    int operand, result;  // buffers
  };
  struct Access {
    std::vector<int> reads, writes;  // distinct buffers
    std::vector<Reuse> reuse;
  };

  // Bytes of the results that get buffers of their own.
  std::int64_t fresh_bytes(const Access& access) const;

  std::vector<Access> accesses_;
  std::vector<std::int64_t> bytes_;  // per buffer
  std::vector<int> pending_;         // per buffer: reads to come, and one when it is kept
  std::vector<int> reads_;           // what runs have read, in order
  std::int64_t live_ = 0, kept_ = 0;
};

}  // namespace plimsoll::passes
