// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::ir {

// One name per result leaf: that of the instruction that the root tuple holds there, else the
// root's; `#LEAF` behind it inside a tuple. Names that come again get `.1`, `.2`, ....
std::vector<std::string> result_names(const Computation& entry);

}  // namespace plimsoll::ir
