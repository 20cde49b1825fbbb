// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

namespace plimsoll::buffers {

// Does what its callers don't wait for: one task after the other, in the order in which they come,
// on a thread of its own, which starts with the first. Thread-safe; tasks may submit others.
class Dispatcher {
 public:
  Dispatcher();
  // Waits for all tasks, unless a task itself destroys it: then those that are left are done
  // after it.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // The task must not throw. Where no thread can be started it is done before this returns.
  void submit(std::function<void()> task);
  // Nothing is left to do.
  bool is_idle() const;
  // Blocks until it is; from a task, returns at once.
  void wait_idle();

 private:
  struct State;
  static void loop(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;  // with the thread
};

}  // namespace plimsoll::buffers
