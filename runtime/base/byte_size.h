// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace plimsoll {

// What a device has, and what of it is free.
struct DeviceBytes {
  std::int64_t total = 0, free = 0;
};

// A memory limit as people write it: a number of bytes, a share of the device's memory, what is
// free of it, or a share of a program's unlimited peak.
//   SIZE    = NUMBER [UNIT]        512MiB, 2GiB, 1.5GB, 1048576
//   UNIT    = B | KiB | MiB | GiB | TiB | KB | MB | GB | TB     (case does not matter)
//   PERCENT = NUMBER "%"           80%      of the device's memory
//   AUTO    = "auto"               what is free on the device, less a reserve (kMostReserve)
//   SHARE   = NUMBER "%peak"       50%peak  of the unlimited peak
struct MemoryLimit {
  enum class Kind : std::uint8_t { bytes, percent_of_device, free_of_device, percent_of_peak };
  Kind kind = Kind::bytes;
  std::int64_t bytes = 0;
  double percent = 0;

  bool is_of_device() const {
    return kind == Kind::percent_of_device || kind == Kind::free_of_device;
  }
  // In bytes; a percentage is rounded down.
  std::int64_t resolve(const DeviceBytes& device, std::int64_t unlimited_peak_bytes) const;
};

// What "auto" leaves free for all that is not counted (code, plans, the program around): a
// sixteenth of the device's memory, but at most this.
inline constexpr std::int64_t kMostReserve = std::int64_t{1} << 30;

// The grammar in one line, for error messages and help.
inline constexpr std::string_view kMemoryLimitGrammar =
    "a size such as 512MiB, 2GiB, 1.5GB or 1048576, a share of the device's memory such as 80%, "
    "auto (what is free of it), or a share of the unlimited peak such as 50%peak";

// Which shares are taken: of a peak only where there is a program.
enum class Shares : std::uint8_t { of_device_or_peak, of_device };

// `what` names where the text comes from (a variable, a flag) in the INVALID_ARGUMENT of bad text.
// Sizes must be positive, and whole numbers where they have no unit; percentages above 0 and at
// most 100 of the device, at most 1000 of a peak.
Result<MemoryLimit> parse_memory_limit(std::string_view text, std::string_view what,
                                       Shares shares = Shares::of_device_or_peak);
// Sizes only.
Result<std::int64_t> parse_byte_size(std::string_view text, std::string_view what);

// For people: "1.50 GiB", "12.0 KiB", "17 B".
std::string format_bytes(std::int64_t bytes);

}  // namespace plimsoll
