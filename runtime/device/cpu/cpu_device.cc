// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/host_memory.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/device.h"
#include "runtime/device/joint_launch.h"
#include "runtime/device/kernel.h"

namespace plimsoll::device {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

// Copies of at least this many bytes are shared between threads.
constexpr std::int64_t kParallelCopy = std::int64_t{1} << 16;

// Work is done when the call that enqueues it returns, so every event has already happened, at the
// time that the clock says when it is recorded.
class CpuEvent final : public Event {
 public:
  Status wait() override { return ok_status(); }
  bool is_reached() const override { return true; }
  Result<double> seconds_since(const Event& earlier) const override {
    const Clock::time_point since = static_cast<const CpuEvent&>(earlier).time_.load();
    const Clock::time_point until = time_.load();
    if (since == Clock::time_point() || until == Clock::time_point()) {
      return failed_precondition("the time between events of which one was never recorded");
    }
    return std::chrono::duration<double>(until - since).count();
  }
  void record() { time_.store(Clock::now()); }

 private:
  using Clock = std::chrono::steady_clock;
  std::atomic<Clock::time_point> time_{};
};

class CpuStream final : public Stream {
 public:
  explicit CpuStream(Device& device) : device_(device) {}

  Status copy(void* destination, const void* source, std::int64_t bytes, CopyKind) override {
    PLIMSOLL_RETURN_IF_ERROR(device_.count(Call::copy));
    if (bytes == 0 || destination == source) return ok_status();
    auto* to = static_cast<char*>(destination);
    const auto* from = static_cast<const char*>(source);
    parallel_for(bytes, kParallelCopy, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
    });
    return ok_status();
  }
  Status launch(const Kernel& kernel, const KernelArguments& arguments) override {
    PLIMSOLL_RETURN_IF_ERROR(device_.count(Call::launch));
    return kernel.launch(*this, arguments);
  }
  Status launch(const JointLaunch& joint, std::span<const void* const> inputs,
                std::span<void* const> outputs, std::span<void* const> workspaces) override {
    PLIMSOLL_RETURN_IF_ERROR(device_.count(Call::launch));
    return joint.launch(*this, inputs, outputs, workspaces);
  }
  Status record(Event& event) override {
    static_cast<CpuEvent&>(event).record();
    return ok_status();
  }
  Status wait(Event&) override { return ok_status(); }
  Status synchronize() override { return ok_status(); }

 private:
  Device& device_;  // never freed
};

// The processor's name, as the system says it.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

class CpuDevice final : public Device {
 public:
  std::string_view name() const override { return "cpu"; }
  bool is_host_memory() const override { return true; }

  std::int64_t total_bytes() const override { return host_memory().total_bytes; }
  std::int64_t free_bytes() const override { return host_memory().free_bytes; }

  Properties properties() const override {
    Properties known;
    known.model = processor_ + ", " + std::to_string(thread_count()) + " threads";
    known.near_memory_bytes = std::int64_t{1} << 20;  // of a second-level cache
    known.most_joint_bytes = std::int64_t{2} << 20;
    // A copy by a thread takes a processor from the kernels' pool.
    known.copy_compute_share = 1.0 / thread_count();
    return known;
  }

  Result<void*> allocate(std::int64_t bytes) override {
    PLIMSOLL_RETURN_IF_ERROR(count(Call::allocate));
    return allocate_host(bytes);
  }
  void deallocate(void* pointer, std::int64_t bytes) override { deallocate_host(pointer, bytes); }

  Result<void*> allocate_host(std::int64_t bytes) override {
    const std::int64_t alignment = bytes >= 2 * kHugePage ? kHugePage : kBufferAlignment;
    void* pointer = nullptr;
    if (posix_memalign(&pointer, static_cast<std::size_t>(alignment),
                       static_cast<std::size_t>(bytes > 0 ? bytes : kBufferAlignment)) != 0) {
      return Status(StatusCode::resource_exhausted,
                    "allocating " + std::to_string(bytes) +
                        " bytes of host memory failed: the system has none left");
    }
    if (alignment == kHugePage) {
      // Advice only: fewer page faults when the system grants it.
      (void)madvise(pointer, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
    }
    return pointer;
  }

  void deallocate_host(void* pointer, std::int64_t) override { std::free(pointer); }

  Result<std::unique_ptr<Stream>> create_stream() override {
    return std::unique_ptr<Stream>(std::make_unique<CpuStream>(*this));
  }
  Result<std::unique_ptr<Event>> create_event() override {
    return std::unique_ptr<Event>(std::make_unique<CpuEvent>());
  }

 private:
  const std::string processor_ = processor_name();
};

}  // namespace

std::shared_ptr<Device> cpu_device() {
  static const auto* const device = new std::shared_ptr<Device>(std::make_shared<CpuDevice>());
  return *device;
}

}  // namespace plimsoll::device
