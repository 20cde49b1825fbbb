// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/memory/tiers.h"

namespace plimsoll::memory {

// What a byte is for; every device byte has one.
enum class Tag : std::uint8_t { parameters, constants, outputs, arena, staging };
inline constexpr int kTagCount = 5;
std::string_view to_string(Tag tag);

// The same with arenas taken apart.
enum class Use : std::uint8_t {
  parameters,
  activations,  // results of computation: outputs, and the values in arenas
  workspaces,   // of kernels
  encoded,      // copies that codecs have made
  staging,      // copies of what comes from the host, or passes on its way to another tier
  constants,
};
inline constexpr int kUseCount = 6;
std::string_view to_string(Use use);

// What an arena holds at the peak of its plan, beside activations, which have the rest.
struct ArenaParts {
  std::int64_t workspaces = 0, encoded = 0, staging = 0;
};

struct Statistics {
  std::int64_t limit_bytes = 0;
  // What of the limit the device itself takes (Device::overhead_bytes); in no sum.
  std::int64_t overhead_bytes = 0;
  std::int64_t used_bytes = 0;
  std::int64_t cached_bytes =
      0;  // returned blocks kept for reuse; used + cached never pass the limit
  std::int64_t reserved_bytes = 0;  // for runs that were let in, not drawn (yet); not in used_bytes
  std::int64_t peak_bytes = 0;      // high-water mark of used_bytes since creation or reset_peak
  std::array<std::int64_t, kTagCount> used_by_tag{};
  std::array<std::int64_t, kTagCount> peak_by_tag{};                 // at the moment of the peak
  std::array<std::int64_t, kUseCount> used_by_use{}, peak_by_use{};  // the same bytes
  std::int64_t allocations = 0;
  // What runs that succeeded have recomputed and encoded, since creation (count_remedies).
  std::int64_t recomputed_bytes = 0, encoded_bytes = 0;
};

// Names what a block holds, so that it can be found again (Allocation::keep); null: nothing.
using ContentKey = const void*;

class Budget;
class Admission;
class Allocation;

// Bytes under the limit that one run draws from and nobody else can take. What was drawn comes back
// to it as long as it is open; what is still there afterwards is in use as if it had been allocated
// without it. Movable; for one thread at a time.
class Reservation {
 public:
  Reservation() = default;
  // Of nothing yet (Budget::reserve).
  explicit Reservation(std::shared_ptr<Budget> budget);
  Reservation(Reservation&& other) noexcept = default;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { close(); }

  // As Budget::allocate, but never for want of room under the limit. INTERNAL when it is more than
  // is left.
  Result<Allocation> allocate(std::int64_t bytes, Tag tag, std::string_view what,
                              const ArenaParts& parts = {}, ContentKey key = nullptr);
  // Counts memory that is the caller's as if it had been drawn, for as long as the allocation
  // lives: its data() is `data`.
  Result<Allocation> book(void* data, std::int64_t bytes, Tag tag, std::string_view what);
  // What is left becomes free.
  void close();
  const std::shared_ptr<Budget>& budget() const { return budget_; }

 private:
  friend class Allocation;
  friend class Budget;
  struct State {  // guarded by the budget's mutex
    std::int64_t bytes = 0, left = 0;
    bool open = false;
  };
  std::shared_ptr<Budget> budget_;
  std::shared_ptr<State> state_;
};

// Device memory that gives itself back. Movable; thread-safe to destroy.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& other) noexcept;
  Allocation& operator=(Allocation&& other) noexcept;
  ~Allocation();
  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  explicit operator bool() const { return budget_ != nullptr; }
  // Books the bytes under another tag (an output that has become a parameter).
  void retag(Tag tag);
  // Of one with a key: whether it holds what the last one that was kept under it held.
  bool holds_content() const { return holds_content_; }
  // What it holds now is to be found under its key after it has been given back, for as long as
  // nobody needs the room: it counts as cached, not as used.
  void keep() { keep_ = true; }

 private:
  friend class Budget;
  void give_back();
  std::shared_ptr<Budget> budget_;
  std::shared_ptr<Reservation::State> drawn_from_;  // null: none
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
  Tag tag_ = Tag::arena;
  ArenaParts parts_;
  ContentKey key_ = nullptr;
  bool holds_content_ = false, keep_ = false;
  bool is_callers_ = false;  // the memory, which is only counted
};

