// SPDX-License-Identifier: Apache-2.0
#include "collectives/process_communicator.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "collectives/chunk_stream.h"
#include "collectives/chunks.h"
#include "collectives/reduce_run.h"
#include "collectives/speeds.h"
#include "runtime/base/hash.h"
#include "runtime/base/index.h"

namespace plimsoll::collectives {
namespace {

using device::Communicator;
using device::Rows;

// What a member says when it comes to a call; small data comes along, and then the call's words.
struct CallHead {
  static constexpr std::uint64_t kMagic = 0x706c696d736f6c31;
  std::uint64_t magic = 0, sequence = 0;
  std::uint64_t hash = 0;   // of what must be the same for all members
  std::uint64_t sizes = 0;  // of what this member sends the other
  std::int64_t bytes = 0;   // how much that is
  std::uint32_t data_bytes = 0, text_bytes = 0;
  std::uint64_t unused[2] = {};
};
static_assert(sizeof(CallHead) == 64);

constexpr std::size_t kMostText = 1024;
constexpr std::int64_t kMostInline = 8 << 10;
constexpr std::size_t kMessageBytes = sizeof(CallHead) + kMostInline + kMostText;

// Of messages; all kinds of scratch memory of one member together are eight of the largest.
constexpr std::int64_t kLargestChunk = 1 << 20, kSmallestChunk = 64 << 10;
constexpr std::int64_t kMostScratch = 128 << 20;  // of all members

std::vector<Extent> extents_of(std::span<const Rows> arrays,
                               std::span<const std::int64_t> elements) {
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    extents.push_back({arrays[i].count * arrays[i].bytes, elements.empty() ? 1 : elements[i]});
  }
  return extents;
}

std::uint64_t hash_extents(std::span<const Extent> extents) {
  std::uint64_t hash = extents.size();
  for (const Extent& extent : extents) {
    hash = combine_hash(hash, static_cast<std::uint64_t>(extent.bytes));
  }
  return hash;
}

std::int64_t bytes_of(std::span<const Extent> extents) {
  std::int64_t bytes = 0;
  for (const Extent& extent : extents) bytes += extent.bytes;
  return bytes;
}

bool is_inline(std::span<const Chunk> chunks) {
  return chunks.size() == 1 && chunks[0].bytes <= kMostInline;
}

enum class CallKind : std::uint64_t { all_reduce, reduce_scatter, exchange, elsewhere };

std::uint64_t hash_call(const Communicator::Call& call, CallKind kind,
                        std::span<const Communicator::Reduce> arrays) {
  std::uint64_t hash = combine_hash(hash_text(call.what), static_cast<std::uint64_t>(kind));
  hash = combine_hash(hash, hash_words(call.group));
  for (const Communicator::Reduce& array : arrays) {
    hash = combine_hash(hash, static_cast<std::uint64_t>(array.rows));
    hash = combine_hash(hash, static_cast<std::uint64_t>(array.row));
    hash = combine_hash(hash, static_cast<std::uint64_t>(array.reduction->element_bytes()));
  }
  return hash;
}

std::byte* bytes_at(const void* pointer) {
  return static_cast<std::byte*>(const_cast<void*>(pointer));
}

Rows one_row(const void* data, std::int64_t begin, std::int64_t end) {
  return {bytes_at(data) + begin, 1, end - begin, end - begin};
}

// The share of a member of all arrays one after the other: of each array a run of elements.
std::vector<std::pair<std::int64_t, std::int64_t>> share_of(
    std::span<const Communicator::Reduce> arrays, std::size_t member, std::size_t members) {
  std::int64_t total = 0;
  for (const auto& array : arrays)
    total += array.rows * array.row * array.reduction->element_bytes();
  // Without an overflow of total * member.
  const auto border = [&](std::size_t m) {
    const auto all = static_cast<std::int64_t>(members), one = static_cast<std::int64_t>(m);
    return total / all * one + total % all * one / all;
  };
  const std::int64_t first = border(member), last = border(member + 1);
  std::vector<std::pair<std::int64_t, std::int64_t>> share;
  std::int64_t begin = 0;
  for (const auto& array : arrays) {
    const std::int64_t element = array.reduction->element_bytes();
    const std::int64_t bytes = array.rows * array.row * element;
    const auto within = [&](std::int64_t place) {
      return std::clamp<std::int64_t>(place - begin, 0, bytes) / element * element;
    };
    share.emplace_back(within(first), within(last));
    begin += bytes;
  }
  return share;
}

}  // namespace

