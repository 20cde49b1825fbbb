// SPDX-License-Identifier: Apache-2.0
#include "runtime/buffers/dispatcher.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace plimsoll::buffers {

struct Dispatcher::State {
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable has_work, idle;
  std::deque<std::function<void()>> tasks;
  bool is_running = false;  // a task
  bool ends = false;
  std::thread thread;

  bool is_own_thread() const { return thread.get_id() == std::this_thread::get_id(); }
};

Dispatcher::Dispatcher() : state_(std::make_shared<State>()) {}

Dispatcher::~Dispatcher() {
  std::unique_lock lock(state_->mutex);
  state_->ends = true;
  state_->has_work.notify_all();
  if (!state_->thread.joinable()) return;
  if (state_->is_own_thread()) {
    state_->thread.detach();
    return;
  }
  std::thread thread = std::move(state_->thread);
  lock.unlock();
  thread.join();
}

void Dispatcher::loop(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->has_work.wait(lock, [&] { return state->ends || !state->tasks.empty(); });
    if (state->tasks.empty()) return;
    std::function<void()> task = std::move(state->tasks.front());
    state->tasks.pop_front();
    state->is_running = true;
    lock.unlock();
    task();
    task = nullptr;  // what it holds goes before it counts as done
    lock.lock();
    state->is_running = false;
    if (state->tasks.empty()) state->idle.notify_all();
  }
}

void Dispatcher::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(state_->mutex);
    try {
      if (!state_->thread.joinable()) state_->thread = std::thread(loop, state_);
      state_->tasks.push_back(std::move(task));
      state_->has_work.notify_one();
      return;
    } catch (const std::system_error&) {  // no thread: below
    }
  }
  task();
}

bool Dispatcher::is_idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->tasks.empty() && !state_->is_running;
}

void Dispatcher::wait_idle() {
  std::unique_lock lock(state_->mutex);
  if (state_->thread.joinable() && state_->is_own_thread()) return;
  state_->idle.wait(lock, [&] { return state_->tasks.empty() && !state_->is_running; });
}

}  // namespace plimsoll::buffers
