// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/chunk_stream.h"
#include "collectives/peers.h"
#include "runtime/base/meeting_place.h"
#include "runtime/base/status.h"
#include "runtime/device/communicator.h"

namespace plimsoll::collectives {

// A participant that shares no memory with the others: everything is sent. Every member of a group
// reduces an equal share of the elements, in the group's order, with the same bits as the others
// would, and sends the result to them.
//
// Before data, members tell each other what they have come for: where they differ, all get an error
// that says so and no data is sent. After an error the communicator is broken: it has told the
// others, and gives the same error to every call.
//
// Owns host memory for messages that are packed or not yet reduced: at most about 4 MiB for each
// other member of the largest group, 64 KiB chunks at least, less where nothing is packed.
class ProcessCommunicator final : public device::Communicator {
 public:
  ProcessCommunicator(std::unique_ptr<Peers> peers, std::int64_t participant,
                      std::int64_t participants, std::chrono::duration<double> timeout);
  // Leaves well if it has not left.
  ~ProcessCommunicator() override;

  std::int64_t participant() const override { return participant_; }
  std::int64_t participants() const override { return participants_; }
  Status all_reduce(const Call& call, std::span<const Reduce> arrays) override;
  Status reduce_scatter(const Call& call, std::span<const Reduce> arrays) override;
  Status exchange(const Call& call, std::span<const device::Rows> sends,
                  std::span<const device::Rows> receives) override;

  // Comes to a call whose data goes another way: waits for the members, as calls do, and checks
  // that all have come for the same, that `words` are the same, and that each sends what the other
  // one takes. No data is looked at. `sends` and `receives` as of `exchange`, or none.
  Status agree(const Call& call, std::uint64_t words, std::span<const device::Rows> sends,
               std::span<const device::Rows> receives);
  // What has gone wrong elsewhere by now. Never waits.
  Status look(const Call& call);

  // What messages take (speeds.h): to be called by all at the same place.
  Status measure_speeds();
  std::optional<Speeds> speeds() const override { return speeds_; }

  // Finds out who runs on this machine, which all that do call the same (machine_hash): to be
  // called by all at the same place.
  Status count_here(std::uint64_t machine);
  std::int64_t participants_here() const override { return here_; }

  Status begin_send(const Passage& passage, const void* data, std::int64_t bytes) override;
  Status begin_receive(const Passage& passage, void* data, std::int64_t bytes) override;
  Status end_send(const Passage& passage) override;
  Status end_receive(const Passage& passage) override;
  void forget() override;

  // Waits for the others to have got what they were sent, some seconds at most.
  void leave(const Status& status) override;

 private:
  struct PeerScratch {
    Scratch operands_out, operands_in, results_out, results_in;
  };
  struct Mailbox;
  struct Lane;
  struct Traffic;

  // One for each other member of the group; `fill(member, lane)` says what goes both ways.
  template <typename Fill>
  std::vector<Lane> lanes_of(const Call& call, std::span<const std::int64_t> elements, Fill&& fill);
  Status run(const Call& call, std::vector<Lane>& lanes, std::uint64_t hash,
             const std::function<Status(Traffic&)>& work);
  Status meet(const Call& call, std::vector<Lane>& lanes, std::uint64_t hash);
  Status check(const Call& call, const Lane& lane, std::uint64_t hash) const;
  Status reduce(const Call& call, std::vector<Lane>& lanes, std::span<const Reduce> arrays,
                std::span<const device::Rows> own, std::span<const device::Rows> out, bool for_all,
                Traffic& traffic);
  // Words for who is late, where that is not the one that was waited for.
  std::string cause(std::int64_t peer) const;
  Status waited(Waited how, std::int64_t peer, const Call& call) const;
  // Begun and not ended, by whether it is sent, the other end, and the words; null: no bytes.
  using Halves = std::map<std::tuple<bool, std::int64_t, std::string>,
                          std::deque<std::unique_ptr<Peers::Transfer>>>;
  Status may_begin(const Passage& passage) const;
  Status end_half(const Passage& passage, bool sends);
  // The stop of this call counts for waits, while it is there.
  class Stoppable;
  std::int64_t chunk_bytes(std::size_t members) const;

  const std::unique_ptr<Peers> peers_;
  const std::int64_t participant_, participants_;
  const std::chrono::duration<double> timeout_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;  // by participant; none for this one
  std::vector<PeerScratch> scratch_;                 // by participant
  Halves halves_;
  MeetingPlace own_;  // of what this participant sends itself
  std::optional<Speeds> speeds_;
  std::int64_t here_ = 1;
  bool has_left_ = false;
  Status broken_;
};

}  // namespace plimsoll::collectives