// Calls of another participant, one after the other.
struct ProcessCommunicator::Mailbox {
  std::vector<std::byte> in = std::vector<std::byte>(kMessageBytes);
  std::vector<std::byte> out = std::vector<std::byte>(kMessageBytes);
  std::unique_ptr<Peers::Transfer> receiving, sending;
  std::uint64_t sequence = 0;

  CallHead head() const {
    CallHead head;
    std::memcpy(&head, in.data(), sizeof head);
    return head;
  }
  const std::byte* data() const { return in.data() + sizeof(CallHead); }
  std::string text() const {
    const CallHead head = this->head();
    const std::size_t bytes = std::min<std::size_t>(head.text_bytes, kMostText);
    const std::size_t begin =
        sizeof head + std::min<std::size_t>(head.data_bytes, static_cast<std::size_t>(kMostInline));
    return {reinterpret_cast<const char*>(in.data()) + begin, bytes};
  }
  void open(Peers& peers, std::int64_t peer) {
    std::memset(in.data(), 0, sizeof(CallHead));
    receiving = peers.receive(peer, Slot::call, in.data(), in.size());
  }
};

// What one call sends to another member of its group and receives from it.
struct ProcessCommunicator::Lane {
  std::int64_t peer = 0;
  std::size_t member = 0;  // its position in the group
  std::vector<Rows> sends, receives;
  std::vector<Extent> send_extents, receive_extents;
  std::vector<Chunk> out, in;
  Mailbox* mailbox = nullptr;

  void cut(std::span<const std::int64_t> elements, std::int64_t most) {
    send_extents = extents_of(sends, elements);
    receive_extents = extents_of(receives, elements);
    out = cut_chunks(send_extents, most);
    in = cut_chunks(receive_extents, most);
  }
};

// All that is on its way in one call. After an error it stays until the others have been told.
struct ProcessCommunicator::Traffic {
  std::vector<Chunk> mine;                 // what this member reduces
  std::vector<std::vector<Rows>> results;  // by lane: where the others' results go
  std::vector<ChunkStream> operands_out, results_out, operands_in, results_in;
};

ProcessCommunicator::ProcessCommunicator(std::unique_ptr<Peers> peers, std::int64_t participant,
                                         std::int64_t participants,
                                         std::chrono::duration<double> timeout)
    : peers_(std::move(peers)),
      participant_(participant),
      participants_(participants),
      timeout_(timeout),
      mailboxes_(at(participants)),
      scratch_(at(participants)),
      own_(participants) {
  for (std::int64_t peer = 0; peer < participants; ++peer) {
    if (peer == participant) continue;
    mailboxes_[at(peer)] = std::make_unique<Mailbox>();
    mailboxes_[at(peer)]->open(*peers_, peer);
  }
}

ProcessCommunicator::~ProcessCommunicator() { leave(ok_status()); }

void ProcessCommunicator::leave(const Status& status) {
  if (has_left_) return;
  has_left_ = true;
  broken_ = status;
  peers_->leave(status);
  mailboxes_.clear();
}

std::int64_t ProcessCommunicator::chunk_bytes(std::size_t members) const {
  const auto others = std::max<std::int64_t>(1, static_cast<std::int64_t>(members) - 1);
  return std::clamp(kMostScratch / 8 / others, kSmallestChunk, kLargestChunk) / 64 * 64;
}

