// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/recording_nccl.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tests/device/cuda/recorded_sums.h"
#include "tests/device/cuda/recording_driver_impl.h"

namespace plimsoll::device::cuda {

enum class NcclWork { all_reduce, reduce_scatter, all_gather, send, receive };

struct NcclCall {
  NcclWork work = NcclWork::all_reduce;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;  // as the caller has it
  NcclType type = NcclType::u8;
  NcclOperation operation = NcclOperation::sum;
  int peer = -1;
  std::size_t number = 0;  // among those that it is matched with

  bool is_message() const { return work == NcclWork::send || work == NcclWork::receive; }
  std::int64_t bytes() const { return static_cast<std::int64_t>(count * recorded_bytes(type)); }
};

// One meeting of all members, or one message.
struct NcclMeeting {
  std::optional<NcclCall> call;
  std::vector<std::optional<std::vector<std::byte>>> sent;  // by rank
  int finished = 0;
};
struct NcclMessage {
  std::optional<std::vector<std::byte>> sent;
  std::optional<std::int64_t> expected;
  int finished = 0;
};

struct NcclClique {
  int ranks = 0, joined = 0;
  std::map<std::size_t, NcclMeeting> meetings;
  std::map<std::pair<int, int>, std::map<std::size_t, NcclMessage>> messages;  // from, to
};

namespace {

// What is between ncclGroupStart and ncclGroupEnd on this thread.
struct OpenGroup {
  int depth = 0;
  std::vector<NcclHandle> handles;
};
thread_local OpenGroup open_group;

}  // namespace

struct NcclObject {
  RecordingDriver::Impl* driver = nullptr;
  const ContextObject* context = nullptr;
  std::shared_ptr<NcclClique> clique;
  int rank = 0;
  bool is_live = true, is_aborted = false;
  bool is_made = false;
  int busy = 0;  // questions until what goes on in the background is done
  std::int64_t bytes = 0, pending = 0;
  std::size_t meetings = 0;
  std::map<std::pair<int, int>, std::size_t> messages;
  std::vector<NcclCall> calls;  // of the group
  StreamHandle stream = nullptr;
};

struct RecordingNccl::Impl {
  explicit Impl(std::int64_t of_communicator) : communicator_bytes(of_communicator) {}

  NcclResult violate(RecordingDriver::Impl& driver, const std::string& what) {
    driver.violations.push_back(what);
    return NcclResult::invalid_usage;
  }
  // The driver whose context is current; null: none is.
  RecordingDriver::Impl* current_driver() const {
    if (current_contexts.empty()) return nullptr;
    for (RecordingDriver::Impl* driver : drivers) {
      for (const auto& context : driver->contexts) {
        if (context.get() == current_contexts.back()) return driver;
      }
    }
    return nullptr;
  }
  // Counts the call; the driver is locked by then. Success: it goes on.
  NcclResult begin(RecordingDriver::Impl& driver, const char* symbol) {
    if (is_in_host_function) violate(driver, std::string(symbol) + ": by a function on the host");
    return driver.count(symbol, true, false) == success ? NcclResult::success
                                                        : NcclResult::unhandled_cuda_error;
  }
  NcclResult enqueue(NcclHandle handle, const NcclCall& call, StreamHandle stream,
                     const char* symbol);
  void launch(NcclObject& communicator);
  bool has_begun(NcclObject& communicator, std::vector<NcclCall>& calls, bool& is_first);
  bool is_complete(const NcclObject& communicator, const NcclCall& call);
  void finish(NcclObject& communicator, const NcclCall& call);

#define PLIMSOLL_NCCL_CALL(result, member, symbol, parameters) result member parameters;
#include "runtime/device/cuda/libraries/nccl.def"
#undef PLIMSOLL_NCCL_CALL

