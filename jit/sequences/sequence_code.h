// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/emit/kernel_code.h"
#include "jit/graph/graph.h"
#include "jit/jit.h"
#include "runtime/base/status.h"
#include "runtime/device/launch_sequence.h"

namespace plimsoll::jit {

// A sequence whose launches are all kernels of this compiler.
struct SequenceGraph {
  const device::SequenceText* text = nullptr;
  std::vector<std::optional<KernelGraph>> kernels;  // per step; of launches

  // Equal where one code serves both.
  std::string canonical_text() const;
  // What a run's addresses end with: the kernels' tables, one behind the other.
  std::vector<std::shared_ptr<const ir::Literal>> tables() const;
};

// Nothing where a launch is none of the compiler's kernels, and where another way serves as well:
// kernels are so long that what surrounds them does not count, rounds are few, or kernels are many.
// Refers to `text`.
std::optional<SequenceGraph> sequence_graph(const device::SequenceText& text, SequenceMode mode);

// What the code asks now and then, where it is in a loop; it ends where the answer is not 0.
struct SequenceControl {
  std::int32_t (*ask)(SequenceControl*) = nullptr;
};

// One phase: a function (PhaseEntry) of addresses as inputs, no outputs, the SequenceControl as its
// workspace, and the rounds that are over, of a loop that is the first step, as `begin`.
Result<KernelCode> write_sequence(const SequenceGraph& graph, const std::string& id,
                                  const KernelTarget& target);

}  // namespace plimsoll::jit
