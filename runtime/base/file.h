// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace plimsoll {

// Of what is no regular file (a pipe, a device) and so may have no end.
inline constexpr std::int64_t kMostStreamBytes = std::int64_t{256} << 20;

// The bytes of a file. NOT_FOUND when it cannot be opened or is a folder, DATA_LOSS when reading
// fails half-way, INVALID_ARGUMENT when it is no regular file and has more than `most_bytes`; all
// name `path`.
Result<std::string> read_file(const std::string& path, std::int64_t most_bytes = kMostStreamBytes);

}  // namespace plimsoll
