// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jit/graph/phase.h"

namespace plimsoll::jit {

// A file of the cache: a version, a checksum over all that follows it, the key and the kernel.
// `kernel` is whatever text its compiler loads kernels from. Both functions are pure.
std::string write_entry(std::string_view key, std::string_view kernel);

// What `write_entry` was given for the same key; nothing when a bit is wrong, a byte is missing or
// too many, or the key is another one.
std::optional<std::string> read_entry(std::string_view bytes, std::string_view key);

// The CPU's kernels as such texts; nothing where the text is no kernel's.
std::string write_object(const KernelObject& kernel);
std::optional<KernelObject> read_object(std::string_view text);

}  // namespace plimsoll::jit
