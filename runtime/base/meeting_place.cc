// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/meeting_place.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <algorithm>

#include "runtime/base/index.h"

namespace plimsoll {
namespace {

constexpr int kMostNamed = 8;

// A wait until the end of time is one without an end: some libraries add to it.
void wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                Stop::Clock::time_point end) {
  if (end == Stop::Clock::time_point::max()) {
    changed.wait(lock);
  } else {
    changed.wait_until(lock, end);
  }
}

}  // namespace

Status left_waiting(std::int64_t participant, std::string_view what, const Status& why) {
  return Status(why.code(),
                fmt::format("participant {} has left {}, where it waited for others: {}",
                            participant, what, why.message()));
}

MeetingPlace::MeetingPlace(std::int64_t participants, Timeout timeout)
    : timeout_(timeout),
      has_left_(at(participants), false),
      waits_for_(at(participants)),
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

Status MeetingPlace::missed(std::int64_t waiting, std::string_view what, std::int64_t participant) {
  return failed_precondition(
      fmt::format("participant {} waits at {}, but participant {} has ended without coming there",
                  waiting, what, participant));
}

Status MeetingPlace::missed(const Round& round, std::int64_t participant) {
  const auto first = std::find(round.has_come.begin(), round.has_come.end(), true);
  const auto waiting = static_cast<std::size_t>(first - round.has_come.begin());
  return missed(round.group[waiting], round.what[waiting], participant);
}

void MeetingPlace::end_all(const Status& status) {
  if (ended_.ok()) ended_ = status;
  for (const auto& [group, round] : rounds_) round->changed.notify_all();
  moved_.notify_all();
}

void MeetingPlace::begin_wait(std::int64_t participant, std::string_view what) {
  waits_for_[at(participant)] = what;
  --active_;
  look_for_circle();
}

// Of one whose wait is over, whether or not it has woken up.
void MeetingPlace::end_wait(std::int64_t participant) {
  if (!waits_for_[at(participant)].has_value()) return;
  waits_for_[at(participant)].reset();
  ++active_;
}

// When nobody is at work any more, those who wait do so for each other.
void MeetingPlace::look_for_circle() {
  if (active_ > 0 || !ended_.ok()) return;
  std::string waiting;
  int named = 0;
  for (std::size_t i = 0; i < waits_for_.size(); ++i) {
    if (!waits_for_[i].has_value()) continue;
    if (named++ == kMostNamed) {
      waiting += ", ...";
      break;
    }
    waiting += fmt::format("{}participant {} at {}", named > 1 ? ", " : "", i, *waits_for_[i]);
  }
  if (named == 0) return;
  end_all(
      failed_precondition("participants wait for each other at different collectives: " + waiting));
}

Stop::Clock::time_point MeetingPlace::end_of_wait() const {
  const auto now = Stop::Clock::now();
  const auto longest = std::chrono::duration<double>(Stop::Clock::time_point::max() - now) / 2;
  if (timeout_ >= longest) return Stop::Clock::time_point::max();
  return now + std::chrono::duration_cast<Stop::Clock::duration>(timeout_);
}

Status MeetingPlace::late(std::int64_t waiting, std::string_view what, const std::string& missing,
                          bool several) const {
  return Status(
      StatusCode::deadline_exceeded,
      fmt::format("participant {} waits at {}, but participant{} {} did not come for {} s "
                  "(PLIMSOLL_COLLECTIVE_TIMEOUT sets the time)",
                  waiting, what, several ? "s" : "", missing, timeout_.count()));
}

