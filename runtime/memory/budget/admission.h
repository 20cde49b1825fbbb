// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/cancellation.h"
#include "runtime/base/memory_space.h"
#include "runtime/base/status.h"
#include "runtime/memory/budget/budget.h"

namespace plimsoll::memory {

// Bytes of each place.
using BytesPerSpace = PerSpace<std::int64_t>;

// What one that asks for room says to what is free.
struct Offer {
  enum class Kind : std::uint8_t {
    fits,     // `need` is to be reserved
    prepare,  // there may be a better answer after prepare()
    none,     // nothing fits; `need` is the least it could do with
  };
  Kind kind = Kind::none;
  BytesPerSpace need;
};

// One that asks for room.
class Applicant {
 public:
  virtual ~Applicant() = default;
  // The best use it has for what is free. Called on any thread, with locks held: takes no time,
  // calls nothing of the budget, throws nothing. The last offer that said `fits` counts.
  virtual Offer offer(const BytesPerSpace& free) noexcept = 0;
  // What took too long for offer(), for that much: on the thread that waits, without locks. After
  // it, offer() for the same room says something else.
  virtual Status prepare(const BytesPerSpace& free) = 0;
};

class Admission;

// A run's way in: its room under the limit, until this goes.
class Admitted {
 public:
  Admitted() = default;
  Admitted(Admitted&& other) noexcept { *this = std::move(other); }
  Admitted& operator=(Admitted&& other) noexcept;
  ~Admitted() { end(); }

  // Where the run's device memory comes from.
  Reservation& reservation() { return reservation_; }
  // The run has taken its blocks of the tiers: from here on their own books count them.
  void have_taken_tiers();
  // Younger ones that were let in while this one waited; at most Admission::kMostPasses.
  std::int64_t passed() const { return passed_; }
  // Its place in the order in which all were let in, from 1.
  std::int64_t order() const { return order_; }

 private:
  friend class Admission;
  void end();

  Admission* admission_ = nullptr;
  Reservation reservation_;
  PerTier<std::int64_t> tiers_;  // not taken yet
  std::int64_t passed_ = 0, order_ = 0;
};

// Device memory that a run which was handed to another thread will ask for when its turn comes: it
// is counted until this goes, so that whoever brings arguments of later runs leaves it that room.
class Announcement {
 public:
  Announcement() = default;
  Announcement(Announcement&& other) noexcept { *this = std::move(other); }
  Announcement& operator=(Announcement&& other) noexcept;
  ~Announcement();

 private:
  friend class Admission;
  std::shared_ptr<Budget> budget_;  // null: nothing is announced
  std::int64_t bytes_ = 0;
};

struct AdmissionStatistics {
  std::int64_t running = 0, waiting = 0;  // now
  std::int64_t admitted = 0;              // all, and of these
  std::int64_t waited = 0;                // not at once
  std::int64_t refused = 0;               // RESOURCE_EXHAUSTED
  std::int64_t stopped = 0;               // cancelled or too late, while they waited
  std::int64_t most_passed = 0;           // of all admitted
};

// Lets runs in as their room under the limit of one budget becomes free. A run gets all it needs at
// once, and holds nothing while it waits, so that no two can wait for each other. They stand in the
// order in which they came; one for which there is room may go before older ones for which there is
// none, until one of these has been passed kMostPasses times: then nobody passes that one, and what
// ends makes room for it. Thread-safe. Part of its budget (Budget::admission).
class Admission {
 public:
  static constexpr std::int64_t kMostPasses = 16;

  explicit Admission(Budget& budget) : budget_(budget) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Blocks until there is room. RESOURCE_EXHAUSTED when there would be none, either, if all that
  // were let in had ended (or when there is none now, if it may not wait); what `stop` says. `what`
  // names the run in messages.
  Result<Admitted> admit(Applicant& applicant, std::string_view what, const Stop& stop,
                         bool may_wait = true);
  // The same for a run that needs just this.
  Result<Admitted> admit(const BytesPerSpace& need, std::string_view what, const Stop& stop = {},
                         bool may_wait = true);

  // As Budget::allocate, but waits for runs to end where that makes room.
  Result<Allocation> allocate(std::int64_t bytes, Tag tag, std::string_view what,
                              const ArenaParts& parts = {});
  // Counts memory that is the caller's (Reservation::book), and waits likewise.
  Result<Allocation> book(void* data, std::int64_t bytes, Tag tag, std::string_view what);

  Announcement announce(std::int64_t bytes);
  // Whether so much device memory is free now beside all that is announced.
  bool has_room_for(std::int64_t bytes) const;

  AdmissionStatistics statistics() const;

  // There may be room that was not there before, or a limit has changed. Costs next to nothing
  // while nobody waits.
  void availability_changed() noexcept;

 private:
  friend class Admitted;
  friend class Announcement;
  enum class State : std::uint8_t { waiting, admitted, refused };
  struct Ticket {
    Applicant* applicant = nullptr;
    bool may_wait = true;
    State state = State::waiting;
    bool wants_preparing = false, preparing = false;
    bool was_asked = false;   // what it needs: those behind one that nobody passes are not
    BytesPerSpace available;  // to prepare for
    BytesPerSpace need;       // reserved, or refused
    // When it was refused; `idle`: available if all that run had ended.
    std::int64_t limit = 0, taken = 0, idle = 0;
    Admitted entry;
    std::condition_variable changed;
  };

  void dispatch() noexcept;
  bool try_ticket(Ticket& ticket) noexcept;
  void wait_for_turn(Ticket& ticket, Applicant& applicant, const Stop& stop,
                     std::unique_lock<std::mutex>& lock, Status& failed);
  BytesPerSpace available() const;
  void refuse(Ticket& ticket, std::int64_t idle) noexcept;
  static Status shortage(const Ticket& ticket, std::string_view what);
  void end(const PerTier<std::int64_t>& promised) noexcept;
  void forget_promises(const PerTier<std::int64_t>& promised) noexcept;

  Budget& budget_;
  std::atomic<std::int64_t> waiting_{0};
  std::atomic<std::int64_t> announced_{0};  // bytes
  mutable std::mutex mutex_;                // taken before the budget's; guards what follows
  std::vector<Ticket*> queue_;              // that wait; oldest first
  PerTier<std::int64_t> promised_;          // to runs that have not taken it yet
  AdmissionStatistics statistics_;
};

}  // namespace plimsoll::memory