  const std::int64_t communicator_bytes;
  std::recursive_mutex mutex;  // taken after a driver's
  std::vector<RecordingDriver::Impl*> drivers;
  std::vector<std::unique_ptr<NcclObject>> communicators;
  std::map<std::string, std::shared_ptr<NcclClique>> cliques;  // by id
  std::map<const RecordingDriver::Impl*, int> fails_in;
  std::atomic<bool> hangs{false};
  std::atomic<int> ids{0};
};

namespace {

std::atomic<RecordingNccl::Impl*> recording_nccl{nullptr};
constexpr int kQuestions = 2;

}  // namespace

using NcclImpl = RecordingNccl::Impl;

// Communicators.

NcclResult NcclImpl::get_version(int* version) {
  *version = 22703;
  return NcclResult::success;
}
const char* NcclImpl::get_error_string(NcclResult result) {
  return result == NcclResult::remote_error ? "remote process exited" : "an error of NCCL";
}
const char* NcclImpl::get_last_error(NcclHandle) { return ""; }

NcclResult NcclImpl::get_unique_id(NcclId* id) {
  const std::string text = "id " + std::to_string(++ids);
  std::memcpy(id->bytes, text.data(), text.size());
  return NcclResult::success;
}

NcclResult NcclImpl::init_rank(NcclHandle* made, int ranks, NcclId id, int rank,
                               NcclConfig* config) {
  RecordingDriver::Impl* const driver = current_driver();
  if (driver == nullptr) return NcclResult::unhandled_cuda_error;
  const std::lock_guard lock(driver->mutex);
  if (const auto result = begin(*driver, "ncclCommInitRankConfig"); result != NcclResult::success) {
    return result;
  }
  if (config == nullptr || config->magic != 0xcafebeef || config->size < 20 ||
      config->blocking != 0 || config->version < 21400 || rank < 0 || rank >= ranks) {
    return violate(*driver, "ncclCommInitRankConfig: arguments");
  }
  const std::lock_guard hub(mutex);
  auto& clique = cliques[std::string(id.bytes, sizeof id.bytes)];
  if (clique == nullptr) clique = std::make_shared<NcclClique>();
  if (clique->ranks != 0 && clique->ranks != ranks) {
    return violate(*driver, "ncclCommInitRankConfig: another number of ranks");
  }
  driver->device = current_contexts.back()->device;
  if (!driver->memory().take(communicator_bytes)) return NcclResult::unhandled_cuda_error;
  clique->ranks = ranks;
  ++clique->joined;
  auto& one = communicators.emplace_back(std::make_unique<NcclObject>());
  one->driver = driver;
  one->context = current_contexts.back();
  one->clique = clique;
  one->rank = rank;
  one->bytes = communicator_bytes;
  *made = one.get();
  return NcclResult::in_progress;
}

NcclResult NcclImpl::get_async_error(NcclHandle handle, NcclResult* state) {
  const std::lock_guard lock(handle->driver->mutex);
  const std::lock_guard hub(mutex);
  if (!handle->is_live) return violate(*handle->driver, "ncclCommGetAsyncError: it is gone");
  if (const auto result = begin(*handle->driver, "ncclCommGetAsyncError");
      result != NcclResult::success) {
    return result;
  }
  if (const auto fails = fails_in.find(handle->driver); fails != fails_in.end()) {
    if (fails->second > 0) --fails->second;
    if (fails->second == 0) {
      *state = NcclResult::remote_error;
      return NcclResult::success;
    }
  }
  if (!handle->is_made) handle->is_made = handle->clique->joined == handle->clique->ranks;
  if (handle->busy > 0 && --handle->busy == 0 && !handle->calls.empty()) launch(*handle);
  *state = handle->is_made && handle->busy == 0 ? NcclResult::success : NcclResult::in_progress;
  return NcclResult::success;
}

NcclResult NcclImpl::finalize(NcclHandle handle) {
  const std::lock_guard lock(handle->driver->mutex);
  if (!handle->is_live || handle->busy > 0) {
    return violate(*handle->driver, "ncclCommFinalize: gone or busy");
  }
  handle->busy = kQuestions;
  return NcclResult::in_progress;
}

NcclResult NcclImpl::destroy(NcclHandle handle) {
  const std::lock_guard lock(handle->driver->mutex);
  if (!handle->is_live || handle->pending > 0 || handle->busy > 0) {
    return violate(*handle->driver, "ncclCommDestroy: gone, busy, or operations are pending");
  }
  handle->is_live = false;
  handle->driver->memory().give_back(handle->bytes);
  return NcclResult::success;
}

NcclResult NcclImpl::abort(NcclHandle handle) {
  const std::lock_guard lock(handle->driver->mutex);
  if (!handle->is_live) return violate(*handle->driver, "ncclCommAbort: it is gone");
  handle->is_live = false;
  handle->is_aborted = true;
  handle->driver->memory().give_back(handle->bytes);
  return NcclResult::success;
}

// Calls.

NcclResult NcclImpl::group_start() {
  ++open_group.depth;
  return NcclResult::success;
}

NcclResult NcclImpl::group_end() {
  RecordingDriver::Impl* const driver = current_driver();
  if (driver == nullptr) return NcclResult::unhandled_cuda_error;
  const std::lock_guard lock(driver->mutex);
  if (open_group.depth == 0) return violate(*driver, "ncclGroupEnd: no group was begun");
  if (--open_group.depth > 0) return NcclResult::success;
  const auto handles = std::exchange(open_group.handles, {});
  const NcclResult result = begin(*driver, "ncclGroupEnd");
  for (const NcclHandle handle : handles) {
    if (result == NcclResult::success) {
      handle->busy = kQuestions;
    } else {
      handle->calls.clear();
    }
  }
  if (result != NcclResult::success) return result;
  return handles.empty() ? NcclResult::success : NcclResult::in_progress;
}

NcclResult NcclImpl::enqueue(NcclHandle handle, const NcclCall& call, StreamHandle stream,
                             const char* symbol) {
  RecordingDriver::Impl& driver = *handle->driver;
  const std::lock_guard lock(driver.mutex);
  if (const auto result = begin(driver, symbol); result != NcclResult::success) return result;
  const std::string name(symbol);
  if (!handle->is_live || !handle->is_made || handle->busy > 0) {
    return violate(driver, name + ": the communicator is gone, not made or busy");
  }
  if (driver.context(symbol) != handle->context) return violate(driver, name + ": its context");
  if (!driver.is_live(driver.streams, stream) || stream->graph != nullptr) {
    return violate(driver, name + ": no such stream, or one that is captured");
  }
  if (open_group.depth == 0) return violate(driver, name + ": outside of a group");
  if (call.count == 0 ||
      (call.is_message() && (call.peer < 0 || call.peer >= handle->clique->ranks))) {
    return violate(driver, name + ": count or peer");
  }
  if (!handle->calls.empty() && handle->stream != stream) {
    return violate(driver, name + ": two streams in a group");
  }
  handle->stream = stream;
  if (handle->calls.empty()) open_group.handles.push_back(handle);
  NcclCall& added = handle->calls.emplace_back(call);
  if (!call.is_message()) {
    added.number = handle->meetings++;
  } else {
    const bool sends = call.work == NcclWork::send;
    added.number =
        handle->messages[{sends ? handle->rank : call.peer, sends ? call.peer : handle->rank}]++;
  }
  return NcclResult::success;
}

NcclResult NcclImpl::all_reduce(const void* from, void* to, std::size_t count, NcclType type,
                                NcclOperation operation, NcclHandle handle, StreamHandle stream) {
  return enqueue(handle, {NcclWork::all_reduce, from, to, count, type, operation}, stream,
                 "ncclAllReduce");
}
NcclResult NcclImpl::reduce_scatter(const void* from, void* to, std::size_t count, NcclType type,
                                    NcclOperation operation, NcclHandle handle,
                                    StreamHandle stream) {
  return enqueue(handle, {NcclWork::reduce_scatter, from, to, count, type, operation}, stream,
                 "ncclReduceScatter");
}
NcclResult NcclImpl::all_gather(const void* from, void* to, std::size_t count, NcclType type,
                                NcclHandle handle, StreamHandle stream) {
  return enqueue(handle, {NcclWork::all_gather, from, to, count, type}, stream, "ncclAllGather");
}
NcclResult NcclImpl::send(const void* from, std::size_t count, NcclType type, int peer,
                          NcclHandle handle, StreamHandle stream) {
  return enqueue(handle, {NcclWork::send, from, nullptr, count, type, {}, peer}, stream,
                 "ncclSend");
}
NcclResult NcclImpl::receive(void* to, std::size_t count, NcclType type, int peer,
                             NcclHandle handle, StreamHandle stream) {
  return enqueue(handle, {NcclWork::receive, nullptr, to, count, type, {}, peer}, stream,
                 "ncclRecv");
}

// Work.

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

// The table.

namespace {

template <auto kMethod>
struct ForwardNccl;
template <typename R, typename... Parameters, R (NcclImpl::*kMethod)(Parameters...)>
struct ForwardNccl<kMethod> {
  static R call(Parameters... parameters) {
    return (recording_nccl.load()->*kMethod)(parameters...);
  }
};

}  // namespace

RecordingNccl::RecordingNccl(std::int64_t communicator_bytes)
    : impl_(std::make_unique<Impl>(communicator_bytes)) {
  recording_nccl = impl_.get();
}

RecordingNccl::~RecordingNccl() { recording_nccl = nullptr; }

void RecordingNccl::attach(RecordingDriver& driver) {
  const std::lock_guard lock(impl_->mutex);
  impl_->drivers.push_back(&driver.impl());
}

const Nccl& RecordingNccl::table() const {
  static const Nccl table = [] {
    Nccl made;
#define PLIMSOLL_NCCL_CALL(result, member, symbol, parameters) \
  made.member = ForwardNccl<&NcclImpl::member>::call;
#include "runtime/device/cuda/libraries/nccl.def"
#undef PLIMSOLL_NCCL_CALL
    return made;
  }();
  return table;
}

void RecordingNccl::hang() { impl_->hangs = true; }

void RecordingNccl::fail_in_background(RecordingDriver& driver, int n) {
  const std::lock_guard lock(impl_->mutex);
  impl_->fails_in[&driver.impl()] = n;
}

std::string RecordingNccl::leaks() const {
  const std::lock_guard lock(impl_->mutex);
  const auto live = std::count_if(impl_->communicators.begin(), impl_->communicators.end(),
                                  [](const auto& one) { return one->is_live; });
  return live == 0 ? "" : std::to_string(live) + " communicators";
}

}  // namespace plimsoll::device::cuda
