// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/device/communicator.h"

namespace plimsoll::collectives {

// Memory to measure with, where the communicator's arrays are: `large` bytes, and as many for each
// participant.
struct MessageMemory {
  std::byte* out = nullptr;
  std::byte* in = nullptr;
  std::int64_t large = 0;
};

// Bytes of a large message to each other participant, from `least` to `most` and of about `of_all`
// together; a multiple of 64.
std::int64_t large_message(std::int64_t participants, std::int64_t least, std::int64_t most,
                           std::int64_t of_all);

// How fast messages of `over` are, by the alpha-beta model: what the slowest participant finds, on
// which all agree by `host`, whose arrays are in host memory. To be called by all at the same
// place.
Result<device::Communicator::Speeds> measure_speeds(device::Communicator& over,
                                                    device::Communicator& host,
                                                    const MessageMemory& memory);

}  // namespace plimsoll::collectives
