// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/trace/record/recorder.h"
#include "runtime/trace/record/region.h"

namespace plimsoll::trace {

// While it lives, what is recorded belongs to a callback: to the condition or body of a loop, or to
// a branch. What it reads of outside is captured. When it ends, its nodes can be used no more
// (kEnded), and what was extracted remains. One lies wholly within another.
class Scope {
 public:
  // INVALID_ARGUMENT where `recording` is in too many of them.
  static Status check_depth(const Recording& recording);
  explicit Scope(Recording& recording) : recording_(recording) { recording_.enter(); }
  ~Scope() { recording_.leave(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // A value that the region will be given. Kept alive by the scope.
  Node* parameter(const ir::Shape& shape);

  // What `outputs` (arrays) need as a function of `parameters`, which are any nodes of the scope:
  // of what lies behind them nothing is taken. Where it reads what was recorded outside, that
  // becomes a parameter behind those: the ones in `captured` already, in their order, then
  // others, which are appended.
  Result<std::shared_ptr<const Region>> extract(std::span<Node* const> parameters,
                                                std::span<Node* const> outputs,
                                                std::vector<NodeRef>& captured);

 private:
  Recording& recording_;
  std::vector<NodeRef> parameters_;
};

// Records the steps of `region` once more, on `arguments` (one for each parameter): the outputs.
std::vector<NodeRef> record_region(Recording& recording, const Region& region,
                                   std::span<Node* const> arguments);

// Records a loop or branch: a tuple (kTupleResult) of its results, of which there is at least one.
// Preconditions: that regions and operands fit.
NodeRef record_control(Recording& recording, ControlFlow control, std::span<Node* const> operands);

}  // namespace plimsoll::trace
