// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace plimsoll {

// The user's folder for what can be made again: `$XDG_CACHE_HOME/plimsoll`, else
// `$HOME/.cache/plimsoll`; empty when neither variable is an absolute path. Nothing is made.
std::string cache_folder();

// The text of `folder/name`. NOT_FOUND without such a file; FAILED_PRECONDITION for one that
// another user owns or may write to.
Result<std::string> read_cache_file(const std::string& folder, const std::string& name);

// Writes `folder/name` so that another process sees the old file or the new one whole. Missing
// folders are made, for this user only (0700). UNAVAILABLE when that or the writing fails.
Status write_cache_file(const std::string& folder, const std::string& name, std::string_view text);

}  // namespace plimsoll