std::string ProcessCommunicator::cause(std::int64_t peer) const {
  const std::int64_t late = peers_->late();
  return late == peer ? "" : fmt::format(": it waits for participant {}", late);
}

Status ProcessCommunicator::waited(Waited how, std::int64_t peer, const Call& call) const {
  const std::string here = fmt::format("participant {} waits at {}, but", participant_, call.what);
  switch (how) {
    case Waited::done:
      return ok_status();
    case Waited::late:
      return Status(StatusCode::deadline_exceeded,
                    fmt::format("{} participant {} did not go on for {} s{} "
                                "(PLIMSOLL_COLLECTIVE_TIMEOUT sets the time)",
                                here, peer, timeout_.count(), cause(peer)));
    case Waited::stopped:
      return left_waiting(participant_, call.what, stop()->check());
    case Waited::gone:
    case Waited::ended:
      break;
  }
  const Peers::Failure failure = peers_->failure();
  if (!failure.told.ok()) return failure.told;  // it says by itself who and where
  if (how == Waited::ended && failure.lost >= 0) peer = failure.lost;
  if (peers_->has_ended_well(peer)) {
    return failed_precondition(
        fmt::format("{} participant {} has ended without coming there", here, peer));
  }
  return unavailable(
      fmt::format("{} participant {} has gone: its connection is closed", here, peer));
}

Status ProcessCommunicator::check(const Call& call, const Lane& lane, std::uint64_t hash) const {
  const CallHead head = lane.mailbox->head();
  if (head.magic != CallHead::kMagic || head.sequence != lane.mailbox->sequence) {
    return internal_error(
        fmt::format("{}: a message from participant {} is out of order", call.what, lane.peer));
  }
  if (head.hash != hash) {
    std::string mine(call.what.substr(0, kMostText)), other = lane.mailbox->text();
    const bool is_same = mine == other;
    std::int64_t first = participant_, second = lane.peer;
    if (lane.member < call.self) {
      std::swap(first, second);
      std::swap(mine, other);
    }
    return failed_precondition(fmt::format(
        "participant {} comes to {}, participant {} to {}{} (all must run the same "
        "operations, in the same order and on the same sizes)",
        first, mine, second, other, is_same ? ", in another group or with other sizes" : ""));
  }
  if (head.sizes != hash_extents(lane.receive_extents)) {
    return failed_precondition(
        fmt::format("{}: participant {} sends {} bytes, participant {} takes {}", call.what,
                    lane.peer, head.bytes, participant_, bytes_of(lane.receive_extents)));
  }
  return ok_status();
}

Status ProcessCommunicator::meet(const Call& call, std::vector<Lane>& lanes, std::uint64_t hash) {
  const std::string_view text = call.what.substr(0, kMostText);
  for (Lane& lane : lanes) {
    Mailbox& mailbox = *lane.mailbox;
    CallHead head;
    head.magic = CallHead::kMagic;
    head.sequence = ++mailbox.sequence;
    head.hash = hash;
    head.sizes = hash_extents(lane.send_extents);
    head.bytes = bytes_of(lane.send_extents);
    std::byte* place = mailbox.out.data() + sizeof head;
    if (is_inline(lane.out)) {
      head.data_bytes = static_cast<std::uint32_t>(lane.out[0].bytes);
      pack(lane.out[0], lane.sends, place);
      place += head.data_bytes;
    }
    head.text_bytes = static_cast<std::uint32_t>(text.size());
    std::memcpy(place, text.data(), text.size());
    place += text.size();
    std::memcpy(mailbox.out.data(), &head, sizeof head);
    mailbox.sending = peers_->send(lane.peer, Slot::call, mailbox.out.data(),
                                   static_cast<std::size_t>(place - mailbox.out.data()));
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Waited how = peers_->wait(*lanes[i].mailbox->receiving);
    if (how == Waited::late) {
      // Whoever else has not come is named, too.
      std::string missing = std::to_string(lanes[i].peer);
      for (std::size_t j = i + 1; j < lanes.size(); ++j) {
        lanes[j].mailbox->receiving.reset();
        if (lanes[j].mailbox->head().magic != CallHead::kMagic) {
          missing += fmt::format(", {}", lanes[j].peer);
        }
      }
      return Status(
          StatusCode::deadline_exceeded,
          fmt::format("participant {} waits at {}, but participant{} {} did not come for "
                      "{} s{} (PLIMSOLL_COLLECTIVE_TIMEOUT sets the time)",
                      participant_, call.what, missing.find(',') == std::string::npos ? "" : "s",
                      missing, timeout_.count(), cause(lanes[i].peer)));
    }
    PLIMSOLL_RETURN_IF_ERROR(waited(how, lanes[i].peer, call));
    PLIMSOLL_RETURN_IF_ERROR(check(call, lanes[i], hash));
  }
  return ok_status();
}

