// SPDX-License-Identifier: Apache-2.0
#include "tests/device/fake_async.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/backend/backends.h"
#include "runtime/backend/cpu_kernels.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/devices.h"
#include "runtime/device/joint_launch.h"
#include "runtime/device/kernel.h"

namespace plimsoll::device {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::size_t kMostFilled = 1 << 20;
// Of addresses: what is given out lies in the middle, so that an address that is a little off
// stays recognizable.
constexpr std::int64_t kSpace = std::int64_t{1} << 38;

std::int64_t in_pages(std::int64_t bytes) {
  return (std::max<std::int64_t>(bytes, 1) + kPage - 1) / kPage * kPage;
}

std::byte* map(int protection) {
  void* const at = mmap(nullptr, static_cast<std::size_t>(kSpace), protection,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) std::abort();
  return static_cast<std::byte*>(at);
}

// A place in a stream's work.
class Point {
 public:
  void reach(const Status& status) {
    const std::lock_guard lock(mutex_);
    time_ = std::chrono::steady_clock::now();
    status_ = status;
    reached_ = true;
    changed_.notify_all();
  }
  Status wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_; });
    return status_;
  }
  bool is_reached() {
    const std::lock_guard lock(mutex_);
    return reached_;
  }
  std::chrono::steady_clock::time_point time() {
    const std::lock_guard lock(mutex_);
    return time_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  Status status_;
  std::chrono::steady_clock::time_point time_;
};

class FakeEvent final : public Event {
 public:
  Status wait() override {
    const auto point = this->point();
    return point == nullptr ? ok_status() : point->wait();
  }
  bool is_reached() const override {
    const auto point = this->point();
    return point == nullptr || point->is_reached();
  }
  Result<double> seconds_since(const Event& earlier) const override {
    const auto until = point();
    const auto since = static_cast<const FakeEvent&>(earlier).point();
    if (until == nullptr || since == nullptr || !until->is_reached() || !since->is_reached()) {
      return failed_precondition("the time between events of which one was not reached");
    }
    return std::chrono::duration<double>(until->time() - since->time()).count();
  }
  void record(std::shared_ptr<Point> point) {
    const std::lock_guard lock(mutex_);
    point_ = std::move(point);
  }
  std::shared_ptr<Point> point() const {
    const std::lock_guard lock(mutex_);
    return point_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Point> point_;
};

class FakeStream final : public Stream {
 public:
  FakeStream(FakeAsyncDevice& device, std::unique_ptr<Stream> cpu, unsigned seed)
      : device_(device), cpu_(std::move(cpu)), random_(seed), thread_([this] { loop(); }) {}
  ~FakeStream() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Status copy(void* destination, const void* source, std::int64_t bytes, CopyKind kind) override {
    PLIMSOLL_RETURN_IF_ERROR(device_.count(Call::copy));
    if (bytes == 0) return ok_status();
    const bool to_device = kind != CopyKind::device_to_host;
    const bool from_device = kind != CopyKind::host_to_device;
    if (device_.is_device(destination) != to_device || device_.is_device(source) != from_device) {
      return internal_error("fake_async: a copy in another direction than it says");
    }
    void* const to = to_device ? device_.mapped(destination) : destination;
    const void* const from = from_device ? device_.mapped(source) : source;
    enqueue([=] {
      std::memmove(to, from, static_cast<std::size_t>(bytes));
      return ok_status();
    });
    return ok_status();
  }

  Status launch(const Kernel& kernel, const KernelArguments& arguments) override {
    PLIMSOLL_RETURN_IF_ERROR(device_.count(Call::launch));
    PLIMSOLL_ASSIGN_OR_RETURN(auto inputs, mapped(arguments.inputs, kernel.name()));
    PLIMSOLL_ASSIGN_OR_RETURN(auto outputs, mapped(arguments.outputs, kernel.name()));
    PLIMSOLL_ASSIGN_OR_RETURN(
        auto workspace, mapped(std::span<void* const>(&arguments.workspace, 1), kernel.name()));
    enqueue([this, &kernel, communicator = communicator(), inputs = std::move(inputs),
             outputs = std::move(outputs), workspace = workspace[0]] {
      cpu_->set_communicator(communicator);
      return kernel.launch(*cpu_, {inputs, outputs, workspace});
    });
    return ok_status();
  }

