// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl_groups.h"

#include <fmt/core.h>

#include <cstddef>
#include <string>

namespace plimsoll::collectives {

using device::Rows;
using device::cuda::Nccl;
using device::cuda::NcclConfig;
using device::cuda::NcclHandle;
using device::cuda::NcclId;
using device::cuda::NcclResult;

namespace {

// NCCL takes no more at once; what is missing beyond it has been taken by another process
// meanwhile.
constexpr std::int64_t kMostNcclBytes = std::int64_t{2} << 30;

// The id that the first member gives the others.
Result<NcclId> agree_on_id(const Nccl& library, const device::Communicator::Call& call,
                           device::Communicator& host) {
  NcclId id, unused;
  if (call.self == 0) {
    PLIMSOLL_RETURN_IF_ERROR(device::cuda::call(library, &Nccl::get_unique_id, &id));
  }
  const auto row_of = [](NcclId& of) {
    const auto bytes = static_cast<std::int64_t>(sizeof of.bytes);
    return Rows{reinterpret_cast<std::byte*>(of.bytes), 1, bytes, bytes};
  };
  std::vector<Rows> sends(call.group.size()), receives(call.group.size());
  if (call.self == 0) {
    for (Rows& rows : sends) rows = row_of(id);
    receives[0] = row_of(unused);
  } else {
    receives[0] = row_of(id);
  }
  const std::string what = fmt::format("the start of NCCL for {}", call.what);
  PLIMSOLL_RETURN_IF_ERROR(host.exchange({what, call.group, call.self}, sends, receives));
  return id;
}

}  // namespace

Status NcclGroups::measured(const std::function<Status()>& work) {
  const auto taken = context_->measure_library(work, kMostNcclBytes);
  PLIMSOLL_RETURN_IF_ERROR(taken.status());
  context_->count_library(*taken);
  counted_bytes_ += *taken;
  return ok_status();
}

Result<NcclHandle> NcclGroups::of(const Call& call, device::Communicator& host,
                                  const Await& await) {
  const std::vector<std::int64_t> group(call.group.begin(), call.group.end());
  if (const auto found = handles_.find(group); found != handles_.end()) return found->second;
  PLIMSOLL_ASSIGN_OR_RETURN(const NcclId id, agree_on_id(library_, call, host));
  NcclHandle handle = nullptr;
  PLIMSOLL_RETURN_IF_ERROR(measured([&]() -> Status {
    const Status begun = context_->within([&] {
      NcclConfig config;
      return device::cuda::call(library_, &Nccl::init_rank, &handle, static_cast<int>(group.size()),
                                id, static_cast<int>(call.self), &config);
    });
    if (handle != nullptr) handles_[group] = handle;  // whatever becomes of it
    PLIMSOLL_RETURN_IF_ERROR(begun);
    return await([&] { return is_settled(handle); });
  }));
  return handle;
}

Status NcclGroups::run(NcclHandle handle, NcclKind kind, const std::function<Status()>& work,
                       const Await& await) {
  const auto all = [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(context_->within([&]() -> Status {
      PLIMSOLL_RETURN_IF_ERROR(device::cuda::call(library_, &Nccl::group_start));
      const Status called = work();
      const Status ended = device::cuda::call(library_, &Nccl::group_end);
      return called.ok() ? ended : called;
    }));
    return await([&] { return is_settled(handle); });
  };
  return seen_.emplace(handle, kind).second ? measured(all) : all();
}

Result<bool> NcclGroups::is_settled(NcclHandle handle) const {
  NcclResult state = NcclResult::success;
  PLIMSOLL_RETURN_IF_ERROR(device::cuda::call(library_, &Nccl::get_async_error, handle, &state));
  if (state == NcclResult::success) return true;
  if (state == NcclResult::in_progress) return false;
  return failure(library_, state, "in the background");
}

void NcclGroups::forget() {
  handles_.clear();
  seen_.clear();
  context_->count_library(-counted_bytes_);
  counted_bytes_ = 0;
}

void NcclGroups::abort() {
  if (handles_.empty()) return;
  (void)context_->within([&] {
    for (const auto& [group, handle] : handles_) {
      (void)device::cuda::call(library_, &Nccl::abort, handle);
    }
    return ok_status();
  });
  forget();
}

void NcclGroups::finish(const Await& await) {
  if (handles_.empty()) return;
  const auto begin = [&]() -> Status {
    for (const auto& [group, handle] : handles_) {
      PLIMSOLL_RETURN_IF_ERROR(device::cuda::call(library_, &Nccl::finalize, handle));
    }
    return ok_status();
  };
  bool is_over = context_->within(begin).ok();
  for (const auto& [group, handle] : handles_) {
    is_over = is_over && await([&, of = handle] { return is_settled(of); }).ok();
  }
  if (!is_over) return abort();
  (void)context_->within([&] {
    for (const auto& [group, handle] : handles_) {
      (void)device::cuda::call(library_, &Nccl::destroy, handle);
    }
    return ok_status();
  });
  forget();
}

}  // namespace plimsoll::collectives
