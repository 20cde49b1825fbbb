// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/meeting_place.h"

#include <fmt/core.h>
#include <algorithm>

#include "runtime/base/index.h"

namespace plimsoll {
namespace {

constexpr int kMostNamed = 8;

}  // namespace

Status left_waiting(std::int64_t participant, std::string_view what, const Status& why) {
  return Status(why.code(),
                fmt::format("participant {} has left {}, where it waited for others: {}",
                            participant, what, why.message()));
}

MeetingPlace::MeetingPlace(std::int64_t participants)
    : has_left_(at(participants), false),
      waits_in_(at(participants), nullptr),
      active_(participants) {}

MeetingPlace::Round& MeetingPlace::round_of(std::span<const std::int64_t> group) {
  std::vector<std::int64_t> key(group.begin(), group.end());
  std::unique_ptr<Round>& round = rounds_[key];
  if (round == nullptr) {
    round = std::make_unique<Round>();
    round->shown.resize(key.size());
    round->what.resize(key.size());
    round->has_come.resize(key.size());
    round->group = std::move(key);
  }
  return *round;
}

Status MeetingPlace::missed(const Round& round, std::int64_t participant) {
  const auto first = std::find(round.has_come.begin(), round.has_come.end(), true);
  const auto waiting = static_cast<std::size_t>(first - round.has_come.begin());
  return failed_precondition(
      fmt::format("participant {} waits at {}, but participant {} has ended without coming there",
                  round.group[waiting], round.what[waiting], participant));
}

void MeetingPlace::end_all(const Status& status) {
  if (ended_.ok()) ended_ = status;
  for (const auto& [group, round] : rounds_) round->changed.notify_all();
}

// When nobody is at work any more, those who wait do so for each other.
void MeetingPlace::look_for_circle() {
  if (active_ > 0 || !ended_.ok()) return;
  std::string waiting;
  int named = 0;
  for (std::size_t i = 0; i < waits_in_.size(); ++i) {
    const Round* const round = waits_in_[i];
    if (round == nullptr) continue;
    if (named++ == kMostNamed) {
      waiting += ", ...";
      break;
    }
    const auto self = static_cast<std::size_t>(
        std::find(round->group.begin(), round->group.end(), static_cast<std::int64_t>(i)) -
        round->group.begin());
    waiting += fmt::format("{}participant {} at {}", named > 1 ? ", " : "", i, round->what[self]);
  }
  if (named == 0) return;
  end_all(
      failed_precondition("participants wait for each other at different collectives: " + waiting));
}

void MeetingPlace::wait_for_all(std::unique_lock<std::mutex>& lock, const Meeting& meeting,
                                Round& round) {
  const auto is_over = [&] { return round.come == round.group.size() || !ended_.ok(); };
  for (const Stop* const stop = meeting.stop; !is_over();) {
    const Status status = stop == nullptr ? ok_status() : stop->check();
    if (!status.ok()) {
      end_all(left_waiting(meeting.group[meeting.self], meeting.what, status));
    } else if (stop != nullptr && stop->has_deadline()) {
      round.changed.wait_until(lock, stop->deadline);
    } else {
      round.changed.wait(lock);
    }
  }
}

Status MeetingPlace::meet(const Meeting& meeting, const void* shown, const Work& work) {
  Round* waits_at = nullptr;  // under the mutex
  const Cancellation::Watch watch(
      meeting.stop == nullptr ? nullptr : meeting.stop->cancellation.get(), [&] {
        const std::lock_guard woken(mutex_);
        if (waits_at != nullptr) waits_at->changed.notify_all();
      });
  std::unique_lock lock(mutex_);
  if (!ended_.ok()) return ended_;
  const std::int64_t self = meeting.group[meeting.self];
  if (has_left_[at(self)]) {
    return failed_precondition(
        fmt::format("participant {} has left and comes to {}", self, meeting.what));
  }
  Round& round = round_of(meeting.group);
  round.shown[meeting.self] = shown;
  round.what[meeting.self] = meeting.what;
  round.has_come[meeting.self] = true;
  const std::uint64_t number = round.number;
  const std::size_t members = round.group.size();
  if (++round.come == members) {
    for (std::size_t i = 1; i < members && ended_.ok(); ++i) {
      if (round.what[i] == round.what[0]) continue;
      end_all(failed_precondition(fmt::format("participant {} comes to {}, participant {} to {}",
                                              round.group[0], round.what[0], round.group[i],
                                              round.what[i])));
    }
    if (!ended_.ok()) {
      round.come = 0;  // nobody starts
      return ended_;
    }
    // Those that waited for this are at work from now on, whether or not they have woken up.
    for (const std::int64_t member : round.group) {
      if (waits_in_[at(member)] == nullptr) continue;
      waits_in_[at(member)] = nullptr;
      ++active_;
    }
    round.changed.notify_all();
  } else {
    for (std::size_t i = 0; i < members; ++i) {
      if (!round.has_come[i] && has_left_[at(round.group[i])]) {
        end_all(missed(round, round.group[i]));
        return ended_;
      }
    }
    waits_in_[at(self)] = &round;
    --active_;
    look_for_circle();
    waits_at = &round;
    wait_for_all(lock, meeting, round);
    waits_at = nullptr;
    // Whoever is the last to come starts the work of all, and none ends before it has been done.
    if (round.come != members) return ended_;
  }
  lock.unlock();
  const Status status = work(round.shown);
  lock.lock();
  if (!status.ok()) end_all(status);
  if (++round.done == members) {
    round.come = round.done = 0;
    round.has_come.assign(members, false);
    ++round.number;
    round.changed.notify_all();
  } else {
    round.changed.wait(lock, [&] { return round.number != number; });
  }
  return ended_;
}

void MeetingPlace::leave(std::int64_t participant, const Status& status) {
  const std::lock_guard lock(mutex_);
  if (has_left_[at(participant)]) return;
  has_left_[at(participant)] = true;
  --active_;
  if (!status.ok()) {
    end_all(status);
    return;
  }
  for (const auto& [group, round] : rounds_) {
    if (round->come == 0 || round->come == group.size()) continue;
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (group[i] != participant || round->has_come[i]) continue;
      end_all(missed(*round, participant));
      return;
    }
  }
  look_for_circle();
}

}  // namespace plimsoll