  Status launch(const JointLaunch& joint, std::span<const void* const> inputs,
                std::span<void* const> outputs, std::span<void* const> workspaces) override {
    PLIMSOLL_RETURN_IF_ERROR(device_.count(Call::launch));
    PLIMSOLL_ASSIGN_OR_RETURN(auto in, mapped(inputs, "a joint launch"));
    PLIMSOLL_ASSIGN_OR_RETURN(auto out, mapped(outputs, "a joint launch"));
    PLIMSOLL_ASSIGN_OR_RETURN(auto work, mapped(workspaces, "a joint launch"));
    enqueue([this, &joint, in = std::move(in), out = std::move(out), work = std::move(work)] {
      return joint.launch(*cpu_, in, out, work);
    });
    return ok_status();
  }

  Status record(Event& event) override {
    auto point = std::make_shared<Point>();
    static_cast<FakeEvent&>(event).record(point);
    enqueue([this, point = std::move(point)] {
      point->reach(first_error());
      return ok_status();
    });
    return ok_status();
  }

  Status wait(Event& event) override {
    const auto point = static_cast<FakeEvent&>(event).point();
    if (point == nullptr) return ok_status();
    enqueue([point] { return point->wait(); });
    return ok_status();
  }

  Status synchronize() override {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return queue_.empty() && !working_; });
    return std::exchange(error_, ok_status());
  }

 private:
  using Work = std::function<Status()>;

  template <typename Pointer>
  Result<std::vector<Pointer>> mapped(std::span<Pointer const> pointers,
                                      std::string_view what) const {
    std::vector<Pointer> found;
    for (const Pointer pointer : pointers) {
      if (pointer != nullptr && !device_.is_device(pointer)) {
        return internal_error("fake_async: " + std::string(what) + " was given a host pointer");
      }
      found.push_back(pointer == nullptr ? nullptr : device_.mapped(pointer));
    }
    return found;
  }

  Status first_error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }

  void enqueue(Work work) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
    }
    changed_.notify_all();
  }

  // Late, and never in the same rhythm.
  void dawdle() {
    const auto number = random_();
    if (number % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(number / 8 % 100));
    if (number % 8 == 1) std::this_thread::yield();
  }

  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const Work work = std::move(queue_.front());
      queue_.pop_front();
      working_ = true;
      lock.unlock();
      dawdle();
      const Status status = work();
      lock.lock();
      working_ = false;
      if (error_.ok()) error_ = status;
      if (queue_.empty()) idle_.notify_all();
    }
  }

  FakeAsyncDevice& device_;
  const std::unique_ptr<Stream> cpu_;
  std::minstd_rand random_;
  std::mutex mutex_;
  std::condition_variable changed_, idle_;
  std::deque<Work> queue_;
  bool working_ = false, stopping_ = false;
  Status error_;
  std::thread thread_;
};

}  // namespace

FakeAsyncDevice::FakeAsyncDevice(std::int64_t bytes, bool has_launch_costs)
    : bytes_(bytes),
      has_launch_costs_(has_launch_costs),
      addresses_(map(PROT_NONE)),
      memory_(map(PROT_NONE)) {
  free_[kSpace / 4] = 3 * (kSpace / 4);
}

FakeAsyncDevice::~FakeAsyncDevice() {
  munmap(addresses_, static_cast<std::size_t>(kSpace));
  munmap(memory_, static_cast<std::size_t>(kSpace));
}

Properties FakeAsyncDevice::properties() const {
  // As the CPU, whose kernels it runs: plans and launches are the same.
  Properties known = cpu_device()->properties();
  known.model = "fake_async on " + known.model;
  known.has_launch_costs = has_launch_costs_;
  return known;
}

