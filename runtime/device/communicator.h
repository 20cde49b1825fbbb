// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "runtime/base/cancellation.h"
#include "runtime/base/status.h"

namespace plimsoll::device {

class Stream;

// What of reductions libraries know, too: how two elements are combined, and what they are.
struct KnownReduction {
  enum class Combine : std::uint8_t { sum, product, maximum, minimum };
  enum class Element : std::uint8_t { s8, u8, s32, u32, s64, u64, f16, bf16, f32, f64 };
  Combine combine = Combine::sum;
  Element element = Element::f32;

  // The same bits in any order, whoever computes it.
  bool is_exact() const { return element < Element::f16; }
};

// A reduction's computation on elements of one dtype. Immutable and thread-safe.
class Reduction {
 public:
  virtual ~Reduction() = default;
  virtual std::int64_t element_bytes() const = 0;
  // out[i] = ((a[i] + b[i]) + c[i]) + d[i] of the members' elements, one or more of them. What has
  // been added up so far may be wider than the elements. `out` may be the array of any member.
  virtual void reduce(std::span<const void* const> members, void* out,
                      std::int64_t count) const = 0;
  // None: it is this computation alone. Predicates are u8 of 0 and 1.
  virtual std::optional<KnownReduction> known() const { return std::nullopt; }
};

// Rows of an array: `count` of them, of `bytes` each, `stride` bytes from one to the next.
struct Rows {
  std::byte* data = nullptr;
  std::int64_t count = 0, bytes = 0, stride = 0;
};

// One participant's end of what it shares with the others of its program: what kernels of
// collectives call. All members of a group call the same operations in the same order with buffers
// of the same sizes; where one does not come, or fails, the others get an error that names it. For
// one thread at a time.
class Communicator {
 public:
  virtual ~Communicator() = default;
  // Its number, from 0 on, and how many there are.
  virtual std::int64_t participant() const = 0;
  virtual std::int64_t participants() const = 0;
  // How many of them run on this one's machine, itself included.
  virtual std::int64_t participants_here() const { return participants(); }

  struct Call {
    std::string_view what;                // names the operation, and is the same for all members
    std::span<const std::int64_t> group;  // participants
    std::size_t self = 0;                 // position of this participant in the group
    // Of `exchange`: every member sends the same rows to all, which lie one after the other with
    // the receivers where they are one row.
    bool sends_the_same = false;
  };

  // Arrays of `rows` x members x `row` elements, row-major, from every member.
  struct Reduce {
    const void* in = nullptr;
    void* out = nullptr;
    std::int64_t rows = 1, row = 0;
    const Reduction* reduction = nullptr;
  };
  // Every member gets all elements, reduced over the members in the group's order, one at a time:
  // ((a + b) + c) + d. Here `row` is the whole array's size; `out` may be `in`.
  virtual Status all_reduce(const Call& call, std::span<const Reduce> arrays) = 0;
  // Member m gets what lies at m of the middle dimension, `rows` x `row` elements, reduced
  // likewise.
  virtual Status reduce_scatter(const Call& call, std::span<const Reduce> arrays) = 0;
  // Each member sends `sends[array * members + m]` to member m, who receives it where its
  // `receives[array * members + sender]` says: as many rows of as many bytes.
  virtual Status exchange(const Call& call, std::span<const Rows> sends,
                          std::span<const Rows> receives) = 0;

  // The same participant for arrays in the memory of the stream's device: calls come after what the
  // stream has been given, and before what it is given from then on; one that the device has no way
  // to do is UNIMPLEMENTED for all members, before anything is done. For calls until the next
  // `on_device`. Null: arrays must be the host's.
  virtual Communicator* on_device(Stream& /*stream*/) { return nullptr; }

  // What host code that works on arrays of calls does to them where they are not in its memory.
  class Memory {
   public:
    virtual ~Memory() = default;
    virtual Status copy(void* to, const void* from, std::int64_t bytes) = 0;
    virtual Status clear(void* to, std::int64_t bytes) = 0;
    // Into host memory; waits for it.
    virtual Status read(void* to, const void* from, std::int64_t bytes) = 0;
    // For arrays in host memory.
    virtual Communicator& host() = 0;
  };
  // Null: arrays are in host memory.
  virtual Memory* memory() { return nullptr; }

  // What messages took when participants were connected, by the alpha-beta model; none where they
  // need no connections. The same for all, so that all plan by the same prices.
  struct Speeds {
    double message_seconds = 0, bytes_per_second = 0;
  };
  virtual std::optional<Speeds> speeds() const { return std::nullopt; }

  // From one participant to another, or to itself, in two halves each: the first never waits for
  // the other end, the second does. What is sent, and where it is received, must stay as it is in
  // between. Of one passage several may be under way, in order.
  struct Passage {
    std::string_view what;  // names the operation, and is the same at both ends
    std::int64_t from = 0, to = 0;
  };
  virtual Status begin_send(const Passage& passage, const void* data, std::int64_t bytes) = 0;
  virtual Status begin_receive(const Passage& passage, void* data, std::int64_t bytes) = 0;
  virtual Status end_send(const Passage& passage) = 0;
  virtual Status end_receive(const Passage& passage) = 0;
  // At the end of a run, whatever became of it: of what it began and did not end, nobody looks at
  // the memory any more.
  virtual void forget() = 0;

  // That this participant calls no more. With an error, the others' calls fail with it; without,
  // those that wait for this participant. Calls afterwards fail. Further ones do nothing.
  virtual void leave(const Status& status) = 0;

  // What ends the waits of further calls early: the call fails with CANCELLED or
  // DEADLINE_EXCEEDED, and those of the other members with an error that names this participant
  // and the operation. It must stay until another is set; null, as at first: none. Not during a
  // call.
  void set_stop(const Stop* stop) { stop_ = stop; }

 protected:
  const Stop* stop() const { return stop_; }

 private:
  const Stop* stop_ = nullptr;
};

// A communicator that several users in one process take turns at: each holds `in_turn` while it
// calls. Leaves well with its last user.
struct SharedCommunicator {
  explicit SharedCommunicator(std::shared_ptr<Communicator> of) : communicator(std::move(of)) {}
  SharedCommunicator(const SharedCommunicator&) = delete;
  SharedCommunicator& operator=(const SharedCommunicator&) = delete;
  ~SharedCommunicator() { communicator->leave(ok_status()); }

  const std::shared_ptr<Communicator> communicator;
  std::timed_mutex in_turn;
};

}  // namespace plimsoll::device
