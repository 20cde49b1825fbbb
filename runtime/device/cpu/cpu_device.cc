// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/device/cpu/parallel.h"
#include "runtime/device/device.h"

namespace plimsoll::device {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

// Copies of at least this many bytes are shared between threads.
constexpr std::int64_t kParallelCopy = std::int64_t{1} << 20;

// Work is done when the call that enqueues it returns, so every event has already happened.
class CpuEvent : public Event {
 public:
  Status wait() override { return ok_status(); }
};

class CpuStream : public Stream {
 public:
  Status copy(void* destination, const void* source, std::int64_t bytes, CopyKind) override {
    if (bytes == 0 || destination == source) return ok_status();
    auto* to = static_cast<char*>(destination);
    const auto* from = static_cast<const char*>(source);
    parallel_for(bytes, kParallelCopy, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
    });
    return ok_status();
  }
  Status record(Event&) override { return ok_status(); }
  Status wait(Event&) override { return ok_status(); }
  Status synchronize() override { return ok_status(); }
};

class CpuDevice : public Device {
 public:
  std::string_view name() const override { return "cpu"; }
  bool is_host_memory() const override { return true; }

  std::int64_t total_bytes() const override {
    return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  }

  Result<void*> allocate(std::int64_t bytes) override {
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

  void deallocate(void* pointer, std::int64_t) override { std::free(pointer); }

  Result<void*> allocate_host(std::int64_t bytes) override { return allocate(bytes); }
  void deallocate_host(void* pointer, std::int64_t bytes) override { deallocate(pointer, bytes); }

  Result<std::unique_ptr<Stream>> create_stream() override {
    return std::unique_ptr<Stream>(std::make_unique<CpuStream>());
  }
  Result<std::unique_ptr<Event>> create_event() override {
    return std::unique_ptr<Event>(std::make_unique<CpuEvent>());
  }
};

}  // namespace

std::shared_ptr<Device> cpu_device() {
  static const auto* const device = new std::shared_ptr<Device>(std::make_shared<CpuDevice>());
  return *device;
}

}  // namespace plimsoll::device
