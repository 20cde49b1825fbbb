// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace plimsoll::executor {

// When pieces of a stream's work ran, by events before and behind each. Pieces follow each other.
// Nothing waits for the stream but `spans`, and every so many pieces one look at all of them.
// Used by the run's thread.
class StreamTimes {
 public:
  // Seconds since the origin (open).
  struct Span {
    double start = 0, end = 0;
    std::int32_t measurement = -1;
    bool again = false, kernel = false;
    double share = 1;  // of the piece, beside the shares of others that were one with it
  };

  StreamTimes(device::Device& device, device::Stream& stream) : device_(device), stream_(stream) {}

  // Sets the origin: waits for the stream once.
  Status open();
  Status begin();
  // What began is `what`; or all of `parts` in one, which share its time, one behind the other.
  Status end(const Span& what) { return end(std::span(&what, 1)); }
  Status end(std::span<const Span> parts);
  // All there are so far. Waits for the last of them.
  Result<std::vector<Span>> spans();
  // A time by the host's clock, in seconds since the origin.
  double since_origin(std::chrono::steady_clock::time_point time) const {
    return std::chrono::duration<double>(time - host_origin_).count();
  }

 private:
  struct Open {
    std::unique_ptr<device::Event> begin, end;
    std::size_t last_part = 0;  // the end of its parts
  };
  Result<std::unique_ptr<device::Event>> record();
  Status read();

  device::Device& device_;
  device::Stream& stream_;
  std::unique_ptr<device::Event> origin_, begin_;
  std::chrono::steady_clock::time_point host_origin_;
  std::vector<Open> open_;
  std::vector<Span> parts_;  // of all that are open
  std::vector<std::unique_ptr<device::Event>> free_;
  std::vector<Span> read_;
};

}  // namespace plimsoll::executor
