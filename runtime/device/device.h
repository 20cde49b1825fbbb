// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/alignment.h"
#include "runtime/base/status.h"

namespace plimsoll::device {

using plimsoll::kBufferAlignment;

enum class CopyKind : std::uint8_t { host_to_device, device_to_host, device_to_device };

// A point in a stream's work. Waiting on one that was never recorded returns at once.
// Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  // Blocks until the recorded point has been reached; returns the stream's error, if any.
  virtual Status wait() = 0;
};

// An in-order queue of work on a device. One thread at a time may enqueue; work may finish later.
// Pointers passed to it must stay valid until the work is done.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Status copy(void* destination, const void* source, std::int64_t bytes, CopyKind kind) = 0;
  virtual Status record(Event& event) = 0;
  // Later work on this stream starts after `event`.
  virtual Status wait(Event& event) = 0;
  // Blocks until all enqueued work is done; returns the first error since the last call.
  virtual Status synchronize() = 0;
};

// What a device can do; one per physical device, shared by all contexts. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;  // "cpu", "cuda:0"
  virtual std::int64_t total_bytes() const = 0;
  // Its memory is the host's: any thread may read and write it by its pointers.
  virtual bool is_host_memory() const { return false; }
  // Raw memory, aligned to kBufferAlignment. The caller accounts for it (memory::Budget).
  virtual Result<void*> allocate(std::int64_t bytes) = 0;
  virtual void deallocate(void* pointer, std::int64_t bytes) = 0;
  // Host memory of the kind that copies to and from the device are fastest with, aligned likewise.
  virtual Result<void*> allocate_host(std::int64_t bytes) = 0;
  virtual void deallocate_host(void* pointer, std::int64_t bytes) = 0;
  virtual Result<std::unique_ptr<Stream>> create_stream() = 0;
  virtual Result<std::unique_ptr<Event>> create_event() = 0;
};

// The host CPU: streams run their work at enqueue, on the calling thread and the shared thread
// pool.
std::shared_ptr<Device> cpu_device();

}  // namespace plimsoll::device
