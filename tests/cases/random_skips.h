// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::cases {

// HLO text of a chain of operations whose values are read again far behind: by sums of many of
// them at once, by sums that take them one by one in the reverse order (the skips of a U-Net), and
// by what is smaller than they are. What fuses these reads much at a time. A function of the seed
// alone.
std::string random_skips(std::uint64_t seed);

}  // namespace plimsoll::cases