class ProcessCommunicator::Stoppable {
 public:
  Stoppable(Peers& peers, const Stop* stop)
      : watch_(begin(peers, stop), [&peers] { peers.interrupt(); }) {}

 private:
  static Cancellation* begin(Peers& peers, const Stop* stop) {
    peers.set_deadline(stop == nullptr ? Stop::Clock::time_point::max() : stop->deadline);
    return stop == nullptr ? nullptr : stop->cancellation.get();
  }
  const Cancellation::Watch watch_;
};

Status ProcessCommunicator::run(const Call& call, std::vector<Lane>& lanes, std::uint64_t hash,
                                const std::function<Status(Traffic&)>& work) {
  if (has_left_) {
    return broken_.ok() ? failed_precondition(fmt::format("participant {} has left and comes to {}",
                                                          participant_, call.what))
                        : broken_;
  }
  Traffic traffic;
  const Stoppable stoppable(*peers_, stop());
  const auto all = [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(meet(call, lanes, hash));
    PLIMSOLL_RETURN_IF_ERROR(work(traffic));
    for (Lane& lane : lanes) {
      PLIMSOLL_RETURN_IF_ERROR(waited(peers_->wait(*lane.mailbox->sending), lane.peer, call));
      lane.mailbox->sending.reset();
      lane.mailbox->open(*peers_, lane.peer);
    }
    return ok_status();
  };
  const Status status = all();
  if (!status.ok()) leave(status);
  return status;
}

template <typename Fill>
std::vector<ProcessCommunicator::Lane> ProcessCommunicator::lanes_of(
    const Call& call, std::span<const std::int64_t> elements, Fill&& fill) {
  std::vector<Lane> lanes;
  for (std::size_t m = 0; m < call.group.size(); ++m) {
    if (m == call.self) continue;
    Lane& lane = lanes.emplace_back();
    lane.peer = call.group[m];
    lane.member = m;
    fill(m, lane);
    lane.cut(elements, chunk_bytes(call.group.size()));
    lane.mailbox = mailboxes_.empty() ? nullptr : mailboxes_[at(lane.peer)].get();
  }
  return lanes;
}

// Messages of one passage are a stream of their own: its words say which.
namespace {

Slot slot_of(const Communicator::Passage& passage) {
  return static_cast<Slot>(hash_text(passage.what) | std::uint64_t{1} << 63);
}

MeetingPlace::Passage way_of(const Communicator::Passage& passage) {
  return {passage.from, passage.to, passage.what};
}

}  // namespace

Status ProcessCommunicator::may_begin(const Passage& passage) const {
  if (!has_left_) return ok_status();
  return broken_.ok() ? failed_precondition(fmt::format("participant {} has left and comes to {}",
                                                        participant_, passage.what))
                      : broken_;
}

