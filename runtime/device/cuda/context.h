// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/fork.h"
#include "runtime/base/status.h"
#include "runtime/device/cuda/driver.h"

namespace plimsoll::device::cuda {

// What the driver knows of a GPU.
struct Facts {
  std::string model;           // "NVIDIA H100 PCIe"
  int ordinal = 0;             // among those that the driver shows
  int compute_capability = 0;  // 90 for 9.0
  int driver_version = 0;      // 12040 for 12.4
  int multiprocessors = 0;
  int threads_per_multiprocessor = 0;
  int most_threads_per_block = 0;
  std::int64_t most_shared_bytes = 0;  // of a block, where its kernel asks for it
  std::int64_t cache_bytes = 0;        // of the second level
  double bytes_per_second = 0;         // of its memory, at its clock and width; 0: not told
  bool maps_memory = false;            // has the virtual-memory calls
};

// The primary context of one GPU, which all that work on it in a process share. Calls make it
// current on the calling thread for as long as they take, and leave the thread as it was.
// Thread-safe. In a child that fork() made, every call fails with FAILED_PRECONDITION.
class Context {
 public:
  static Result<std::shared_ptr<const Context>> create(const Driver& driver, int ordinal);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Facts& facts() const { return facts_; }
  const std::string& name() const { return name_; }  // "cuda:0"
  // Bytes that the driver could give out when the context had been made: what others have taken,
  // and the context's own share, are not among them.
  std::int64_t bytes_at_start() const { return bytes_at_start_; }
  // What the driver can give out now.
  Result<std::int64_t> free_bytes() const;

  // Does `work` while nothing else of ours takes device memory, and counts what the driver has less
  // of it afterwards as the driver's own; gives those bytes. `text_bytes` is how much text of code
  // the driver then has more: what is missing beyond what all of it may take has been taken by
  // another process meanwhile.
  Result<std::int64_t> measure(const std::function<Status()>& work, std::size_t text_bytes) const;
  // To be held while device memory is taken that is counted by whoever takes it.
  std::unique_lock<std::mutex> taking_memory() const { return std::unique_lock(taking_); }
  // What `measure` counted goes back, with the text.
  void forget(std::int64_t bytes, std::size_t text_bytes) const;
  // What the driver has less after `work`, of a library that takes at most so much at once; counts
  // nothing.
  Result<std::int64_t> measure_library(const std::function<Status()>& work,
                                       std::int64_t most_bytes) const;
  // Counts so much more (below zero: less) as libraries' own, taken or about to be.
  void count_library(std::int64_t bytes) const { library_bytes_ += bytes; }
  std::int64_t overhead_bytes() const { return overhead_bytes_ + library_bytes_; }

  // Errors begin with the device's name.
  template <typename... Parameters, typename... Arguments>
  Status call(DriverResult (*Driver::*member)(Parameters...), Arguments... arguments) const {
    const Current current(*this);
    if (!current.status().ok()) return current.status();
    const Status status = cuda::call(driver_, member, arguments...);
    return status.ok() ? status : status.with_context(name_);
  }
  // `work`, which calls a library that goes by the current context, with this one current.
  Status within(const std::function<Status()>& work) const;
  // The result as it is; an error where the call could not be made.
  template <typename... Parameters, typename... Arguments>
  Result<DriverResult> ask(DriverResult (*Driver::*member)(Parameters...),
                           Arguments... arguments) const {
    const Current current(*this);
    if (!current.status().ok()) return current.status();
    return (driver_.*member)(arguments...);
  }

 private:
  // Makes the context current where it is not, for as long as it lives.
  class Current {
   public:
    explicit Current(const Context& context);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    const Status& status() const { return status_; }

   private:
    const Context& context_;
    Status status_;
    bool pushed_ = false;
  };

  Context(const Driver& driver, int ordinal);
  Status open();
  Status read_facts();

  const Driver& driver_;
  const std::string name_;
  Facts facts_;
  DeviceHandle device_ = 0;
  ContextHandle handle_ = nullptr;
  std::int64_t bytes_at_start_ = 0;
  mutable std::mutex taking_;
  mutable std::int64_t text_bytes_ = 0;  // of all code; guarded by taking_
  mutable std::atomic<std::int64_t> overhead_bytes_{0};
  mutable std::atomic<std::int64_t> library_bytes_{0};
  const ForkMark mark_;
};

}  // namespace plimsoll::device::cuda
