// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "runtime/trace/record/recorder.h"

namespace plimsoll::autograd {

// Values that participants gather of what each has a share of, and that are to be gathered again
// rather than kept (ir::Hint::recompute): parameters, as stage 3 of ZeRO shares them out
// (Rajbhandari et al., arXiv:1910.02054). Gradients read copies of them, which are recorded where
// the first of those reads one; so all participants gather again at the same place, whatever their
// plans. What is computed of a gathered value alone by moving its elements (a parameter's own
// shape, its transpose) is computed of the copy.
//
// The value that is read last before gradients are asked for stays: it would be gathered again at
// once.
class Gathered {
 public:
  // Looks at what `recorder` has recorded so far, where there are others to gather with.
  explicit Gathered(trace::Recorder& recorder);

  // The first recorded of those that are the same value gathered by another operation, else the
  // node itself: a gradient with respect to one is with respect to all.
  trace::Node* first_of(trace::Node* node) const;
  // What gradients read in place of the node. Valid like the recording's own nodes as long as this.
  trace::NodeRef to_read(trace::Node* node);

 private:
  void add(trace::Node* node, trace::Node* gather);

  trace::Recorder& recorder_;
  // Of a value that is made of a gathered one: the gathering operation, and the first equal value.
  struct Made {
    trace::Node* gather = nullptr;
    trace::Node* first = nullptr;
  };
  std::unordered_map<const trace::Node*, Made> made_;
  std::map<std::vector<std::int64_t>, trace::Node*> firsts_;  // by operation and operands
  const trace::Node* read_last_ = nullptr;                    // a gathering operation
  std::unordered_map<const trace::Node*, trace::NodeRef> copies_;
};

}  // namespace plimsoll::autograd
