// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/budget/admission.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/alignment.h"
#include "runtime/memory/tiers.h"

namespace plimsoll::memory {
namespace {

std::int64_t free_of(const Tier* tier, std::int64_t promised) {
  if (tier == nullptr) return 0;
  const TierStatistics now = tier->statistics();
  return std::max<std::int64_t>(0,
                                now.limit_bytes - now.used_bytes - now.reserved_bytes - promised);
}

class FixedNeed final : public Applicant {
 public:
  explicit FixedNeed(const BytesPerSpace& need) : need_(need) {}
  Offer offer(const BytesPerSpace& free) noexcept override {
    const bool fits = need_.device <= free.device &&
                      std::all_of(kTiers.begin(), kTiers.end(),
                                  [&](MemorySpace tier) { return need_[tier] <= free[tier]; });
    return {fits ? Offer::Kind::fits : Offer::Kind::none, need_};
  }
  Status prepare(const BytesPerSpace&) override { return ok_status(); }

 private:
  const BytesPerSpace need_;
};

}  // namespace

Admitted& Admitted::operator=(Admitted&& other) noexcept {
  if (this == &other) return *this;
  end();
  admission_ = std::exchange(other.admission_, nullptr);
  reservation_ = std::move(other.reservation_);
  tiers_ = std::exchange(other.tiers_, {});
  passed_ = other.passed_;
  order_ = other.order_;
  return *this;
}

void Admitted::have_taken_tiers() {
  if (admission_ == nullptr || tiers_ == PerTier<std::int64_t>()) return;
  admission_->forget_promises(std::exchange(tiers_, {}));
}

void Admitted::end() {
  if (admission_ == nullptr) return;
  // The budget, which the reservation may be the last to hold, has the admission.
  const std::shared_ptr<Budget> budget = reservation_.budget();
  Admission* const admission = std::exchange(admission_, nullptr);
  reservation_.close();
  admission->end(std::exchange(tiers_, {}));
}

Announcement& Announcement::operator=(Announcement&& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Announcement::~Announcement() {
  if (budget_ != nullptr) budget_->admission().announced_ -= bytes_;
}

Announcement Admission::announce(std::int64_t bytes) {
  Announcement made;
  made.budget_ = budget_.shared_from_this();
  made.bytes_ = bytes;
  announced_ += bytes;
  return made;
}

bool Admission::has_room_for(std::int64_t bytes) const {
  return bytes <= budget_.available() - announced_;
}

BytesPerSpace Admission::available() const {
  const Tiers& tiers = budget_.tiers();
  BytesPerSpace available;
  available.device = budget_.available();
  for (const MemorySpace tier : kTiers) {
    available[tier] = free_of(tiers[tier].get(), promised_[tier]);
  }
  return available;
}

// Whether the ticket is no longer waiting.
//
// An applicant that must plan before it can say what it needs is not asked to do so here, with
// locks held: its own thread is woken to prepare, and the queue goes on without it meanwhile.
bool Admission::try_ticket(Ticket& ticket) noexcept {
  for (;;) {
    const BytesPerSpace free = available();
    const Offer offer = ticket.applicant->offer(free);
    if (offer.kind == Offer::Kind::prepare) {
      // One that does not wait may take its time, too: it is planning, which is not for memory.
      if (!ticket.preparing) {
        ticket.available = free;
        ticket.wants_preparing = true;
        ticket.changed.notify_all();
      }
      return false;
    }
    ticket.need = offer.need;
    ticket.was_asked = true;
    if (offer.kind == Offer::Kind::none) {
      const std::int64_t idle = budget_.available_when_idle();
      const bool nobody_runs = statistics_.running == 0;
      // Something has been given back since the room was looked at.
      if (nobody_runs && offer.need.device > free.device && offer.need.device <= idle) continue;
      if (ticket.may_wait && offer.need.device <= idle && !nobody_runs) return false;
      refuse(ticket, idle);
      return true;
    }
    // Somebody who does not ask here may have been faster: then there is less.
    Admitted& entry = ticket.entry;
    if (!budget_.reserve(offer.need.device, entry.reservation_)) continue;
    entry.admission_ = this;
    for (const MemorySpace tier : kTiers) {
      promised_[tier] += entry.tiers_[tier] = offer.need[tier];
    }
    entry.order_ = ++statistics_.admitted;
    ++statistics_.running;
    statistics_.most_passed = std::max(statistics_.most_passed, entry.passed_);
    ticket.state = State::admitted;
    return true;
  }
}

// Order and overtaking. Tickets are asked oldest first; one for which there is no room is passed by
// younger ones, at most kMostPasses times. Then nobody passes it any more, and what ends makes room
// for it: no run starves. Example: 100 MB are free, A wants 150, B 60, C 60. B is let in (A was
// passed once), C is not (40 left). When 200 are free again, A goes before C.
void Admission::dispatch() noexcept {
  for (std::size_t i = 0; i < queue_.size();) {
    Ticket& ticket = *queue_[i];
    if (!try_ticket(ticket)) {
      if (ticket.entry.passed_ >= kMostPasses) break;
      ++i;
      continue;
    }
    if (ticket.state == State::admitted) {
      for (std::size_t older = 0; older < i; ++older) ++queue_[older]->entry.passed_;
    }
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
    ticket.changed.notify_all();
    // One of those before may have reached its limit, and there is less room for all of them.
    const bool closed =
        std::any_of(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(i),
                    [](const Ticket* t) { return t->entry.passed_ >= kMostPasses; });
    if (closed) break;
  }
  waiting_.store(static_cast<std::int64_t>(queue_.size()), std::memory_order_release);
}

void Admission::availability_changed() noexcept {
  if (waiting_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(mutex_);
  dispatch();
}

void Admission::end(const PerTier<std::int64_t>& promised) noexcept {
  const std::lock_guard lock(mutex_);
  for (const MemorySpace tier : kTiers) promised_[tier] -= promised[tier];
  --statistics_.running;
  dispatch();
}

void Admission::forget_promises(const PerTier<std::int64_t>& promised) noexcept {
  const std::lock_guard lock(mutex_);
  for (const MemorySpace tier : kTiers) promised_[tier] -= promised[tier];
  if (!queue_.empty()) dispatch();
}

void Admission::refuse(Ticket& ticket, std::int64_t idle) noexcept {
  const Statistics now = budget_.statistics();
  ticket.limit = now.limit_bytes;
  ticket.taken = now.used_bytes + now.reserved_bytes;
  ticket.idle = idle;
  ticket.state = State::refused;
}

Status Admission::shortage(const Ticket& ticket, std::string_view what) {
  const auto text = [](std::int64_t bytes) { return std::to_string(bytes); };
  const std::int64_t need = ticket.need.device, held = ticket.limit - ticket.idle;
  std::string message = std::string(what) + ": ";
  MemoryShortage numbers{ticket.limit, 0, std::string(what)};
  if (need > ticket.idle) {
    numbers.floor_bytes = held + need;
    message += "needs at least " + text(need) + " bytes of the limit of " + text(ticket.limit) +
               ", of which what does not end by itself holds " + text(held) +
               " (raise the memory limit or release tensors)";
  } else if (!ticket.may_wait && ticket.was_asked) {
    numbers.floor_bytes = ticket.taken + need;
    message += "needs at least " + text(need) + " bytes of the limit of " + text(ticket.limit) +
               ", of which " + text(ticket.taken) +
               " are in use or reserved (wait, or raise the memory limit)";
  } else if (!ticket.may_wait) {
    message += "others wait for room, and come first (wait, or raise the memory limit)";
  } else {
    std::string left;
    for (const MemorySpace tier : kTiers) {
      left += (left.empty() ? "" : " and ") + std::string(tier_info(tier).medium);
    }
    message += "no plan for what is left of " + left;
  }
  return Status::resource_exhausted(std::move(message), std::move(numbers));
}

// Until the ticket does not wait any more, or `failed` says why it shall not. The lock is held
// before and after.
void Admission::wait_for_turn(Ticket& ticket, Applicant& applicant, const Stop& stop,
                              std::unique_lock<std::mutex>& lock, Status& failed) {
  bool has_waited = false;
  while (ticket.state == State::waiting) {
    failed = stop.check();
    if (!failed.ok()) {
      ++statistics_.stopped;
      return;
    }
    if (std::exchange(ticket.wants_preparing, false)) {
      ticket.preparing = true;
      const BytesPerSpace available = ticket.available;
      lock.unlock();
      failed = applicant.prepare(available);
      lock.lock();
      ticket.preparing = false;
      if (ticket.state == State::waiting && !failed.ok()) return;
      dispatch();
      continue;
    }
    if (!ticket.may_wait) {  // one before it lets nobody pass
      refuse(ticket, budget_.available_when_idle());
      break;
    }
    has_waited = true;
    if (stop.has_deadline()) {
      ticket.changed.wait_until(lock, stop.deadline);
    } else {
      ticket.changed.wait(lock);
    }
  }
  failed = ok_status();
  if (ticket.state == State::refused) ++statistics_.refused;
  if (ticket.state == State::admitted && has_waited) ++statistics_.waited;
}

Result<Admitted> Admission::admit(Applicant& applicant, std::string_view what, const Stop& stop,
                                  bool may_wait) {
  const Status before = stop.check();
  if (!before.ok()) return before.with_context(what);
  Ticket ticket;
  ticket.applicant = &applicant;
  ticket.may_wait = may_wait;
  ticket.entry.reservation_ = Reservation(budget_.shared_from_this());
  const Cancellation::Watch watch(stop.cancellation.get(), [&] {
    const std::lock_guard lock(mutex_);
    ticket.changed.notify_all();
  });
  Status failed;
  {
    std::unique_lock lock(mutex_);
    queue_.push_back(&ticket);
    // Before the first look at the room, so that no change after it is missed.
    waiting_.store(static_cast<std::int64_t>(queue_.size()), std::memory_order_release);
    // Whatever is thrown, the queue keeps no ticket that is gone.
    struct Leave {
      Admission& admission;
      Ticket& ticket;
      std::unique_lock<std::mutex>& lock;
      ~Leave() {
        if (!lock.owns_lock()) lock.lock();
        if (std::erase(admission.queue_, &ticket) > 0) admission.dispatch();
      }
    } const leave{*this, ticket, lock};
    dispatch();
    wait_for_turn(ticket, applicant, stop, lock, failed);
  }
  if (!failed.ok()) return failed.with_context(what);
  if (ticket.state == State::refused) return shortage(ticket, what);
  return std::move(ticket.entry);
}

Result<Admitted> Admission::admit(const BytesPerSpace& need, std::string_view what,
                                  const Stop& stop, bool may_wait) {
  FixedNeed applicant(need);
  return admit(applicant, what, stop, may_wait);
}

Result<Allocation> Admission::allocate(std::int64_t bytes, Tag tag, std::string_view what,
                                       const ArenaParts& parts) {
  PLIMSOLL_ASSIGN_OR_RETURN(Admitted admitted, admit({aligned_bytes(bytes), 0, 0}, what));
  return admitted.reservation().allocate(bytes, tag, what, parts);
}

Result<Allocation> Admission::book(void* data, std::int64_t bytes, Tag tag, std::string_view what) {
  PLIMSOLL_ASSIGN_OR_RETURN(Admitted admitted, admit({aligned_bytes(bytes), 0, 0}, what));
  return admitted.reservation().book(data, bytes, tag, what);
}

AdmissionStatistics Admission::statistics() const {
  const std::lock_guard lock(mutex_);
  AdmissionStatistics now = statistics_;
  now.waiting = static_cast<std::int64_t>(queue_.size());
  return now;
}

}  // namespace plimsoll::memory
