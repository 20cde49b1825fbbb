// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jit/graph/phase.h"

namespace plimsoll::jit {

// A kernel as it lies on disk: a version, a checksum over all that follows it, the key and the
// kernel. Both functions are pure.
std::string write_entry(std::string_view key, const KernelObject& kernel);

// What `write_entry` was given for the same key; nothing when a bit is wrong, a byte is missing or
// too many, or the key is another one.
std::optional<KernelObject> read_entry(std::string_view bytes, std::string_view key);

}  // namespace plimsoll::jit
