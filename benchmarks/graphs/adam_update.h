// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace plimsoll::graphs {

// HLO text of Adam's update of one parameter for each of `dims` ("64,64"; f32), in place: program
// parameters 4i .. 4i + 3 are value, first and second moment (these three donated) and gradient of
// parameter i; the step size, a scalar, comes last. Result leaves 3i .. 3i + 2 are the new value
// and moments.
std::string adam_update(const std::vector<std::string>& dims);

}  // namespace plimsoll::graphs
