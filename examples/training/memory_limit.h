// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "runtime/base/byte_size.h"

namespace plimsoll::examples {

// The limit a run is asked to keep: `none`, or what runtime/base/byte_size.h reads (a share of the
// device's memory is given in bytes). Nothing for an empty text: then the environment decides.
// Throws plimsoll::Error.
std::optional<MemoryLimit> chosen_limit(const std::string& text);

}  // namespace plimsoll::examples