Status ProcessCommunicator::begin_send(const Passage& passage, const void* data,
                                       std::int64_t bytes) {
  PLIMSOLL_RETURN_IF_ERROR(may_begin(passage));
  if (passage.from == passage.to) return own_.begin_send(way_of(passage), data);
  halves_[{true, passage.to, std::string(passage.what)}].push_back(
      bytes == 0 ? nullptr : peers_->send(passage.to, slot_of(passage), data, at(bytes)));
  return ok_status();
}

Status ProcessCommunicator::begin_receive(const Passage& passage, void* data, std::int64_t bytes) {
  PLIMSOLL_RETURN_IF_ERROR(may_begin(passage));
  if (passage.from == passage.to) {
    return own_.begin_receive(way_of(passage), [data, bytes](const void* shown) {
      copy_rows(one_row(shown, 0, bytes), one_row(data, 0, bytes));
      return ok_status();
    });
  }
  halves_[{false, passage.from, std::string(passage.what)}].push_back(
      bytes == 0 ? nullptr : peers_->receive(passage.from, slot_of(passage), data, at(bytes)));
  return ok_status();
}

Status ProcessCommunicator::end_send(const Passage& passage) {
  if (passage.from == passage.to) return own_.end_send(way_of(passage), stop());
  return end_half(passage, true);
}

Status ProcessCommunicator::end_receive(const Passage& passage) {
  if (passage.from == passage.to) return own_.end_receive(way_of(passage), stop());
  return end_half(passage, false);
}

Status ProcessCommunicator::end_half(const Passage& passage, bool sends) {
  PLIMSOLL_RETURN_IF_ERROR(may_begin(passage));
  const std::int64_t peer = sends ? passage.to : passage.from;
  auto& begun = halves_[{sends, peer, std::string(passage.what)}];
  if (begun.empty()) {
    return internal_error(
        fmt::format("participant {} ends {}, which it has not begun", participant_, passage.what));
  }
  Status status;
  if (begun.front() != nullptr) {
    const Stoppable stoppable(*peers_, stop());
    status = waited(peers_->wait(*begun.front()), peer, {passage.what, {}, 0});
  }
  // Told while what is on its way is still there.
  if (!status.ok()) leave(status);
  begun.pop_front();
  return status;
}

void ProcessCommunicator::forget() {
  own_.forget(participant_);
  halves_.clear();
}

Status ProcessCommunicator::measure_speeds() {
  if (participants_ == 1) return ok_status();
  const std::int64_t large = large_message(participants_, 2 * kMostInline, 256 << 10, 8 << 20);
  std::vector<std::byte> out(at(large)), in(at(participants_ * large));
  PLIMSOLL_ASSIGN_OR_RETURN(
      speeds_, collectives::measure_speeds(*this, *this, {out.data(), in.data(), large}));
  return ok_status();
}

Status ProcessCommunicator::count_here(std::uint64_t machine) {
  std::vector<std::uint64_t> machines(at(participants_));
  std::vector<std::int64_t> group(at(participants_));
  std::iota(group.begin(), group.end(), 0);
  const auto row_of = [](std::uint64_t& word) {
    return Rows{reinterpret_cast<std::byte*>(&word), 1, sizeof word, sizeof word};
  };
  const std::vector<Rows> sends(group.size(), row_of(machine));
  std::vector<Rows> receives;
  for (std::uint64_t& one : machines) receives.push_back(row_of(one));
  PLIMSOLL_RETURN_IF_ERROR(
      exchange({"who runs on which machine", group, at(participant_)}, sends, receives));
  here_ = std::count(machines.begin(), machines.end(), machine);
  return ok_status();
}

Status ProcessCommunicator::look(const Call& call) {
  if (has_left_) return broken_;
  const Peers::Failure failure = peers_->failure();
  if (!failure.told.ok()) return failure.told;
  return failure.lost < 0 ? ok_status() : waited(Waited::ended, failure.lost, call);
}

