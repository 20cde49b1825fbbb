// SPDX-License-Identifier: Apache-2.0
// The recording driver's copies, streams and events.
#include <cstring>

#include "tests/device/cuda/recording_driver_impl.h"

namespace plimsoll::device::cuda {

// Copies.

namespace {

std::string in_bytes(const char* what, std::size_t bytes) {
  return std::string(what) + ", " + std::to_string(bytes) + " bytes";
}

}  // namespace

DriverResult RecordingDriver::Impl::copy_to_device(Address to, const void* from, std::size_t bytes,
                                                   StreamHandle stream) {
  PLIMSOLL_NEEDS_STREAM("cuMemcpyHtoDAsync", stream);
  Piece piece{.what = in_bytes("copy to device", bytes)};
  const auto size = static_cast<std::int64_t>(bytes);
  void* const device_side = reinterpret_cast<void*>(to);
  piece.touches = {{device_side, size, true}, {from, size, false}};
  piece.run = [=, this] { std::memcpy(translated(device_side), from, bytes); };
  return enqueue(*stream, std::move(piece));
}

DriverResult RecordingDriver::Impl::copy_to_host(void* to, Address from, std::size_t bytes,
                                                 StreamHandle stream) {
  PLIMSOLL_NEEDS_STREAM("cuMemcpyDtoHAsync", stream);
  Piece piece{.what = in_bytes("copy to host", bytes)};
  const auto size = static_cast<std::int64_t>(bytes);
  const void* const device_side = reinterpret_cast<void*>(from);
  piece.touches = {{device_side, size, true}, {to, size, false}};
  piece.run = [=, this] { std::memcpy(to, translated(device_side), bytes); };
  return enqueue(*stream, std::move(piece));
}

DriverResult RecordingDriver::Impl::copy_on_device(Address to, Address from, std::size_t bytes,
                                                   StreamHandle stream) {
  PLIMSOLL_NEEDS_STREAM("cuMemcpyDtoDAsync", stream);
  Piece piece{.what = in_bytes("copy on device", bytes)};
  const auto size = static_cast<std::int64_t>(bytes);
  void* const there = reinterpret_cast<void*>(to);
  const void* const here = reinterpret_cast<void*>(from);
  piece.touches = {{there, size, true}, {here, size, true}};
  piece.run = [=, this] { std::memmove(translated(there), translated(here), bytes); };
  return enqueue(*stream, std::move(piece));
}

DriverResult RecordingDriver::Impl::copy_rows(const RowsCopy* copy, StreamHandle stream) {
  PLIMSOLL_NEEDS_STREAM("cuMemcpy2DAsync", stream);
  if (copy->from_type != RowsCopy::kDevice || copy->to_type != RowsCopy::kDevice ||
      copy->from_pitch < copy->bytes || copy->to_pitch < copy->bytes || copy->rows == 0) {
    return violate(invalid_value, "cuMemcpy2DAsync: types, pitches or rows");
  }
  Piece piece{.what = in_bytes("copy rows", copy->bytes * copy->rows)};
  void* const there = reinterpret_cast<void*>(copy->to);
  const void* const here = reinterpret_cast<void*>(copy->from);
  const auto spanned = [&](std::size_t pitch) {
    return static_cast<std::int64_t>((copy->rows - 1) * pitch + copy->bytes);
  };
  piece.touches = {{there, spanned(copy->to_pitch), true}, {here, spanned(copy->from_pitch), true}};
  piece.run = [=, this, made = *copy] {
    auto* const to = static_cast<std::byte*>(translated(there));
    const auto* const from = static_cast<const std::byte*>(translated(here));
    for (std::size_t row = 0; row < made.rows; ++row) {
      std::memcpy(to + row * made.to_pitch, from + row * made.from_pitch, made.bytes);
    }
  };
  return enqueue(*stream, std::move(piece));
}

DriverResult RecordingDriver::Impl::fill_bytes(Address to, unsigned char value, std::size_t count,
                                               StreamHandle stream) {
  PLIMSOLL_NEEDS_STREAM("cuMemsetD8Async", stream);
  Piece piece{.what = in_bytes("fill", count)};
  void* const there = reinterpret_cast<void*>(to);
  piece.touches = {{there, static_cast<std::int64_t>(count), true}};
  piece.run = [=, this] { std::memset(translated(there), value, count); };
  return enqueue(*stream, std::move(piece));
}

DriverResult RecordingDriver::Impl::fill_words(Address to, unsigned value, std::size_t count,
                                               StreamHandle stream) {
  PLIMSOLL_NEEDS_STREAM("cuMemsetD32Async", stream);
  if (to % sizeof(value) != 0) return violate(invalid_value, "cuMemsetD32Async: alignment");
  const std::size_t bytes = count * sizeof(value);
  Piece piece{.what = in_bytes("fill", bytes)};
  void* const there = reinterpret_cast<void*>(to);
  piece.touches = {{there, static_cast<std::int64_t>(bytes), true}};
  piece.run = [=, this] { std::fill_n(static_cast<unsigned*>(translated(there)), count, value); };
  return enqueue(*stream, std::move(piece));
}

DriverResult RecordingDriver::Impl::call_host(StreamHandle stream, HostFunction function,
                                              void* argument) {
  PLIMSOLL_NEEDS_STREAM("cuLaunchHostFunc", stream);
  if (function == nullptr) return violate(invalid_value, "cuLaunchHostFunc: no function");
  Piece piece{.what = "call the host"};
  piece.run = [=] {
    is_in_host_function = true;
    function(argument);
    is_in_host_function = false;
  };
  return enqueue(*stream, std::move(piece));
}

// Streams and events.

DriverResult RecordingDriver::Impl::stream_create(StreamHandle* made, unsigned flags) {
  PLIMSOLL_NEEDS_CONTEXT("cuStreamCreate");
  if (flags != kStreamNonBlocking) return violate(invalid_value, "cuStreamCreate: flags");
  streams.push_back(std::make_unique<StreamObject>());
  streams.back()->number = static_cast<int>(streams.size());
  *made = streams.back().get();
  handles.insert(*made);
  return success;
}

DriverResult RecordingDriver::Impl::stream_destroy(StreamHandle stream) {
  PLIMSOLL_NEEDS_STREAM("cuStreamDestroy", stream);
  if (!stream->queue.empty()) violations.push_back("cuStreamDestroy: work is pending");
  stream->is_live = false;
  return success;
}

DriverResult RecordingDriver::Impl::stream_synchronize(StreamHandle stream) {
  PLIMSOLL_NEEDS_STREAM("cuStreamSynchronize", stream);
  if (stream->graph != nullptr) {
    stream->graph->is_broken = true;
    return stream_capture_unsupported;
  }
  finish(*stream);
  return success;
}

DriverResult RecordingDriver::Impl::context_synchronize() {
  PLIMSOLL_NEEDS_CONTEXT("cuCtxSynchronize");
  for (const auto& stream : streams) {
    if (stream->is_live && stream->graph != nullptr) {
      stream->graph->is_broken = true;
      return stream_capture_unsupported;
    }
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[i]->is_live) finish(*streams[i]);
  }
  return success;
}

