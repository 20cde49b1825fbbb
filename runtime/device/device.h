// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/alignment.h"
#include "runtime/base/byte_size.h"
#include "runtime/base/index.h"
#include "runtime/base/kernel_speeds.h"
#include "runtime/base/status.h"

namespace plimsoll::device {

using plimsoll::kBufferAlignment;

class Communicator;
class Kernel;
class JointLaunch;
struct KernelArguments;

enum class CopyKind : std::uint8_t { host_to_device, device_to_host, device_to_device };

// A point in a stream's work. Waiting on one that was never recorded returns at once.
// Thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  // Blocks until the recorded point has been reached; returns the stream's error, if any.
  virtual Status wait() = 0;
  // Whether it has been; true of one that was never recorded.
  virtual bool is_reached() const = 0;
  // How long after `earlier`'s point the device reached this one's; below zero where it was before.
  // FAILED_PRECONDITION unless both are of this device, recorded and reached.
  virtual Result<double> seconds_since(const Event& earlier) const = 0;
};

// Work that a stream was given once, kept to be done again as a whole (Stream::end_capture). What
// it uses must stay where it is: kernels, and memory at its addresses.
class Graph {
 public:
  virtual ~Graph() = default;
};

// An in-order queue of work on a device. One thread at a time may enqueue; work may finish later.
// Memory that it is given must stay valid until the work is done. An error of the work itself comes
// from the call that enqueues it, or from a later `synchronize` or wait on an event: what was
// enqueued behind it still runs. The destructor waits for all work.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Status copy(void* destination, const void* source, std::int64_t bytes, CopyKind kind) = 0;
  // A kernel of this device. What `arguments` refers to is read before the call returns; memory
  // behind its pointers when the kernel runs.
  virtual Status launch(const Kernel& kernel, const KernelArguments& arguments) = 0;
  // Several in one launch (joint_launch.h): pointers of all parts, one part after the other, and
  // one workspace per part. No part may write what another one reads or writes.
  virtual Status launch(const JointLaunch& joint, std::span<const void* const> inputs,
                        std::span<void* const> outputs, std::span<void* const> workspaces) = 0;
  virtual Status record(Event& event) = 0;
  // Later work on this stream starts after `event`.
  virtual Status wait(Event& event) = 0;
  // Blocks until all enqueued work is done; returns the first error since the last call.
  virtual Status synchronize() = 0;

  // Whether work can be kept as a graph: begin_capture, work, end_capture, and launches of it.
  virtual bool can_capture() const { return false; }
  // From now on work is kept instead of done; nobody may wait for the stream, or for an event of
  // it, before end_capture.
  virtual Status begin_capture();
  // The work since begin_capture; to be called whatever has failed in between.
  virtual Result<std::unique_ptr<Graph>> end_capture();
  // Does all of a graph of this device, as work of this stream. It must outlive that work, and be
  // launched by one stream at a time.
  virtual Status launch(Graph& graph);

  // Whom collectives that are launched from now on are computed with; null, as it is at first:
  // nobody. Must outlive that work.
  void set_communicator(Communicator* communicator) { communicator_ = communicator; }
  Communicator* communicator() const { return communicator_; }

 private:
  Communicator* communicator_ = nullptr;
};

// What plans and launches take into account of a device.
struct Properties {
  std::string model;  // what a calibration holds for
  // Memory near the processors that keeps what one small kernel leaves for the next.
  std::int64_t near_memory_bytes = 0;
  // Kernels that move more than this take so long that a launch of their own costs next to nothing.
  std::int64_t most_joint_bytes = 0;
  // What compute steps lose to a transfer, per second of it (memory::LinkSpeed).
  double copy_compute_share = 0;
  // A launch takes so long, whatever it does, that small kernels are compiled as one ahead.
  bool has_launch_costs = false;
  // What fusing for it is decided by.
  KernelSpeeds kernel_speeds;
};

// What a device can be told to fail at (Device::fail).
enum class Call : std::uint8_t { allocate, copy, launch };
inline constexpr int kCalls = 3;

// What a device can do; one per physical device, shared by all contexts. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;  // "cpu", "cuda:0"
  virtual std::int64_t total_bytes() const = 0;
  // What of it is free now, whoever uses the rest.
  virtual std::int64_t free_bytes() const = 0;
  // What of it the driver and libraries have taken for this process since the device was opened:
  // code of kernels, libraries' own memory. Budgets leave room for it (memory::Budget).
  virtual std::int64_t overhead_bytes() const { return 0; }
  DeviceBytes bytes() const { return {total_bytes(), free_bytes()}; }
  virtual Properties properties() const = 0;
  // Its memory is the host's: any thread may read and write it by its pointers.
  virtual bool is_host_memory() const { return false; }
  // Raw memory, aligned to kBufferAlignment. The caller accounts for it (memory::Budget), and is
  // done with it when it gives it back. Zero bytes are allowed and give a valid pointer.
  virtual Result<void*> allocate(std::int64_t bytes) = 0;
  virtual void deallocate(void* pointer, std::int64_t bytes) = 0;
  // Gives back what it keeps for blocks to come, beyond what blocks have.
  virtual void release_kept() {}
  // Host memory of the kind that copies to and from the device are fastest with, aligned likewise.
  virtual Result<void*> allocate_host(std::int64_t bytes) = 0;
  virtual void deallocate_host(void* pointer, std::int64_t bytes) = 0;
  virtual Result<std::unique_ptr<Stream>> create_stream() = 0;
  virtual Result<std::unique_ptr<Event>> create_event() = 0;

  // Fault injection for tests: the n-th such call from now (1 = next) fails with UNAVAILABLE,
  // RESOURCE_EXHAUSTED for an allocation; 0 turns it off.
  void fail(Call call, std::int64_t n) { fail_in_[at(call)] = n; }
  // For devices and their streams, in every such call.
  Status count(Call call) {
    std::atomic<std::int64_t>& left = fail_in_[at(call)];
    if (left.load(std::memory_order_relaxed) <= 0) return ok_status();
    return left.fetch_sub(1) == 1 ? injected_failure(call) : ok_status();
  }

 private:
  Status injected_failure(Call call) const;

  std::array<std::atomic<std::int64_t>, kCalls> fail_in_{};
};

}  // namespace plimsoll::device
