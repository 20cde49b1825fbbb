// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/memory/spill/file_queue.h"

namespace plimsoll::memory {

// Moves `bytes` between device memory and a range of the file from `offset` on, both multiples of
// 64 but for the length, in pieces of which several are under way at a time; gives the checksum of
// the bytes. Pieces go through staging buffers unless device memory is host memory and aligned as
// the file wants it. A direct file is written in whole units: what lies around a range's ragged
// ends is read first and written again, so that only one thread may store to a file at a time;
// others may load what is not being stored.
// Nothing is under way any more when they return, however they do.
Result<std::uint64_t> store_range(FileQueue& queue, std::int64_t offset, const std::byte* from,
                                  std::int64_t bytes, device::Stream& stream);
Result<std::uint64_t> load_range(FileQueue& queue, std::int64_t offset, std::byte* to,
                                 std::int64_t bytes, device::Stream& stream);

}  // namespace plimsoll::memory
