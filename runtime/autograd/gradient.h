// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/trace/record/recorder.h"

namespace plimsoll::autograd {

enum class Unused : std::uint8_t { error, zeros, null };

// Records the vector-Jacobian product in the graph of `recorder`: for each of `wrt`, the sum over
// the outputs of output_gradients[i] (null: ones) times d outputs[i] / d wrt. Results have the
// shapes of `wrt`; `unused` says what becomes of a `wrt` that no output depends on.
// INVALID_ARGUMENT for integer tensors; UNIMPLEMENTED names an operation without a gradient. On an
// error the graph is as before.
Result<std::vector<trace::NodeRef>> gradients(trace::Recorder& recorder,
                                              std::span<trace::Node* const> outputs,
                                              std::span<trace::Node* const> output_gradients,
                                              std::span<trace::Node* const> wrt, Unused unused);

// FAILED_PRECONDITION where gradients of `outputs` would be lost: one of them is, or depends on, a
// value that was computed from a variable (trace::kVariable) and evaluated, so that how it was
// computed is no longer known. What stop_gradient lies before is not looked at.
Status check_unbroken(trace::Recorder& recorder, std::span<trace::Node* const> outputs);

}  // namespace plimsoll::autograd
