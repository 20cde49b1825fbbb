// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace plimsoll::collectives {

// Collectives of one run that are done while its kernels run, on a thread and a stream of their
// own, in the order in which they were begun. All functions for the run's thread, which calls the
// communicator itself only when none is under way.
class CommunicationThread {
 public:
  explicit CommunicationThread(device::Device& device) : device_(device) {}
  // Waits for the one that is being done; further ones are not.
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  struct Launch {
    const device::Kernel* kernel = nullptr;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    void* workspace = nullptr;
    std::string name;  // the instruction's, for errors
  };
  // To be done after what `stream` has been given so far, with its communicator. What the pointers
  // lead to stays as it is until `wait` says that it is over. The error of an earlier one.
  Status begin(device::Stream& stream, Launch launch);
  std::int64_t begun() const { return begun_; }
  // Until the first `count` of those that were begun are over. The first error of any of them,
  // after which none is under way.
  Status wait(std::int64_t count);

 private:
  struct Work {
    Launch launch;
    std::unique_ptr<device::Event> ready;
  };
  void run();
  Status run_one(const Work& work);

  device::Device& device_;
  std::unique_ptr<device::Stream> stream_;
  std::int64_t begun_ = 0;  // the run's thread alone reads it
  std::int64_t seen_ = 0;   // over, as the run's thread knows
  std::mutex mutex_;        // guards what follows
  std::condition_variable changed_;
  std::deque<Work> waiting_;
  std::int64_t over_ = 0;
  Status first_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace plimsoll::collectives
