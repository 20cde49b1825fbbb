// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "runtime/device/communicator.h"

namespace plimsoll::collectives {

// Reduces `count` elements, the first of which is number `first` in every member's array, in the
// order of the members, block by block, and copies each block's result to all of `out`, where they
// begin at element `to`. Every communicator reduces by it, so that all give the same bits.
void reduce_run(std::span<const void* const> in, std::int64_t first, std::int64_t count,
                const device::Reduction& reduction, std::span<void* const> out, std::int64_t to);

// As many rows of as many bytes, on all threads. Nothing where both are the same.
void copy_rows(const device::Rows& from, const device::Rows& to);

}  // namespace plimsoll::collectives