void MeetingPlace::wait_for_all(std::unique_lock<std::mutex>& lock, const Meeting& meeting,
                                Round& round) {
  const auto is_over = [&] { return round.come == round.group.size() || !ended_.ok(); };
  const auto end = end_of_wait();
  for (const Stop* const stop = meeting.stop; !is_over();) {
    const Status status = stop == nullptr ? ok_status() : stop->check();
    if (!status.ok()) {
      end_all(left_waiting(meeting.group[meeting.self], meeting.what, status));
    } else if (Stop::Clock::now() >= end) {
      std::vector<std::int64_t> missing;
      for (std::size_t i = 0; i < round.group.size(); ++i) {
        if (!round.has_come[i]) missing.push_back(round.group[i]);
      }
      const std::span<const std::int64_t> named(missing.data(),
                                                std::min<std::size_t>(missing.size(), kMostNamed));
      end_all(late(
          meeting.group[meeting.self], meeting.what,
          fmt::format("{}{}", fmt::join(named, ", "), named.size() < missing.size() ? ", ..." : ""),
          missing.size() > 1));
    } else {
      wait_until(lock, round.changed, stop == nullptr ? end : std::min(end, stop->deadline));
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
      end_all(failed_precondition(
          fmt::format("participant {} comes to {}, participant {} to {} (all must run the same "
                      "operations, in the same order and on the same sizes)",
                      round.group[0], round.what[0], round.group[i], round.what[i])));
    }
    if (!ended_.ok()) {
      round.come = 0;  // nobody starts
      return ended_;
    }
    // Those that waited for this are at work from now on, whether or not they have woken up.
    for (const std::int64_t member : round.group) end_wait(member);
    round.changed.notify_all();
  } else {
    for (std::size_t i = 0; i < members; ++i) {
      if (!round.has_come[i] && has_left_[at(round.group[i])]) {
        end_all(missed(round, round.group[i]));
        return ended_;
      }
    }
    begin_wait(self, meeting.what);
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
  for (const auto& [key, parcels] : passages_) {
    const auto& [from, to, what] = key;
    for (const Parcel& parcel : parcels) {
      const bool is_missed = (parcel.sender_waits && to == participant) ||
                             (parcel.receiver_waits && from == participant);
      if (parcel.is_done || !is_missed) continue;
      end_all(missed(parcel.sender_waits ? from : to, what, participant));
      return;
    }
  }
  look_for_circle();
}

MeetingPlace::Parcels& MeetingPlace::parcels_of(const Passage& passage) {
  return passages_[{passage.from, passage.to, std::string(passage.what)}];
}

// By whichever end has come second, and not under the mutex: others go on meanwhile.
Status MeetingPlace::move(std::unique_lock<std::mutex>& lock, const Passage& passage,
                          Parcel& parcel) {
  if (!parcel.has_sender || !parcel.has_receiver) return ok_status();
  parcel.is_moving = true;
  lock.unlock();
  const Status status = parcel.take(parcel.shown);
  lock.lock();
  parcel.is_moving = false;
  parcel.is_done = true;
  if (!status.ok()) end_all(status);
  if (parcel.sender_waits) end_wait(passage.from);
  if (parcel.receiver_waits) end_wait(passage.to);
  moved_.notify_all();
  return status;
}

Status MeetingPlace::begin_send(const Passage& passage, const void* shown) {
  std::unique_lock lock(mutex_);
  if (!ended_.ok()) return ended_;
  Parcels& parcels = parcels_of(passage);
  auto parcel = std::find_if(parcels.begin(), parcels.end(),
                             [](const Parcel& one) { return !one.has_sender; });
  if (parcel == parcels.end()) parcel = parcels.emplace(parcels.end());
  parcel->has_sender = true;
  parcel->shown = shown;
  return move(lock, passage, *parcel);
}

Status MeetingPlace::begin_receive(const Passage& passage, Take take) {
  std::unique_lock lock(mutex_);
  if (!ended_.ok()) return ended_;
  Parcels& parcels = parcels_of(passage);
  auto parcel = std::find_if(parcels.begin(), parcels.end(),
                             [](const Parcel& one) { return !one.has_receiver; });
  if (parcel == parcels.end()) parcel = parcels.emplace(parcels.end());
  parcel->has_receiver = true;
  parcel->take = std::move(take);
  return move(lock, passage, *parcel);
}

Status MeetingPlace::end_send(const Passage& passage, const Stop* stop) {
  return end_passage(passage, stop, true);
}

Status MeetingPlace::end_receive(const Passage& passage, const Stop* stop) {
  return end_passage(passage, stop, false);
}

Status MeetingPlace::end_passage(const Passage& passage, const Stop* stop, bool sends) {
  const Cancellation::Watch watch(stop == nullptr ? nullptr : stop->cancellation.get(), [&] {
    const std::lock_guard woken(mutex_);
    moved_.notify_all();
  });
  std::unique_lock lock(mutex_);
  const std::int64_t self = sends ? passage.from : passage.to;
  const std::int64_t other = sends ? passage.to : passage.from;
  bool Parcel::* const has_begun = sends ? &Parcel::has_sender : &Parcel::has_receiver;
  bool Parcel::* const has_other = sends ? &Parcel::has_receiver : &Parcel::has_sender;
  bool Parcel::* const waits = sends ? &Parcel::sender_waits : &Parcel::receiver_waits;
  bool Parcel::* const is_over = sends ? &Parcel::sent : &Parcel::received;
  Parcels& parcels = parcels_of(passage);
  const auto parcel = std::find_if(parcels.begin(), parcels.end(), [&](const Parcel& one) {
    return one.*has_begun && !(one.*is_over);
  });
  if (parcel == parcels.end()) {
    return internal_error(
        fmt::format("participant {} ends {}, which it has not begun", self, passage.what));
  }
  if (ended_.ok() && !parcel->is_done) {
    if (!((*parcel).*has_other) && has_left_[at(other)]) {
      end_all(missed(self, passage.what, other));
      return ended_;
    }
    // Who moves is at work; who waits for that has to wait for nobody else.
    (*parcel).*waits = !parcel->is_moving;
    if (!parcel->is_moving) begin_wait(self, passage.what);
  }
  const auto end = end_of_wait();
  while (!parcel->is_done && ended_.ok()) {
    const Status status = stop == nullptr ? ok_status() : stop->check();
    const bool is_late = Stop::Clock::now() >= end;
    if (parcel->is_moving && (!status.ok() || is_late)) {
      moved_.wait(lock);  // what has begun is done to its end
    } else if (!status.ok()) {
      end_all(left_waiting(self, passage.what, status));
    } else if (is_late) {
      end_all(late(self, passage.what, std::to_string(other), false));
    } else {
      wait_until(lock, moved_, stop == nullptr ? end : std::min(end, stop->deadline));
    }
  }
  if (!ended_.ok()) return ended_;
  (*parcel).*is_over = true;
  while (!parcels.empty() && parcels.front().sent && parcels.front().received) parcels.pop_front();
  return ok_status();
}

// The other end may wait for what is taken back: it is told when this participant leaves.
void MeetingPlace::forget(std::int64_t participant) {
  std::unique_lock lock(mutex_);
  for (auto& [key, parcels] : passages_) {
    if (std::get<0>(key) != participant && std::get<1>(key) != participant) continue;
    for (Parcel& parcel : parcels) {
      moved_.wait(lock, [&] { return !parcel.is_moving; });
      if (parcel.is_done) continue;
      if (std::get<0>(key) == participant) parcel.has_sender = false;
      if (std::get<1>(key) == participant) parcel.has_receiver = false;
    }
    std::erase_if(parcels, [](const Parcel& parcel) {
      return !parcel.is_done && !parcel.has_sender && !parcel.has_receiver;
    });
  }
}

}  // namespace plimsoll
