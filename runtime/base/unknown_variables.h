// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// The one of `names` that a misspelt `name` is nearest to, by letters that are another, too many or
// missing; the first of several. Empty where none is near: more than a third of it is wrong.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

// A line for each variable `PLIMSOLL_*` among `entries` (NAME=VALUE) that nobody reads, with the
// name that may have been meant. In the order of the entries.
std::vector<std::string> unknown_variables(std::span<const char* const> entries);

// Logs what unknown_variables says of this process's environment, each variable once.
void warn_of_unknown_variables();

}  // namespace plimsoll