Result<void*> FakeAsyncDevice::allocate(std::int64_t bytes) {
  PLIMSOLL_RETURN_IF_ERROR(count(Call::allocate));
  const std::lock_guard lock(mutex_);
  if (bytes > bytes_ - used_bytes_) {
    return Status(StatusCode::resource_exhausted,
                  "fake_async: allocating " + std::to_string(bytes) +
                      " bytes: " + std::to_string(bytes_ - used_bytes_) + " are left");
  }
  // Behind each block lies a page that nobody gets.
  const std::int64_t taken = in_pages(bytes) + kPage;
  const auto room = std::find_if(free_.begin(), free_.end(), [&](const auto& range) {
    return range.second - range.first >= taken;
  });
  if (room == free_.end()) return internal_error("fake_async: no more addresses");
  const auto [begin, end] = *room;
  free_.erase(room);
  if (begin + taken < end) free_[begin + taken] = end;
  const auto size = static_cast<std::size_t>(in_pages(bytes));
  if (mprotect(memory_ + begin, size, PROT_READ | PROT_WRITE) != 0) std::abort();
  std::memset(memory_ + begin, static_cast<int>(kFill), std::min(size, kMostFilled));
  used_bytes_ += bytes;
  ++allocations_;
  return addresses_ + begin;
}

void FakeAsyncDevice::deallocate(void* pointer, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  std::int64_t begin = static_cast<std::byte*>(pointer) - addresses_;
  std::int64_t end = begin + in_pages(bytes) + kPage;
  const auto size = static_cast<std::size_t>(in_pages(bytes));
  (void)madvise(memory_ + begin, size, MADV_DONTNEED);
  if (mprotect(memory_ + begin, size, PROT_NONE) != 0) std::abort();
  used_bytes_ -= bytes;
  --allocations_;
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == end) {
    end = next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->second == begin) {
    begin = std::prev(next)->first;
  }
  free_[begin] = end;
}

Result<void*> FakeAsyncDevice::allocate_host(std::int64_t bytes) {
  return cpu_device()->allocate_host(bytes);
}

void FakeAsyncDevice::deallocate_host(void* pointer, std::int64_t bytes) {
  cpu_device()->deallocate_host(pointer, bytes);
}

Result<std::unique_ptr<Stream>> FakeAsyncDevice::create_stream() {
  static std::atomic<unsigned> streams{0};
  PLIMSOLL_ASSIGN_OR_RETURN(auto cpu, cpu_device()->create_stream());
  return std::unique_ptr<Stream>(std::make_unique<FakeStream>(*this, std::move(cpu), ++streams));
}

Result<std::unique_ptr<Event>> FakeAsyncDevice::create_event() {
  return std::unique_ptr<Event>(std::make_unique<FakeEvent>());
}

std::int64_t FakeAsyncDevice::allocations() const {
  const std::lock_guard lock(mutex_);
  return allocations_;
}

bool FakeAsyncDevice::is_device(const void* pointer) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto first = reinterpret_cast<std::uintptr_t>(addresses_);
  return address >= first && address - first < static_cast<std::uintptr_t>(kSpace);
}

std::byte* FakeAsyncDevice::mapped(const void* pointer) const {
  return memory_ + (static_cast<const std::byte*>(pointer) - addresses_);
}

const std::shared_ptr<FakeAsyncDevice>& fake_async_device() {
  static const auto* const device = new std::shared_ptr<FakeAsyncDevice>(
      std::make_shared<FakeAsyncDevice>(cpu_device()->total_bytes()));
  return *device;
}

Status register_fake_async() {
  PLIMSOLL_RETURN_IF_ERROR(register_device(fake_async_device()));
  return backend::register_backend(std::string(fake_async_device()->name()),
                                   backend::CpuKernels::create);
}

}  // namespace plimsoll::device
