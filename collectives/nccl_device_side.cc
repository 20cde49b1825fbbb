// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl_device_side.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/base/index.h"

namespace plimsoll::collectives {
namespace {

using device::KnownReduction;
using device::Rows;
using device::cuda::CudaStream;
using device::cuda::Nccl;
using device::cuda::NcclOperation;
using device::cuda::NcclType;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kScratch = 8 << 20;

NcclType type_of(KnownReduction::Element element) {
  constexpr NcclType kTypes[] = {NcclType::s8,  NcclType::u8,  NcclType::s32, NcclType::u32,
                                 NcclType::s64, NcclType::u64, NcclType::f16, NcclType::bf16,
                                 NcclType::f32, NcclType::f64};
  return kTypes[at(static_cast<std::int64_t>(element))];
}

NcclOperation operation_of(KnownReduction::Combine combine) {
  constexpr NcclOperation kOperations[] = {NcclOperation::sum, NcclOperation::product,
                                           NcclOperation::maximum, NcclOperation::minimum};
  return kOperations[at(static_cast<std::int64_t>(combine))];
}

std::uint64_t words_of(NcclKind kind, std::span<const device::Communicator::Reduce> arrays) {
  std::uint64_t hash = static_cast<std::uint64_t>(kind);
  for (const auto& array : arrays) {
    const auto known = array.reduction->known();
    hash = combine_hash(hash, static_cast<std::uint64_t>(array.rows));
    hash = combine_hash(hash, static_cast<std::uint64_t>(array.row));
    hash = combine_hash(hash, static_cast<std::uint64_t>(known->combine) << 8 |
                                  static_cast<std::uint64_t>(known->element));
  }
  return hash;
}

std::int64_t bytes_of(const device::Communicator::Reduce& array) {
  return array.rows * array.row * array.reduction->element_bytes();
}

}  // namespace

NcclDeviceSide::NcclDeviceSide(ProcessCommunicator& host,
                               std::shared_ptr<device::cuda::CudaDevice> device,
                               const Nccl& library, const NcclOptions& options)
    : host_(host),
      device_(std::move(device)),
      options_(options),
      groups_(library, device_->context()) {}

Result<std::unique_ptr<NcclDeviceSide>> NcclDeviceSide::create(
    ProcessCommunicator& host, std::shared_ptr<device::cuda::CudaDevice> device,
    const Nccl& library, const NcclOptions& options) {
  auto made = std::unique_ptr<NcclDeviceSide>(
      new NcclDeviceSide(host, std::move(device), library, options));
  auto& on = *made->device_;
  PLIMSOLL_ASSIGN_OR_RETURN(made->stream_, on.create_stream());
  PLIMSOLL_ASSIGN_OR_RETURN(made->ready_, on.create_event());
  PLIMSOLL_ASSIGN_OR_RETURN(made->done_, on.create_event());
  const std::int64_t bytes = std::max(kScratch, 2 * host.participants() * kLongRow);
  PLIMSOLL_ASSIGN_OR_RETURN(void* const scratch, on.allocate(bytes));
  made->scratch_ = static_cast<std::byte*>(scratch);
  made->scratch_bytes_ = bytes;
  on.context()->count_library(bytes);
  return made;
}

NcclDeviceSide::~NcclDeviceSide() {
  groups_.abort();
  (void)(stream_ == nullptr ? ok_status() : stream_->synchronize());
  if (scratch_ == nullptr) return;
  device_->deallocate(scratch_, scratch_bytes_);
  device_->context()->count_library(-scratch_bytes_);
}

void NcclDeviceSide::use(CudaStream& stream, const Stop* stop) {
  current_ = &stream;
  set_stop(stop);
}

void NcclDeviceSide::end(bool well) {
  if (!well) return groups_.abort();
  constexpr auto kLongest = std::chrono::seconds(5);
  const auto deadline = Clock::now() + kLongest;
  groups_.finish([&](const NcclGroups::Condition& condition) -> Status {
    for (;;) {
      PLIMSOLL_ASSIGN_OR_RETURN(const bool is_over, condition());
      if (is_over) return ok_status();
      if (Clock::now() > deadline) return Status(StatusCode::deadline_exceeded, "NCCL's end");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
}

// Waiting.

// What others have failed with explains what NCCL has; it may come a little later.
Status NcclDeviceSide::why(const Call& call, const Status& failed) {
  constexpr auto kLongest = std::chrono::milliseconds(300);
  for (const auto deadline = Clock::now() + kLongest; Clock::now() < deadline;) {
    PLIMSOLL_RETURN_IF_ERROR(host_.look(call));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return failed.with_context(fmt::format("participant {} at {}", participant(), call.what));
}

Status NcclDeviceSide::wait(const Call& call, const NcclGroups::Condition& condition,
                            bool may_be_late) {
  constexpr int kSpins = 2000;
  const auto begin = Clock::now();
  for (int i = 0;; ++i) {
    const Result<bool> is_over = condition();
    if (!is_over.ok()) return why(call, is_over.status());
    if (*is_over) return ok_status();
    PLIMSOLL_RETURN_IF_ERROR(host_.look(call));
    if (stop() != nullptr) {
      if (const Status stopped = stop()->check(); !stopped.ok()) {
        return left_waiting(participant(), call.what, stopped);
      }
    }
    if (!may_be_late && Clock::now() - begin > options_.timeout) {
      return Status(
          StatusCode::deadline_exceeded,
          fmt::format("participant {} waits at {}, but NCCL was not done with it for {} s "
                      "(PLIMSOLL_COLLECTIVE_TIMEOUT sets the time)",
                      participant(), call.what, options_.timeout.count()));
    }
    if (i < kSpins) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

NcclDeviceSide::Await NcclDeviceSide::await_of(const Call& call) {
  return
      [this, call](const NcclGroups::Condition& condition) { return wait(call, condition, false); };
}

Status NcclDeviceSide::run_all(const Call& call, const std::function<Status(Handle)>& enqueue,
                               const Await& await) {
  PLIMSOLL_RETURN_IF_ERROR(current_->record(*ready_));
  PLIMSOLL_RETURN_IF_ERROR(stream_->wait(*ready_));
  Handle handle = nullptr;
  if (call.group.size() > 1) {
    PLIMSOLL_ASSIGN_OR_RETURN(handle, groups_.of(call, host_, await));
  }
  PLIMSOLL_RETURN_IF_ERROR(enqueue(handle));
  PLIMSOLL_RETURN_IF_ERROR(stream_->record(*done_));
  const auto reached = [&](const device::Event& event) -> Result<bool> {
    if (handle != nullptr) PLIMSOLL_RETURN_IF_ERROR(groups_.is_settled(handle).status());
    return event.is_reached();
  };
  // However long it is that the stream was busy before.
  PLIMSOLL_RETURN_IF_ERROR(wait(call, [&] { return reached(*ready_); }, true));
  PLIMSOLL_RETURN_IF_ERROR(await([&] { return reached(*done_); }));
  return done_->wait();
}

Status NcclDeviceSide::run(const Call& call, std::uint64_t words, std::span<const Rows> sends,
                           std::span<const Rows> receives,
                           const std::function<Status(Handle)>& enqueue, const Await& await) {
  host_.set_stop(stop());
  Status status = host_.agree(call, words, sends, receives);
  const bool has_met = status.ok();
  if (has_met) status = run_all(call, enqueue, await);
  host_.set_stop(nullptr);
  if (status.ok()) return status;
  if (has_met) host_.leave(status);
  groups_.abort();
  // What has been aborted ends, and uses no memory afterwards.
  (void)stream_->synchronize();
  return status;
}

// Reductions.

Status NcclDeviceSide::check_known(const Call& call, std::span<const Reduce> arrays) const {
  for (const Reduce& array : arrays) {
    const auto known = array.reduction->known();
    if (known && (!options_.keeps_order || known->is_exact())) continue;
    return unimplemented(fmt::format("{}: a reduction that NCCL {}", call.what,
                                     known ? "does in an order of its own" : "does not have"));
  }
  return ok_status();
}

Status NcclDeviceSide::all_reduce(const Call& call, std::span<const Reduce> arrays) {
  PLIMSOLL_RETURN_IF_ERROR(check_known(call, arrays));
  const Await await = await_of(call);
  const auto& on = static_cast<CudaStream&>(*stream_);
  const auto enqueue = [&](Handle handle) -> Status {
    const auto each = [&](auto&& one) -> Status {
      for (const Reduce& array : arrays) {
        if (bytes_of(array) > 0) PLIMSOLL_RETURN_IF_ERROR(one(array));
      }
      return ok_status();
    };
    if (handle == nullptr) {
      return each([&](const Reduce& array) {
        return array.in == array.out ? ok_status()
                                     : stream_->copy(array.out, array.in, bytes_of(array),
                                                     device::CopyKind::device_to_device);
      });
    }
    const auto reduce = [&](const Reduce& array) {
      const auto known = array.reduction->known();
      return device::cuda::call(groups_.library(), &Nccl::all_reduce, array.in, array.out,
                                at(array.rows * array.row), type_of(known->element),
                                operation_of(known->combine), handle, on.handle());
    };
    return groups_.run(handle, NcclKind::reduces, [&] { return each(reduce); }, await);
  };
  return run(call, words_of(NcclKind::reduces, arrays), {}, {}, enqueue, await);
}

Status NcclDeviceSide::reduce_scatter(const Call& call, std::span<const Reduce> arrays) {
  PLIMSOLL_RETURN_IF_ERROR(check_known(call, arrays));
  const Await await = await_of(call);
  const auto members = static_cast<std::int64_t>(call.group.size());
  const auto enqueue = [&](Handle handle) -> Status {
    for (const Reduce& array : arrays) {
      if (bytes_of(array) == 0) continue;
      PLIMSOLL_RETURN_IF_ERROR(handle == nullptr
                                   ? stream_->copy(array.out, array.in, bytes_of(array),
                                                   device::CopyKind::device_to_device)
                                   : scatter_rows(handle, array, members, await));
    }
    return ok_status();
  };
  return run(call, words_of(NcclKind::scatters, arrays), {}, {}, enqueue, await);
}

// NCCL takes a member's part in one piece: of several rows as many as there is scratch memory for
// are brought together first. Results lie in one piece as it is.
Status NcclDeviceSide::scatter_rows(Handle handle, const Reduce& array, std::int64_t members,
                                    const Await& await) {
  auto& on = static_cast<CudaStream&>(*stream_);
  const auto known = array.reduction->known();
  const std::int64_t bytes = array.row * array.reduction->element_bytes();
  const bool is_whole = array.rows == 1 || bytes * members > scratch_bytes_;
  const std::int64_t at_once =
      is_whole ? 1 : std::min(array.rows, scratch_bytes_ / (bytes * members));
  for (std::int64_t first = 0; first < array.rows; first += at_once) {
    const std::int64_t rows = std::min(at_once, array.rows - first);
    const auto* from = static_cast<const std::byte*>(array.in) + first * members * bytes;
    if (rows > 1) {
      for (std::int64_t m = 0; m < members; ++m) {
        PLIMSOLL_RETURN_IF_ERROR(on.copy_rows(scratch_ + m * rows * bytes, bytes, from + m * bytes,
                                              members * bytes, bytes, rows));
      }
      from = scratch_;
    }
    void* const to = static_cast<std::byte*>(array.out) + first * bytes;
    const auto reduce = [&] {
      return device::cuda::call(groups_.library(), &Nccl::reduce_scatter,
                                static_cast<const void*>(from), to, at(rows * array.row),
                                type_of(known->element), operation_of(known->combine), handle,
                                on.handle());
    };
    PLIMSOLL_RETURN_IF_ERROR(groups_.run(handle, NcclKind::scatters, reduce, await));
  }
  return ok_status();
}

// Transfers in halves.

namespace {

Status no_halves(const device::Communicator::Passage& passage) {
  return unimplemented(fmt::format("{}: between participants on GPUs", passage.what));
}

}  // namespace

Status NcclDeviceSide::begin_send(const Passage& passage, const void*, std::int64_t) {
  return no_halves(passage);
}
Status NcclDeviceSide::begin_receive(const Passage& passage, void*, std::int64_t) {
  return no_halves(passage);
}
Status NcclDeviceSide::end_send(const Passage& passage) { return no_halves(passage); }
Status NcclDeviceSide::end_receive(const Passage& passage) { return no_halves(passage); }

// Memory.

Status NcclDeviceSide::copy(void* to, const void* from, std::int64_t bytes) {
  return current_->copy(to, from, bytes, device::CopyKind::device_to_device);
}

Status NcclDeviceSide::clear(void* to, std::int64_t bytes) {
  return current_->fill(to, std::byte{0}, bytes);
}

Status NcclDeviceSide::read(void* to, const void* from, std::int64_t bytes) {
  PLIMSOLL_RETURN_IF_ERROR(current_->copy(to, from, bytes, device::CopyKind::device_to_host));
  return current_->synchronize();
}

device::Communicator& NcclDeviceSide::host() {
  host_.set_stop(stop());
  return host_;
}

}  // namespace plimsoll::collectives
