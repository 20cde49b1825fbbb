// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/event.h"

#include "plugins/pjrt/api.h"

namespace plimsoll::pjrt {

using namespace abi;

void Moment::end(Error* error) {
  std::vector<std::pair<Callback, void*>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_) {
      destroy(error);
      return;
    }
    has_ended_ = true;
    error_.reset(error);
    callbacks.swap(callbacks_);
    changed_.notify_all();
  }
  for (const auto& [callback, user] : callbacks) callback(copy_of(error), user);
}

bool Moment::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

Error* Moment::error() const {
  const std::lock_guard lock(mutex_);
  return copy_of(error_.get());
}

Error* Moment::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return has_ended_; });
  return copy_of(error_.get());
}

void Moment::when_ended(Callback callback, void* user) {
  {
    const std::lock_guard lock(mutex_);
    if (!has_ended_) {
      callbacks_.emplace_back(callback, user);
      return;
    }
  }
  callback(error(), user);
}

Event* make_ended_event(Error* error) {
  auto moment = make_moment();
  moment->end(error);
  return make_event(std::move(moment));
}

void end_moment(void* user, const plm_status* status) {
  const std::unique_ptr<std::shared_ptr<Moment>> moment(
      static_cast<std::shared_ptr<Moment>*>(user));
  (*moment)->end(from_borrowed(status));
}

Error* Event_Destroy(Event_Destroy_Args* args) {
  delete args->event;
  return nullptr;
}

Error* Event_IsReady(Event_IsReady_Args* args) {
  args->is_ready = args->event->moment->has_ended();
  return nullptr;
}

Error* Event_Error(Event_Error_Args* args) {
  return guarded([&] { return args->event->moment->error(); });
}

Error* Event_Await(Event_Await_Args* args) {
  return guarded([&] { return args->event->moment->wait(); });
}

Error* Event_OnReady(Event_OnReady_Args* args) {
  return guarded([&]() -> Error* {
    const std::shared_ptr<Moment> moment = args->event->moment;  // the callback may destroy it
    moment->when_ended(args->callback, args->user);
    return nullptr;
  });
}

Error* Event_Create(Event_Create_Args* args) {
  return guarded([&]() -> Error* {
    args->event = make_event(make_moment());
    return nullptr;
  });
}

Error* Event_Set(Event_Set_Args* args) {
  return guarded([&]() -> Error* {
    const std::shared_ptr<Moment> moment = args->event->moment;
    moment->end(args->error_code == kOk ? nullptr
                                        : make_error(args->error_code, {args->error_message,
                                                                        args->error_message_size}));
    return nullptr;
  });
}

}  // namespace plimsoll::pjrt
