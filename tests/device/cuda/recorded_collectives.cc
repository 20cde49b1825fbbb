// SPDX-License-Identifier: Apache-2.0
// What the recording NCCL's calls come to: work of its drivers' streams.
#include <algorithm>
#include <cstring>

#include "tests/device/cuda/recording_nccl_impl.h"

namespace plimsoll::device::cuda {

// One piece of work for all calls of a group.
void NcclImpl::launch(NcclObject& communicator) {
  Piece piece{.what = "NCCL, " + std::to_string(communicator.calls.size()) + " calls"};
  const auto members = static_cast<std::int64_t>(communicator.clique->ranks);
  for (const NcclCall& call : communicator.calls) {
    const bool scatters = call.work == NcclWork::reduce_scatter;
    const bool gathers = call.work == NcclWork::all_gather;
    if (call.from != nullptr) {
      piece.touches.push_back({call.from, call.bytes() * (scatters ? members : 1), true});
    }
    if (call.to != nullptr) {
      piece.touches.push_back({call.to, call.bytes() * (gathers ? members : 1), true});
    }
  }
  auto calls = std::make_shared<std::vector<NcclCall>>(std::exchange(communicator.calls, {}));
  auto is_first = std::make_shared<bool>(true);
  ++communicator.pending;
  NcclObject* const one = &communicator;
  piece.is_ready = [=, this] { return has_begun(*one, *calls, *is_first); };
  piece.run = [=, this] {
    const std::lock_guard hub(mutex);
    --one->pending;
    if (one->is_aborted) return;
    for (const NcclCall& call : *calls) finish(*one, call);
  };
  (void)communicator.driver->enqueue(*communicator.stream, std::move(piece));
}

// Shows the others what it sends, once, and whether all have shown theirs.
bool NcclImpl::has_begun(NcclObject& communicator, std::vector<NcclCall>& calls, bool& is_first) {
  const std::lock_guard hub(mutex);
  if (communicator.is_aborted) return true;
  RecordingDriver::Impl& driver = *communicator.driver;
  NcclClique& clique = *communicator.clique;
  for (const NcclCall& call : calls) {
    if (!is_first) break;
    const std::int64_t bytes =
        call.bytes() * (call.work == NcclWork::reduce_scatter ? clique.ranks : 1);
    std::vector<std::byte> sent;
    if (call.from != nullptr) {
      if (!driver.is_usable({call.from, bytes, true})) return true;  // a violation when it runs
      const auto* const data = static_cast<const std::byte*>(driver.translated(call.from));
      sent.assign(data, data + bytes);
    }
    if (call.work == NcclWork::send) {
      clique.messages[{communicator.rank, call.peer}][call.number].sent = std::move(sent);
    } else if (call.work == NcclWork::receive) {
      clique.messages[{call.peer, communicator.rank}][call.number].expected = bytes;
    } else {
      NcclMeeting& meeting = clique.meetings[call.number];
      meeting.sent.resize(static_cast<std::size_t>(clique.ranks));
      meeting.sent[static_cast<std::size_t>(communicator.rank)] = std::move(sent);
      if (!meeting.call) meeting.call = call;
      if (meeting.call->work != call.work || meeting.call->count != call.count ||
          meeting.call->type != call.type || meeting.call->operation != call.operation) {
        violate(driver, "NCCL: members come with different operations");
      }
    }
  }
  is_first = false;
  return !hangs && std::all_of(calls.begin(), calls.end(), [&](const NcclCall& call) {
    return is_complete(communicator, call);
  });
}

bool NcclImpl::is_complete(const NcclObject& communicator, const NcclCall& call) {
  NcclClique& clique = *communicator.clique;
  if (!call.is_message()) {
    const auto& sent = clique.meetings[call.number].sent;
    return std::all_of(sent.begin(), sent.end(), [](const auto& one) { return one.has_value(); });
  }
  const bool sends = call.work == NcclWork::send;
  NcclMessage& message = clique.messages[{sends ? communicator.rank : call.peer,
                                          sends ? call.peer : communicator.rank}][call.number];
  if (!message.sent || !message.expected) return false;
  if (std::ssize(*message.sent) != *message.expected) {
    violate(*communicator.driver, "NCCL: a message of another length than is expected");
  }
  return true;
}

// What all have taken is forgotten.
void NcclImpl::finish(NcclObject& communicator, const NcclCall& call) {
  NcclClique& clique = *communicator.clique;
  auto* const to = call.to == nullptr
                       ? nullptr
                       : static_cast<std::byte*>(communicator.driver->translated(call.to));
  const auto bytes = static_cast<std::size_t>(call.bytes());
  if (call.is_message()) {
    const bool sends = call.work == NcclWork::send;
    auto& messages = clique.messages[{sends ? communicator.rank : call.peer,
                                      sends ? call.peer : communicator.rank}];
    NcclMessage& message = messages[call.number];
    if (!sends) std::memcpy(to, message.sent->data(), std::min(bytes, message.sent->size()));
    if (++message.finished == 2) messages.erase(call.number);
    return;
  }
  NcclMeeting& meeting = clique.meetings[call.number];
  const auto& sent = meeting.sent;
  if (call.work == NcclWork::all_gather) {
    for (std::size_t m = 0; m < sent.size(); ++m) {
      std::memcpy(to + m * bytes, sent[m]->data(), bytes);
    }
  } else {
    const std::size_t begin = call.work == NcclWork::reduce_scatter
                                  ? static_cast<std::size_t>(communicator.rank) * bytes
                                  : 0;
    std::memcpy(to, sent.back()->data() + begin, bytes);
    for (std::size_t m = sent.size() - 1; m-- > 0;) {
      recorded_combine(call.type, call.operation, to, sent[m]->data() + begin, call.count);
    }
  }
  if (++meeting.finished == clique.ranks) clique.meetings.erase(call.number);
}

}  // namespace plimsoll::device::cuda
