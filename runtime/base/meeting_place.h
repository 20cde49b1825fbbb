// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "runtime/base/cancellation.h"
#include "runtime/base/status.h"

namespace plimsoll {

// The error of all where a participant has to end (CANCELLED, DEADLINE_EXCEEDED: `why`) while it
// waits for others at `what`.
Status left_waiting(std::int64_t participant, std::string_view what, const Status& why);

// Where threads that compute one thing together meet, each as a participant with a number. Members
// of a group come to their meetings in the same order; nobody waits for ever: whoever waits for
// one that has left, that came for something else, or in a circle, is told so, and with it everyone
// else. Thread-safe.
class MeetingPlace {
 public:
  using Timeout = std::chrono::duration<double>;
  // Who waits for longer than `timeout` for one that does not come ends it for all
  // (DEADLINE_EXCEEDED).
  explicit MeetingPlace(std::int64_t participants, Timeout timeout = Timeout::max());
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  struct Meeting {
    std::span<const std::int64_t> group;  // participants; the same for all of them
    std::size_t self = 0;                 // position in it of the one who calls
    std::string_view what;                // what for, in words; the same for all of them
    // Where it says so, the one who calls does not wait any more for others to come, which then is
    // everyone's error. Null: never. What has begun is done to its end.
    const Stop* stop = nullptr;
  };

  // A non-owning reference to a callable `Status(std::span<const void* const> shown)`.
  class Work {
   public:
    template <typename F>
      requires(!std::is_same_v<std::remove_cvref_t<F>, Work>)
    Work(F&& f)
        : object_(const_cast<void*>(static_cast<const void*>(&f))),
          call_([](void* object, std::span<const void* const> shown) -> Status {
            return (*static_cast<std::remove_reference_t<F>*>(object))(shown);
          }) {}
    Status operator()(std::span<const void* const> shown) const { return call_(object_, shown); }

   private:
    void* object_;
    Status (*call_)(void*, std::span<const void* const>);
  };

  // Waits for the whole group, does `work` on what its members show, in the group's order, and
  // waits until all have done theirs: nobody looks at `shown` any more when it returns. An error of
  // one member's work is everyone's.
  Status meet(const Meeting& meeting, const void* shown, const Work& work);

  // What one participant hands to another, or to itself, in two halves each. The first halves never
  // wait: whichever comes second moves, or waits in the second halves until the other has moved.
  // Of one passage several may be under way; they come in the order in which they were begun.
  struct Passage {
    std::int64_t from = 0, to = 0;
    std::string_view what;  // what for, in words; the same at both ends
  };
  using Take = std::function<Status(const void* shown)>;
  // `shown`, and what `take` writes to, stay until the second half has returned, or `forget` has.
  Status begin_send(const Passage& passage, const void* shown);
  Status begin_receive(const Passage& passage, Take take);
  Status end_send(const Passage& passage, const Stop* stop);
  Status end_receive(const Passage& passage, const Stop* stop);
  // Nothing that the participant has begun, and not ended, is looked at afterwards.
  void forget(std::int64_t participant);

  // That the participant comes to no more meetings: they would fail. With an error, those of all
  // the others end, too; without, those that wait for this one.
  void leave(std::int64_t participant, const Status& status);

 private:
  struct Round {
    std::vector<std::int64_t> group;
    std::vector<const void*> shown;
    std::vector<std::string_view> what;
    std::vector<bool> has_come;
    std::size_t come = 0, done = 0;
    std::uint64_t number = 0;
    std::condition_variable changed;
  };

  struct Parcel {
    const void* shown = nullptr;
    Take take;
    bool has_sender = false, has_receiver = false;
    bool is_moving = false, is_done = false;
    bool sender_waits = false, receiver_waits = false;  // in the second halves
    bool sent = false, received = false;                // these are over
  };
  using PassageKey = std::tuple<std::int64_t, std::int64_t, std::string>;
  using Parcels = std::list<Parcel>;

  Parcels& parcels_of(const Passage& passage);
  Status move(std::unique_lock<std::mutex>& lock, const Passage& passage, Parcel& parcel);
  Status end_passage(const Passage& passage, const Stop* stop, bool sends);
  void begin_wait(std::int64_t participant, std::string_view what);
  void end_wait(std::int64_t participant);
  // When a wait that begins now ends by itself.
  Stop::Clock::time_point end_of_wait() const;
  Status late(std::int64_t waiting, std::string_view what, const std::string& missing,
              bool several) const;
  void wait_for_all(std::unique_lock<std::mutex>& lock, const Meeting& meeting, Round& round);
  Round& round_of(std::span<const std::int64_t> group);
  void end_all(const Status& status);
  void look_for_circle();
  static Status missed(const Round& round, std::int64_t participant);
  static Status missed(std::int64_t waiting, std::string_view what, std::int64_t participant);

  const Timeout timeout_;
  std::mutex mutex_;  // guards what follows
  std::map<std::vector<std::int64_t>, std::unique_ptr<Round>> rounds_;
  std::vector<bool> has_left_;
  std::map<PassageKey, Parcels> passages_;
  std::condition_variable moved_;
  // By participant: what it waits for; none: it does something.
  std::vector<std::optional<std::string_view>> waits_for_;
  std::int64_t active_;  // participants that neither wait nor have left
  Status ended_;
};

}  // namespace plimsoll
