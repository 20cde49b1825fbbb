// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/cuda/context.h"
#include "runtime/device/cuda/reports.h"
#include "runtime/device/device.h"

namespace plimsoll::device::cuda {

class CudaDevice;

// An event of the driver's. What kernels of its stream report (reports.h) comes out of its wait,
// too.
class CudaEvent final : public Event {
 public:
  static Result<std::unique_ptr<Event>> create(std::shared_ptr<const Context> context);
  ~CudaEvent() override;
  Status wait() override;
  bool is_reached() const override;
  Result<double> seconds_since(const Event& earlier) const override;

 private:
  friend class CudaStream;
  CudaEvent(std::shared_ptr<const Context> context, EventHandle handle)
      : context_(std::move(context)), handle_(handle) {}
  // Of the stream that recorded it last; null: none has.
  std::shared_ptr<const Reports> reports() const;

  const std::shared_ptr<const Context> context_;
  const EventHandle handle_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Reports> reports_;
};

// A graph of the driver's, ready for launches, with the words that its kernels report by.
class CudaGraph final : public Graph {
 public:
  ~CudaGraph() override;

 private:
  friend class CudaStream;
  CudaGraph(std::shared_ptr<const Context> context, GraphExecutableHandle handle,
            std::shared_ptr<Reports> reports)
      : context_(std::move(context)), handle_(handle), reports_(std::move(reports)) {}

  const std::shared_ptr<const Context> context_;
  const GraphExecutableHandle handle_;
  const std::shared_ptr<Reports> reports_;
};

// A stream of the driver's, beside the one that it makes by itself. The device must outlive it.
class CudaStream final : public Stream {
 public:
  static Result<std::unique_ptr<Stream>> create(CudaDevice& device);
  ~CudaStream() override;
  Status copy(void* destination, const void* source, std::int64_t bytes, CopyKind kind) override;
  Status launch(const Kernel& kernel, const KernelArguments& arguments) override;
  Status launch(const JointLaunch& joint, std::span<const void* const> inputs,
                std::span<void* const> outputs, std::span<void* const> workspaces) override;
  Status record(Event& event) override;
  Status wait(Event& event) override;
  Status synchronize() override;
  bool can_capture() const override { return true; }
  Status begin_capture() override;
  Result<std::unique_ptr<Graph>> end_capture() override;
  Status launch(Graph& graph) override;

  // What kernels do: one entry of a module, with one pointer per parameter.
  struct Entry {
    FunctionHandle function = nullptr;
    std::uint32_t grid = 1, block = 1, shared_bytes = 0;
  };
  Status launch_entry(const Entry& entry, std::span<const void*> pointers);
  CudaDevice& device() const { return device_; }
  // For calls of libraries that take a stream, with the device's context current.
  StreamHandle handle() const { return handle_; }
  bool is_capturing() const { return captured_ != nullptr; }
  // The word that a launch of the kernel `name` reports by.
  Result<std::uint32_t*> report_word(const std::string& name);
  // Device memory of one byte or, at a multiple of four, one word.
  Status fill(void* to, std::byte value, std::int64_t bytes);
  Status fill_word(void* to, std::uint32_t value);
  // `rows` rows of `bytes` each, which lie so many bytes apart, from device memory to device
  // memory.
  Status copy_rows(void* to, std::int64_t to_stride, const void* from, std::int64_t from_stride,
                   std::int64_t bytes, std::int64_t rows);

  // For work that the host does in the stream's order.
  //
  // At least `bytes` of pinned memory for what is enqueued from here on: everything that used it
  // before has ended by then. It stays the stream's. Waits for the stream where there must be more
  // of it than before. UNIMPLEMENTED during a capture.
  Result<std::byte*> staging(std::int64_t bytes);
  // `work` is called by a thread of the driver's when the stream gets there, and must call nothing
  // of the driver's; its error is the stream's. UNIMPLEMENTED during a capture.
  Status call_on_host(std::function<Status()> work);

 private:
  struct HostCall;
  bool may_be_small(const void* to, const void* from, std::int64_t bytes) const;
  Status copy_by_kernel(void* to, const void* from, std::int64_t bytes);
  CudaStream(CudaDevice& device, std::shared_ptr<const Context> context, StreamHandle handle,
             std::shared_ptr<Reports> reports);

  CudaDevice& device_;
  const std::shared_ptr<const Context> context_;
  const StreamHandle handle_;
  const std::shared_ptr<Reports> reports_;
  Status reported_;                    // of launches whose words were needed for others
  std::shared_ptr<Reports> captured_;  // of the capture under way; null: none is
  std::vector<std::shared_ptr<Reports>> of_graphs_;    // launched since the last look
  std::vector<std::unique_ptr<HostCall>> host_calls_;  // those that may not have ended
  std::byte* staging_ = nullptr;
  std::int64_t staging_bytes_ = 0;
};

}  // namespace plimsoll::device::cuda
