// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/gpu/gpu_entry.h"

namespace plimsoll::jit {

// Tiles of products: a block makes kTile * kTile results, each of its 16 * 16 threads 4 * 4 of
// them; kDepth positions of both operands lie in shared memory, in rows that are kSkew longer than
// a tile, so that neighbouring positions are in different banks.
inline constexpr std::int64_t kTile = 64, kDepth = 16, kSkew = 4, kSide = 16, kOwn = 4;
// Elements of an operand that a thread brings at a time.
inline constexpr std::int64_t kLoads = kTile * kDepth / kBlockThreads;
static_assert(kSide * kSide == kBlockThreads && kSide * kOwn == kTile);

}  // namespace plimsoll::jit
