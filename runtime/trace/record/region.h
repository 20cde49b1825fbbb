// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/ir/opcode.h"
#include "runtime/ir/shape.h"

namespace plimsoll::trace {

struct ControlFlow;

// What a callback has recorded, apart from the recording: a function of arrays. Values are
// numbered: the parameters first, then the results of the steps. Immutable once made (scope.h).
struct Region {
  struct Step {
    ir::Opcode opcode = ir::Opcode::add;
    ir::Shape shape;                  // of all results, a tuple where the node's are
    std::uint8_t flags = 0;           // Node::flags that belong to the operation
    std::uint32_t name = 0;           // Node::name
    std::vector<int> operands;        // values
    std::vector<std::int64_t> words;  // Node::words
    std::shared_ptr<const ControlFlow> control;
  };
  std::vector<ir::Shape> parameters;
  std::vector<Step> steps;
  std::vector<int> outputs;  // values; arrays
  // Tells it apart from all others but for names (Cut::key).
  std::vector<std::int64_t> key;

  const ir::Shape& shape_of(int value) const;
  const ir::Shape& output_shape(int output) const { return shape_of(outputs[at(output)]); }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
};

// What a recorded loop or branch is besides its operands. The parameters of its regions:
//   loop      regions condition and body; operands and parameters are the state, then what lies
//             outside and is read (captured)
//   scan      region body; operands are the state, arrays of `length` slices, captured; parameters
//             the state, a slice of each, captured; its outputs the next state, then what is
//             stacked
//   branches  regions then and else; operands are the predicate, captured; parameters captured
// A condition, and the first of two branches, may have fewer parameters: those that were captured
// after it was recorded are left out. Results are the last state and what was stacked, or the
// outputs of a branch.
struct ControlFlow {
  enum class Form : std::uint8_t { loop, scan, branches };
  Form form = Form::loop;
  bool reversed = false;  // scan: from the last slice to the first
  int carried = 0, scanned = 0, stacked = 0;
  std::int64_t length = 0;  // scan: rounds
  std::vector<std::shared_ptr<const Region>> regions;

  const Region& body() const { return *regions.back(); }
  int result_count() const { return static_cast<int>(body().outputs.size()); }
  ir::Shape result_shape(int index) const;
  // Appends words that tell it apart from all others but for names.
  void append_key(std::vector<std::int64_t>& words) const;
};

// Fills in `region.key` from the rest.
void make_key(Region& region);

}  // namespace plimsoll::trace