DriverResult RecordingDriver::Impl::event_create(EventHandle* made, unsigned) {
  PLIMSOLL_NEEDS_CONTEXT("cuEventCreate");
  events.push_back(std::make_unique<EventObject>());
  *made = events.back().get();
  handles.insert(*made);
  return success;
}

DriverResult RecordingDriver::Impl::event_destroy(EventHandle event) {
  PLIMSOLL_NEEDS_CONTEXT("cuEventDestroy");
  PLIMSOLL_NEEDS_EVENT("cuEventDestroy", event);
  event->is_live = false;
  return success;
}

DriverResult RecordingDriver::Impl::event_record(EventHandle event, StreamHandle stream) {
  PLIMSOLL_NEEDS_STREAM("cuEventRecord", stream);
  PLIMSOLL_NEEDS_EVENT("cuEventRecord", event);
  event->graph = stream->graph;
  if (stream->graph != nullptr) {
    event->behind = stream->behind;
    return success;
  }
  event->stream = stream;
  Piece piece{.kind = Piece::Kind::record, .what = "record an event"};
  piece.event = event;
  piece.version = ++event->recorded;
  return enqueue(*stream, std::move(piece));
}

DriverResult RecordingDriver::Impl::stream_wait_event(StreamHandle stream, EventHandle event,
                                                      unsigned flags) {
  PLIMSOLL_NEEDS_STREAM("cuStreamWaitEvent", stream);
  PLIMSOLL_NEEDS_EVENT("cuStreamWaitEvent", event);
  if (flags != 0) return violate(invalid_value, "cuStreamWaitEvent: flags");
  if (event->graph != nullptr) {
    // A stream that waits for a captured one is captured from then on.
    if (stream->graph != nullptr && stream->graph != event->graph) {
      return violate(stream_capture_invalidated, "cuStreamWaitEvent: an event of another capture");
    }
    if (stream->graph == nullptr && !stream->queue.empty()) {
      // Allowed, but what it has yet to do is not a part of the graph.
      finish(*stream);
    }
    stream->graph = event->graph;
    stream->behind.insert(stream->behind.end(), event->behind.begin(), event->behind.end());
    return success;
  }
  if (stream->graph != nullptr) {
    return violate(stream_capture_unsupported,
                   "cuStreamWaitEvent: a captured stream waits for what is not captured");
  }
  if (event->recorded == 0) return success;
  Piece piece{.kind = Piece::Kind::wait, .what = "wait for an event"};
  piece.event = event;
  piece.version = event->recorded;
  piece.from = event->stream;
  return enqueue(*stream, std::move(piece));
}

DriverResult RecordingDriver::Impl::event_query(EventHandle event) {
  PLIMSOLL_NEEDS_CONTEXT("cuEventQuery");
  PLIMSOLL_NEEDS_EVENT("cuEventQuery", event);
  if (event->graph != nullptr) return violate(invalid_value, "cuEventQuery: a captured event");
  if (event->reached >= event->recorded) return success;
  step_any();  // whoever asks again and again is told in the end
  return not_ready;
}

DriverResult RecordingDriver::Impl::event_synchronize(EventHandle event) {
  PLIMSOLL_NEEDS_CONTEXT("cuEventSynchronize");
  PLIMSOLL_NEEDS_EVENT("cuEventSynchronize", event);
  if (event->graph != nullptr) {
    return violate(invalid_value, "cuEventSynchronize: a captured event");
  }
  reach(*event, event->recorded, event->stream);
  return success;
}

DriverResult RecordingDriver::Impl::event_elapsed_time(float* milliseconds, EventHandle start,
                                                       EventHandle end) {
  PLIMSOLL_NEEDS_EVENT("cuEventElapsedTime", start);
  PLIMSOLL_NEEDS_EVENT("cuEventElapsedTime", end);
  for (const EventObject* event : {start, end}) {
    if (event->recorded == 0) return violate(invalid_handle, "cuEventElapsedTime: not recorded");
    if (event->reached < event->recorded) return not_ready;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return success;
}

}  // namespace plimsoll::device::cuda