Status ProcessCommunicator::agree(const Call& call, std::uint64_t words,
                                  std::span<const Rows> sends, std::span<const Rows> receives) {
  const std::size_t members = call.group.size();
  const auto extents_for = [&](std::span<const Rows> all, std::size_t m) {
    std::vector<Extent> extents;
    for (std::size_t i = m; i < all.size(); i += members) {
      extents.push_back({all[i].count * all[i].bytes, 1});
    }
    return extents;
  };
  std::vector<Lane> lanes;
  for (std::size_t m = 0; m < members; ++m) {
    if (m == call.self) continue;
    Lane& lane = lanes.emplace_back();
    lane.peer = call.group[m];
    lane.member = m;
    lane.send_extents = extents_for(sends, m);
    lane.receive_extents = extents_for(receives, m);
    lane.mailbox = mailboxes_.empty() ? nullptr : mailboxes_[at(lane.peer)].get();
  }
  const std::uint64_t hash = combine_hash(hash_call(call, CallKind::elsewhere, {}), words);
  return run(call, lanes, hash, [](Traffic&) { return ok_status(); });
}

Status ProcessCommunicator::exchange(const Call& call, std::span<const Rows> sends,
                                     std::span<const Rows> receives) {
  const std::size_t members = call.group.size(), arrays = sends.size() / members;
  const auto of_member = [&](std::span<const Rows> all, std::size_t m) {
    std::vector<Rows> found;
    for (std::size_t i = 0; i < arrays; ++i) found.push_back(all[i * members + m]);
    return found;
  };
  std::vector<Lane> lanes = lanes_of(call, {}, [&](std::size_t m, Lane& lane) {
    lane.sends = of_member(sends, m);
    lane.receives = of_member(receives, m);
  });
  return run(call, lanes, hash_call(call, CallKind::exchange, {}), [&](Traffic& traffic) -> Status {
    std::vector<ChunkStream>& out = traffic.results_out;
    std::vector<ChunkStream>& in = traffic.results_in;
    std::size_t rounds = 0;
    for (Lane& lane : lanes) {
      PeerScratch& scratch = scratch_[at(lane.peer)];
      if (is_inline(lane.in)) {
        unpack(lane.in[0], lane.mailbox->data(), lane.receives);
      } else {
        in.emplace_back(Direction::in, *peers_, lane.peer, Slot::results, lane.in, lane.receives,
                        scratch.results_in);
        rounds = std::max(rounds, lane.in.size());
      }
      if (!is_inline(lane.out)) {
        out.emplace_back(Direction::out, *peers_, lane.peer, Slot::results, lane.out, lane.sends,
                         scratch.results_out);
        rounds = std::max(rounds, lane.out.size());
      }
    }
    const auto copy_own = [&]() -> Status {
      for (std::size_t i = 0; i < arrays; ++i) {
        const Rows& from = sends[i * members + call.self];
        const Rows& to = receives[i * members + call.self];
        if (from.count != to.count || (from.count != 0 && from.bytes != to.bytes)) {
          return failed_precondition(
              fmt::format("{}: participant {} sends itself {} bytes and takes {}", call.what,
                          participant_, from.count * from.bytes, to.count * to.bytes));
        }
        copy_rows(from, to);
      }
      return ok_status();
    };
    for (std::size_t k = 0; k < rounds; ++k) {
      for (ChunkStream& one : in) {
        PLIMSOLL_RETURN_IF_ERROR(waited(one.post(k), one.peer(), call));
      }
      for (ChunkStream& one : out) {
        PLIMSOLL_RETURN_IF_ERROR(waited(one.post(k), one.peer(), call));
      }
    }
    PLIMSOLL_RETURN_IF_ERROR(copy_own());
    for (ChunkStream& one : in) PLIMSOLL_RETURN_IF_ERROR(waited(one.finish(), one.peer(), call));
    for (ChunkStream& one : out) PLIMSOLL_RETURN_IF_ERROR(waited(one.finish(), one.peer(), call));
    return ok_status();
  });
}