// The load line: gives out device memory and never more than the limit. Thread-safe.
class Budget : public std::enable_shared_from_this<Budget> {
 public:
  static std::shared_ptr<Budget> create(std::shared_ptr<device::Device> device,
                                        std::int64_t limit_bytes, Tiers tiers = {});
  ~Budget();

  // RESOURCE_EXHAUSTED (with numbers) when it would pass the limit; nothing is given out then.
  // Bytes are rounded up to device::kBufferAlignment. Zero bytes are allowed and give a valid
  // pointer. An arena is one allocation: for as long as it is there it is booked as `parts` says,
  // whatever it holds at the moment. With a `key`, a block that was kept under it is taken if there
  // is one (Allocation::holds_content); it may be one of that many bytes only.
  Result<Allocation> allocate(std::int64_t bytes, Tag tag, std::string_view what,
                              const ArenaParts& parts = {}, ContentKey key = nullptr);
  // Gives back what is kept under `key`, if anything.
  void forget(ContentKey key);

  // Books the bytes for what will be drawn from `into`, which holds none yet, if they are
  // available. Throws nothing.
  bool reserve(std::int64_t bytes, Reservation& into) noexcept;
  // Lets runs in as there is room for them.
  Admission& admission() { return *admission_; }

  Statistics statistics() const;
  // Adds what a run did instead of keeping values.
  void count_remedies(std::int64_t recomputed_bytes, std::int64_t encoded_bytes);
  void reset_peak();
  // Lowering below what is in use or reserved succeeds; only later allocations and reservations
  // feel it.
  void set_limit(std::int64_t limit_bytes);
  // What allocations may come to together: the limit that was set, less what the device itself
  // takes of it.
  std::int64_t limit() const;
  // Neither in use nor reserved.
  std::int64_t available() const;
  // What would be available if every reservation had ended, with all that was drawn from it; below
  // zero where the limit was lowered below what is in use.
  std::int64_t available_when_idle() const;
  device::Device& device() const { return *device_; }
  const std::shared_ptr<device::Device>& shared_device() const { return device_; }
  // Where bytes may go that the limit has no room for.
  const Tiers& tiers() const { return tiers_; }

  // Fault injection for tests: the n-th allocation from now (1 = next) fails; 0 turns it off. Gives
  // what was left of the n before: 0 where that failure has come.
  std::int64_t fail_allocation(std::int64_t n);

 private:
  friend class Allocation;
  friend class Reservation;
  Budget(std::shared_ptr<device::Device> device, std::int64_t limit_bytes, Tiers tiers);
  Result<Allocation> allocate(std::int64_t bytes, Tag tag, std::string_view what,
                              const ArenaParts& parts, ContentKey key,
                              const std::shared_ptr<Reservation::State>& from,
                              void* callers = nullptr);
  void count(std::int64_t bytes, Tag tag, const ArenaParts& parts, int sign);
  Status refusal(std::int64_t bytes, std::string_view what) const;
  std::int64_t allowed_bytes() const;  // limit(), with the mutex held
  // With a key, `holds_content` says whether the block is the one kept under it.
  Result<void*> take_block(std::int64_t bytes, ContentKey key, bool& holds_content);
  // Returns whether there is more room now.
  bool release(const Allocation& allocation);
  void close(Reservation::State& reservation);

  const std::shared_ptr<device::Device> device_;
  const Tiers tiers_;
  const std::unique_ptr<Admission> admission_;
  mutable std::mutex mutex_;
  Statistics statistics_;
  std::int64_t open_bytes_ = 0;  // of open reservations, drawn or not
  std::int64_t fail_in_ = 0;
  // Recently returned large blocks, newest last, so that a step's arena is not mapped anew every
  // time. They are trimmed before an allocation would pass the limit.
  struct Block {
    void* data;
    std::int64_t bytes;
    ContentKey key = nullptr;
  };
  void trim(std::int64_t bytes_wanted);
  void drop_oldest(std::vector<Block>& blocks);
  std::vector<Block> cached_;
  std::vector<Block> kept_;  // with a key, newest last; they go after the others
};

}  // namespace plimsoll::memory
