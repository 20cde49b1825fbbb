// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "collectives/membership.h"
#include "runtime/base/status.h"

namespace plimsoll::collectives {

// Streams of messages between two participants: those of one stream arrive in order.
enum class Slot : std::uint64_t { call = 1, words, operands, results };

// What ended a wait.
enum class Waited {
  done,
  late,     // the time-out passed
  gone,     // the other end is not there any more
  ended,    // something else went wrong: Peers::failure
  stopped,  // by interrupt, or the caller's deadline
};

// One participant's connections to all the others. Messages are sent from and received into the
// caller's memory. For one thread; nothing waits for longer than the time-out.
class Peers {
 public:
  virtual ~Peers() = default;

  // A message on its way. Until it is waited for, its memory must stay; when the object has gone,
  // nobody looks at the memory any more.
  class Transfer {
   public:
    virtual ~Transfer() = default;
  };
  // Never wait. A message must be received with at least as many bytes as it is sent with.
  virtual std::unique_ptr<Transfer> send(std::int64_t peer, Slot slot, const void* data,
                                         std::size_t bytes) = 0;
  virtual std::unique_ptr<Transfer> receive(std::int64_t peer, Slot slot, void* data,
                                            std::size_t bytes) = 0;
  virtual Waited wait(Transfer& transfer) = 0;
  // That waits from now on end at `deadline`, too; what was interrupted before is no more.
  virtual void set_deadline(std::chrono::steady_clock::time_point deadline) = 0;
  // Ends the wait under way and all further ones. Any thread.
  virtual void interrupt() = 0;

  // What has gone wrong elsewhere: what the first participant to fail said, or the number of one
  // whose connection has closed without a word.
  struct Failure {
    Status told;
    std::int64_t lost = -1;
  };
  virtual Failure failure() = 0;
  // After a late wait: who it is that does not go on, which may be another one that the awaited one
  // waits for itself.
  virtual std::int64_t late() = 0;
  // Whether a participant that has gone said that its part was done.
  virtual bool has_ended_well(std::int64_t peer) = 0;
  // Tells all others how this participant ends, in bounded time. Transfers under way go on
  // meanwhile, so that what is said is not stuck behind them; nothing may be waited for afterwards.
  // The connections close with the last transfer.
  virtual void leave(const Status& status) = 0;
};

// Connects to all others through Gloo (github.com/facebookincubator/gloo): a connection and a
// thread for each. The rendezvous is over when `store` is no longer needed by anyone.
Result<std::unique_ptr<Peers>> connect_peers(const Membership& membership, Store& store,
                                             Deadline deadline);

}  // namespace plimsoll::collectives
