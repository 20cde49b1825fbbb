// SPDX-License-Identifier: Apache-2.0
// What NcclDeviceSide moves without reducing it.
#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/nccl_device_side.h"
#include "runtime/base/index.h"

namespace plimsoll::collectives {

using device::Rows;
using device::cuda::CudaStream;
using device::cuda::Nccl;
using device::cuda::NcclType;

namespace {

// So many at a time.
constexpr std::int64_t kLongRowsAtOnce = 64;

}  // namespace

// Exchanges. Both ends know of how many rows of how many bytes a message is, and nothing else of
// how the other one's lie; so what is sent at once follows from these numbers.

bool NcclDeviceSide::Way::is_direct() const { return rows.count == 1 || rows.bytes >= kLongRow; }

std::int64_t NcclDeviceSide::Way::per_round() const {
  return is_direct() ? kLongRowsAtOnce : slot_bytes / rows.bytes;
}

Status NcclDeviceSide::exchange(const Call& call, std::span<const Rows> sends,
                                std::span<const Rows> receives) {
  const Await await = await_of(call);
  const std::size_t members = call.group.size(), arrays = sends.size() / members;
  const bool gathers =
      call.sends_the_same && members > 1 &&
      std::all_of(sends.begin(), sends.end(), [](const Rows& rows) { return rows.count == 1; });
  const auto enqueue = [&](Handle handle) -> Status {
    if (gathers) return gather(handle, sends, receives, members, await);
    auto& on = static_cast<CudaStream&>(*stream_);
    std::vector<Way> whole;
    std::vector<std::vector<Way>> rest;
    const auto others = std::max<std::int64_t>(1, static_cast<std::int64_t>(members) - 1);
    for (std::size_t i = 0; i < arrays; ++i) {
      const Rows& from = sends[i * members + call.self];
      const Rows& to = receives[i * members + call.self];
      if (from.count != to.count || (from.count != 0 && from.bytes != to.bytes)) {
        return failed_precondition(
            fmt::format("{}: participant {} sends itself {} bytes and takes {}", call.what,
                        participant(), from.count * from.bytes, to.count * to.bytes));
      }
      PLIMSOLL_RETURN_IF_ERROR(
          on.copy_rows(to.data, to.stride, from.data, from.stride, from.bytes, from.count));
      std::vector<Way> apart;
      std::byte* slot = scratch_;
      const std::int64_t slot_bytes = scratch_bytes_ / (2 * others) / 256 * 256;
      for (std::size_t m = 0; m < members; ++m) {
        if (m == call.self) continue;
        for (const bool is_sent : {true, false}) {
          const Rows& rows = (is_sent ? sends : receives)[i * members + m];
          if (rows.count * rows.bytes == 0) continue;
          Way way{rows, static_cast<int>(m), is_sent, slot, slot_bytes};
          slot += slot_bytes;
          (rows.count == 1 ? whole : apart).push_back(way);
        }
      }
      if (!apart.empty()) rest.push_back(std::move(apart));
    }
    if (!whole.empty()) PLIMSOLL_RETURN_IF_ERROR(trade(handle, std::move(whole), await));
    for (auto& ways : rest) PLIMSOLL_RETURN_IF_ERROR(trade(handle, std::move(ways), await));
    return ok_status();
  };
  const std::uint64_t words =
      static_cast<std::uint64_t>(gathers ? NcclKind::gathers : NcclKind::trades);
  return run(call, words, sends, receives, enqueue, await);
}

Status NcclDeviceSide::gather(Handle handle, std::span<const Rows> sends,
                              std::span<const Rows> receives, std::size_t members,
                              const Await& await) {
  const auto& on = static_cast<CudaStream&>(*stream_);
  const auto all = [&]() -> Status {
    for (std::size_t i = 0; i < sends.size(); i += members) {
      if (sends[i].bytes == 0) continue;
      PLIMSOLL_RETURN_IF_ERROR(device::cuda::call(
          groups_.library(), &Nccl::all_gather, static_cast<const void*>(sends[i].data),
          static_cast<void*>(receives[i].data), at(sends[i].bytes), NcclType::u8, handle,
          on.handle()));
    }
    return ok_status();
  };
  return groups_.run(handle, NcclKind::gathers, all, await);
}

Status NcclDeviceSide::trade(Handle handle, std::vector<Way> ways, const Await& await) {
  std::int64_t rounds = 0;
  for (const Way& way : ways) {
    rounds = std::max(rounds, (way.rows.count + way.per_round() - 1) / way.per_round());
  }
  for (std::int64_t round = 0; round < rounds; ++round) {
    PLIMSOLL_RETURN_IF_ERROR(trade_round(handle, ways, round, await));
  }
  return ok_status();
}

Status NcclDeviceSide::trade_round(Handle handle, const std::vector<Way>& ways, std::int64_t round,
                                   const Await& await) {
  auto& on = static_cast<CudaStream&>(*stream_);
  const Nccl& library = groups_.library();
  // Of the ways that have any left: their rows of this round.
  const auto each = [&](auto&& one) -> Status {
    for (const Way& way : ways) {
      Rows rows = way.rows;
      const std::int64_t first = round * way.per_round();
      rows.count = std::min(way.per_round(), rows.count - first);
      rows.data += first * rows.stride;
      if (rows.count > 0) PLIMSOLL_RETURN_IF_ERROR(one(way, rows));
    }
    return ok_status();
  };
  const auto move = [&](const Way& way, std::byte* data, std::int64_t bytes) {
    return way.sends ? device::cuda::call(library, &Nccl::send, static_cast<const void*>(data),
                                          at(bytes), NcclType::u8, way.peer, handle, on.handle())
                     : device::cuda::call(library, &Nccl::receive, static_cast<void*>(data),
                                          at(bytes), NcclType::u8, way.peer, handle, on.handle());
  };
  PLIMSOLL_RETURN_IF_ERROR(each([&](const Way& way, const Rows& rows) {
    return way.is_direct() || !way.sends
               ? ok_status()
               : on.copy_rows(way.slot, rows.bytes, rows.data, rows.stride, rows.bytes, rows.count);
  }));
  const auto all = [&] {
    return each([&](const Way& way, const Rows& rows) -> Status {
      if (!way.is_direct()) return move(way, way.slot, rows.count * rows.bytes);
      for (std::int64_t row = 0; row < rows.count; ++row) {
        PLIMSOLL_RETURN_IF_ERROR(move(way, rows.data + row * rows.stride, rows.bytes));
      }
      return ok_status();
    });
  };
  PLIMSOLL_RETURN_IF_ERROR(groups_.run(handle, NcclKind::trades, all, await));
  return each([&](const Way& way, const Rows& rows) {
    return way.is_direct() || way.sends
               ? ok_status()
               : on.copy_rows(rows.data, rows.stride, way.slot, rows.bytes, rows.bytes, rows.count);
  });
}

}  // namespace plimsoll::collectives