// `lanes` send operands and receive as many as this member reduces. In step k everybody sends chunk
// k + 1, receives chunk k, reduces it and, where the result is for all, sends that and takes the
// others': nothing waits for what another member does in a later step.
Status ProcessCommunicator::reduce(const Call& call, std::vector<Lane>& lanes,
                                   std::span<const Reduce> arrays, std::span<const Rows> own,
                                   std::span<const Rows> out, bool for_all, Traffic& traffic) {
  const std::size_t members = call.group.size();
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < own.size(); ++i) {
    extents.push_back({own[i].count * own[i].bytes, arrays[i].reduction->element_bytes()});
  }
  auto& [own_chunks, results, operands_out, results_out, operands_in, results_in] = traffic;
  own_chunks = cut_chunks(extents, chunk_bytes(members));
  const std::vector<Chunk>& mine = own_chunks;
  std::size_t rounds = mine.size();
  results.reserve(lanes.size());
  for (Lane& lane : lanes) {
    PeerScratch& scratch = scratch_[at(lane.peer)];
    const std::span<const Chunk> sent(lane.out.data(), is_inline(lane.out) ? 0 : lane.out.size());
    const std::span<const Chunk> received(lane.in.data(), is_inline(lane.in) ? 0 : lane.in.size());
    operands_out.emplace_back(Direction::out, *peers_, lane.peer, Slot::operands, sent, lane.sends,
                              scratch.operands_out);
    operands_in.emplace_back(Direction::in, *peers_, lane.peer, Slot::operands, received,
                             std::span<const Rows>(), scratch.operands_in);
    rounds = std::max(rounds, lane.out.size());
    if (!for_all) continue;
    std::vector<Rows>& to = results.emplace_back();
    const auto share = share_of(arrays, lane.member, members);
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      to.push_back(one_row(arrays[i].out, share[i].first, share[i].second));
    }
    results_out.emplace_back(Direction::out, *peers_, lane.peer, Slot::results, mine, out,
                             scratch.results_out);
    results_in.emplace_back(Direction::in, *peers_, lane.peer, Slot::results, lane.out, to,
                            scratch.results_in);
  }
  const auto each = [&](auto& ends, auto body) -> Status {
    for (auto& end : ends) PLIMSOLL_RETURN_IF_ERROR(waited(body(end), end.peer(), call));
    return ok_status();
  };
  const auto post = [](std::size_t k) { return [k](auto& end) { return end.post(k); }; };
  std::vector<const void*> in(members);
  std::vector<std::byte> packed;
  for (std::size_t k = 0; k < 2; ++k) PLIMSOLL_RETURN_IF_ERROR(each(operands_in, post(k)));
  PLIMSOLL_RETURN_IF_ERROR(each(operands_out, post(0)));
  PLIMSOLL_RETURN_IF_ERROR(each(results_in, post(0)));
  for (std::size_t k = 0; k < rounds; ++k) {
    PLIMSOLL_RETURN_IF_ERROR(each(operands_out, post(k + 1)));
    // Ahead of when it comes: its sender need not ask first. In place it is no sooner there than
    // what it takes the place of was sent.
    PLIMSOLL_RETURN_IF_ERROR(each(results_in, post(k + 1)));
    PLIMSOLL_RETURN_IF_ERROR(each(operands_in, [&](ChunkStream& end) { return end.wait(k); }));
    if (k < mine.size()) {
      for (const Chunk::Part& part : mine[k].parts) {
        const device::Reduction& reduction = *arrays[part.array].reduction;
        for (std::size_t i = 0; i < lanes.size(); ++i) {
          in[lanes[i].member] = part.place + (is_inline(lanes[i].in) ? lanes[i].mailbox->data()
                                                                     : operands_in[i].data(k));
        }
        in[call.self] = one_piece(part, own[part.array]);
        if (in[call.self] == nullptr) {
          packed.resize(at(mine[k].bytes));
          pack_part(part, own[part.array], packed.data());
          in[call.self] = packed.data() + part.place;
        }
        void* const to = out[part.array].data + part.begin;
        reduce_run(in, 0, (part.end - part.begin) / reduction.element_bytes(), reduction,
                   std::span(&to, 1), 0);
      }
    }
    PLIMSOLL_RETURN_IF_ERROR(each(operands_in, post(k + 2)));
    PLIMSOLL_RETURN_IF_ERROR(each(results_out, post(k)));
  }
  const auto finish = [](auto& end) { return end.finish(); };
  PLIMSOLL_RETURN_IF_ERROR(each(results_in, finish));
  PLIMSOLL_RETURN_IF_ERROR(each(operands_out, finish));
  return each(results_out, finish);
}

