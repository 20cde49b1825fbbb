// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace plimsoll {

// The bytes of a file. NOT_FOUND when it cannot be opened or is a folder, DATA_LOSS when reading
// fails half-way; both name `path`.
Result<std::string> read_file(const std::string& path);

}  // namespace plimsoll
