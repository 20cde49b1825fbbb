// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "plugins/pjrt/error.h"

namespace plimsoll::pjrt {

// Something that ends once, well or badly, and tells those who asked. Thread-safe.
class Moment {
 public:
  using Callback = void (*)(Error* error, void* user);  // owns the error

  // Takes the error; NULL: it went well. Only the first call counts.
  void end(Error* error);
  bool has_ended() const;
  // A copy for the caller; NULL while it has not ended.
  Error* error() const;
  // Blocks; a copy for the caller.
  Error* wait() const;
  void when_ended(Callback callback, void* user);

 private:
  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable changed_;
  bool has_ended_ = false;
  std::unique_ptr<Error, DestroyError> error_;
  std::vector<std::pair<Callback, void*>> callbacks_;
};

}  // namespace plimsoll::pjrt

// A framework's handle on a moment, which lives as long as anybody will end it or look at it.
struct plimsoll::pjrt::abi::Event {
  std::shared_ptr<Moment> moment;
};

namespace plimsoll::pjrt {

using abi::Event;

inline std::shared_ptr<Moment> make_moment() { return std::make_shared<Moment>(); }
inline Event* make_event(std::shared_ptr<Moment> moment) { return new Event{std::move(moment)}; }
// Takes the error.
Event* make_ended_event(Error* error);
// As a plm_done_function: `user` is a new std::shared_ptr<Moment>, which it deletes.
void end_moment(void* user, const plm_status* status);

}  // namespace plimsoll::pjrt