Status ProcessCommunicator::all_reduce(const Call& call, std::span<const Reduce> arrays) {
  const std::size_t members = call.group.size();
  std::vector<Rows> whole_in, whole_out;
  std::vector<std::int64_t> elements;
  for (const Reduce& array : arrays) {
    elements.push_back(array.reduction->element_bytes());
    const std::int64_t bytes = array.rows * array.row * elements.back();
    whole_in.push_back(one_row(array.in, 0, bytes));
    whole_out.push_back(one_row(array.out, 0, bytes));
  }
  const std::vector<Chunk> whole = cut_chunks(extents_of(whole_in, elements), kMostInline);
  // Little is sent to all at once, and everybody reduces everything.
  const bool is_small = whole.empty() || is_inline(whole);
  const auto share_rows = [&](std::size_t m, bool of_results) {
    const auto share = share_of(arrays, m, members);
    std::vector<Rows> rows;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      rows.push_back(
          one_row(of_results ? arrays[i].out : arrays[i].in, share[i].first, share[i].second));
    }
    return rows;
  };
  const std::vector<Rows> own = is_small ? whole_in : share_rows(call.self, false);
  const std::vector<Rows> out = is_small ? whole_out : share_rows(call.self, true);
  std::vector<Lane> lanes = lanes_of(call, elements, [&](std::size_t m, Lane& lane) {
    lane.sends = is_small ? whole_in : share_rows(m, false);
    lane.receives = own;
  });
  return run(call, lanes, hash_call(call, CallKind::all_reduce, arrays), [&](Traffic& traffic) {
    return reduce(call, lanes, arrays, own, out, !is_small, traffic);
  });
}

Status ProcessCommunicator::reduce_scatter(const Call& call, std::span<const Reduce> arrays) {
  const auto members = static_cast<std::int64_t>(call.group.size());
  std::vector<std::int64_t> elements;
  for (const Reduce& array : arrays) elements.push_back(array.reduction->element_bytes());
  const auto piece = [&](std::size_t m) {
    std::vector<Rows> rows;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const std::int64_t row = arrays[i].row * elements[i];
      rows.push_back({bytes_at(arrays[i].in) + static_cast<std::int64_t>(m) * row, arrays[i].rows,
                      row, members * row});
    }
    return rows;
  };
  const std::vector<Rows> own = piece(call.self);
  std::vector<Rows> out;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    out.push_back(one_row(arrays[i].out, 0, arrays[i].rows * arrays[i].row * elements[i]));
  }
  std::vector<Lane> lanes = lanes_of(call, elements, [&](std::size_t m, Lane& lane) {
    lane.sends = piece(m);
    lane.receives = own;  // as much from everybody as it has itself
  });
  return run(call, lanes, hash_call(call, CallKind::reduce_scatter, arrays), [&](Traffic& traffic) {
    return reduce(call, lanes, arrays, own, out, false, traffic);
  });
}

}  // namespace plimsoll::collectives
