// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/executor/executable.h"
#include "runtime/memory/budget.h"
#include "runtime/trace/value.h"

namespace plimsoll::trace {

// One run of a plan: what it reads, what it makes.
struct Execution {
  std::shared_ptr<const executor::Executable> executable;
  std::vector<std::shared_ptr<Value>> parameters;
  std::vector<std::int64_t> scalars;  // lifted constants: the last parameters, by their bits
  std::vector<std::weak_ptr<Value>> outputs;
  std::vector<std::int64_t> output_bytes;
  std::vector<memory::Tag> output_tags;
  std::shared_ptr<std::atomic<double>> seconds;  // set when it has run
  bool reported = false;                         // its failure has been given to the user
};

// The thread that runs executions in the order of submission, at most `kDepth` waiting. Thread-safe
// against its own thread; used by one other thread at a time.
class Worker {
 public:
  Worker(std::shared_ptr<memory::Budget> budget) : budget_(std::move(budget)) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  // Every output value's state is `running` from here on. Blocks while the queue is full.
  Status submit(std::shared_ptr<Execution> execution);
  // Blocks until the value is not `running`; its error, if it failed. The failure of an execution
  // that could be tried again is reported once; after that it is tried again here.
  Status wait(const std::shared_ptr<Value>& value);
  // Submits again, in their order, the executions that failed for lack of memory. To be called
  // before a new execution, so that none overtakes them.
  Status revive();
  // Blocks until nothing runs or waits; the first error since the last call.
  Status wait_all();
  void wait_idle();

 private:
  static constexpr std::size_t kDepth = 2;
  void loop();
  void finish(const std::shared_ptr<Execution>& execution);
  Status check_donations(const Execution& execution);
  Status run(Execution& execution, std::vector<std::shared_ptr<Value>>& outputs, bool& untouched);

  const std::shared_ptr<memory::Budget> budget_;
  std::unique_ptr<device::Stream> stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Execution>> queue_;  // the front one runs
  bool stopping_ = false;
  Status first_error_;
  // Failed before they touched anything, and wanted still: the values they should make hold them.
  std::vector<std::weak_ptr<Execution>> dormant_;
  std::thread thread_;
};

}  // namespace plimsoll::trace
