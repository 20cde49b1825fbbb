// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/recording_nccl.h"

#include <algorithm>
#include <cstring>

#include "tests/device/cuda/recording_nccl_impl.h"

namespace plimsoll::device::cuda {

namespace {

// What is between ncclGroupStart and ncclGroupEnd on this thread.
struct OpenGroup {
  int depth = 0;
  std::vector<NcclHandle> handles;
};
thread_local OpenGroup open_group;

}  // namespace

namespace {

std::atomic<RecordingNccl::Impl*> recording_nccl{nullptr};
constexpr int kQuestions = 2;

}  // namespace

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
