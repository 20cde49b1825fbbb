// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "runtime/device/device.h"

namespace plimsoll::benchmarks {

// Times work by the device's own clock, between two events of one stream. One thread at a time.
class DeviceTimer {
 public:
  static Result<DeviceTimer> create(device::Device& device);

  device::Stream& stream() { return *stream_; }
  // `enqueue(i)` for i = 0 to count - 1 as one graph, so that the host's time is not in the way.
  Result<std::unique_ptr<device::Graph>> keep(int count, const std::function<Status(int)>& enqueue);
  // Seconds of the graph, which has run once more just before: the device is awake, and has the
  // timed work at hand when its turn comes.
  Result<double> seconds_of(device::Graph& graph);
  // Seconds of what `enqueue` gives the stream, from when the device begins.
  Result<double> seconds_of(const std::function<Status()>& enqueue);

 private:
  DeviceTimer(std::unique_ptr<device::Stream> stream, std::unique_ptr<device::Event> begin,
              std::unique_ptr<device::Event> end)
      : stream_(std::move(stream)), begin_(std::move(begin)), end_(std::move(end)) {}

  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> begin_, end_;
};

}  // namespace plimsoll::benchmarks
