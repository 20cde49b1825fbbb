// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/gpu/timing/device_timer.h"

#include <utility>

namespace plimsoll::benchmarks {

Result<DeviceTimer> DeviceTimer::create(device::Device& device) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto stream, device.create_stream());
  PLIMSOLL_ASSIGN_OR_RETURN(auto begin, device.create_event());
  PLIMSOLL_ASSIGN_OR_RETURN(auto end, device.create_event());
  return DeviceTimer(std::move(stream), std::move(begin), std::move(end));
}

Result<std::unique_ptr<device::Graph>> DeviceTimer::keep(
    int count, const std::function<Status(int)>& enqueue) {
  PLIMSOLL_RETURN_IF_ERROR(stream_->begin_capture());
  Status status;
  for (int i = 0; i < count && status.ok(); ++i) status = enqueue(i);
  // To be ended whatever has failed.
  auto graph = stream_->end_capture();
  PLIMSOLL_RETURN_IF_ERROR(status);
  return graph;
}

Result<double> DeviceTimer::seconds_of(device::Graph& graph) {
  PLIMSOLL_RETURN_IF_ERROR(stream_->launch(graph));
  return seconds_of([&] { return stream_->launch(graph); });
}

Result<double> DeviceTimer::seconds_of(const std::function<Status()>& enqueue) {
  PLIMSOLL_RETURN_IF_ERROR(stream_->record(*begin_));
  PLIMSOLL_RETURN_IF_ERROR(enqueue());
  PLIMSOLL_RETURN_IF_ERROR(stream_->record(*end_));
  PLIMSOLL_RETURN_IF_ERROR(stream_->synchronize());
  PLIMSOLL_RETURN_IF_ERROR(end_->wait());
  return end_->seconds_since(*begin_);
}

}  // namespace plimsoll::benchmarks
