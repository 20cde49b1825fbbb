// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "runtime/base/byte_size.h"

namespace plimsoll::examples {

// The limit a run is asked to keep: `none`, or what runtime/base/byte_size.h reads (a share of the
// device's memory is given in bytes). Nothing where nothing is asked: then the environment decides.
// Throws plimsoll::Error.
std::optional<MemoryLimit> chosen_limit(const std::optional<std::string>& asked);

}  // namespace plimsoll::examples
