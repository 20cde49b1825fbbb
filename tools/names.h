// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace plimsoll::tools {

// The names in `lists`, what `flag` was given (once or more often): each a text of names with
// commas between them. INVALID_ARGUMENT says which name of which list is empty.
Result<std::vector<std::string>> split_names(std::string_view flag,
                                             const std::vector<std::string>& lists);

}  // namespace plimsoll::tools
