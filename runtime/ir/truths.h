// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace plimsoll::ir {

// Elements of pred are bytes of the host's bool: 0 or 1. Compiled code may take any other for
// either, and for both at once. Bytes that come from outside are looked at where they come in.

// Whether all are 0 or 1.
bool are_truths(std::span<const std::byte> bytes);
// Whatever is not 0 becomes 1.
void make_truths(std::span<std::byte> bytes);

}  // namespace plimsoll::ir
