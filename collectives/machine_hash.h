// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace plimsoll::collectives {

// The same in all processes that this boot of this machine's kernel runs, in containers too, whose
// processors are the same; another one on other machines.
std::uint64_t machine_hash();

}  // namespace plimsoll::collectives
