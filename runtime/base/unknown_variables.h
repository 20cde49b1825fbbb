// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace plimsoll {

// The one of `names` that a misspelt `name` is nearest to, by letters that are another, too many or
// missing; the first of several. Empty where none is near: more than a third of it is wrong.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

// A line for each variable `PLIMSOLL_*` among `entries` (NAME=VALUE) that nobody reads, with the
// name that may have been meant; of names with small letters only those that are near another one.
// One that is set to nothing counts as not set. In the order of the entries.
std::vector<std::string> unknown_variables(std::span<const char* const> entries);

// What unknown_variables says of this process's environment is logged, each variable once; with
// PLIMSOLL_STRICT=1 it is INVALID_ARGUMENT instead.
Status check_unknown_variables();

}  // namespace plimsoll
