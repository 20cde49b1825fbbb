// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace plimsoll {

// Makes `path` a file of these pieces, one after the other, or leaves it as it was, whatever ends
// the process meanwhile: they go to a file beside it, to the disk, and then to its name. What a
// killed writer leaves behind is a file `path.PID.partial`. A link at `path` is replaced, not
// followed. UNAVAILABLE, naming the path, where the disk is full or the folder can't be written.
Status write_atomically(const std::string& path,
                        std::span<const std::span<const std::byte>> pieces);

}  // namespace plimsoll
