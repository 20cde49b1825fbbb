// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/eviction/range_evictor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/byte_size.h"

namespace plimsoll::memory {
namespace {

// Owners that are no storages: what an operation makes although it is there, and its workspace.
constexpr AddressRange::Owner kWorkspace = -2, kFirstSpare = -3;
// How fast the usual cost per byte follows those of what is placed.
constexpr double kFollow = 1.0 / 16;
// Of what a run has more than was asked for, so much counts: as a multiple of that.
constexpr std::int64_t kUseful = 2;

}  // namespace

// Of all runs of neighbouring blocks that together have room, and of which each is a hole or may
// go, those of the run go that costs least per byte of it, as far as the bytes may be of use: one
// walk with two ends, as Coop's (Zhang et al., "Coop: Memory is not a Commodity", NeurIPS 2023),
// which takes the run of the least cost and leaves small holes behind.
bool RangeEvictor::clear_window(std::int64_t bytes, bool awaited) {
  struct Candidate {
    StorageId storage;
    std::int64_t bytes;
    double score;
  };
  std::vector<Candidate> window, best;
  std::size_t first = 0;
  std::int64_t freed = 0;
  double score = 0, least = std::numeric_limits<double>::infinity();
  for (const auto& [offset, block] : range_.blocks()) {
    Candidate candidate{block.owner, block.bytes, 0};
    if (block.owner != AddressRange::kNobody) {
      const bool may_go = block.owner >= 0 && lineage().storage(block.owner).resident &&
                          lineage().storage(block.owner).pins == 0 &&
                          (awaited || !is_awaited(block.owner));
      candidate.score = may_go ? cost_to_restore(block.owner).seconds() / staleness(block.owner)
                               : std::numeric_limits<double>::infinity();
    }
    if (!std::isfinite(candidate.score)) {
      window.clear();
      first = 0;
      freed = 0;
      score = 0;
      continue;
    }
    window.push_back(candidate);
    freed += candidate.bytes;
    score += candidate.score;
    while (freed - window[first].bytes >= bytes) {
      freed -= window[first].bytes;
      score -= window[first++].score;
    }
    if (freed < bytes) continue;
    const double each = score / static_cast<double>(std::min(freed, kUseful * bytes));
    if (each >= least) continue;
    least = each;
    best.assign(window.begin() + static_cast<std::ptrdiff_t>(first), window.end());
  }
  for (const Candidate& candidate : best) {
    if (candidate.storage != AddressRange::kNobody) evict(candidate.storage);
  }
  return !best.empty();
}

bool RangeEvictor::evict_any() {
  StorageId victim = pick();
  if (victim < 0) victim = pick_awaited();
  if (victim >= 0) evict(victim);
  return victim >= 0;
}

Status RangeEvictor::take(AddressRange::Owner owner, std::int64_t bytes, AddressRange::End end) {
  while (!range_.take(owner, bytes, end)) {
    const bool more = holes_ == Holes::windows
                          ? clear_window(bytes, false) || clear_window(bytes, true)
                          : evict_any();
    if (more) continue;
    return Status(StatusCode::resource_exhausted,
                  "no room for " + format_bytes(bytes) + " side by side between " +
                      format_bytes(lineage().used_bytes()) + " that can't be evicted (limit " +
                      format_bytes(limit()) + ")");
  }
  return ok_status();
}

// What is dear to restore goes to one end, what is cheap to the other, so that cheap blocks have
// cheap neighbours.
AddressRange::End RangeEvictor::end_for(OperationId id, StorageId storage) {
  if (lineage().operation(id).arguments.empty()) return AddressRange::End::low;
  const double cost = std::log2(std::max(cost_to_restore(storage).per_byte(), 1e-30));
  const AddressRange::End end =
      cost < usual_cost_ ? AddressRange::End::high : AddressRange::End::low;
  usual_cost_ += kFollow * (cost - usual_cost_);
  return end;
}

Status RangeEvictor::make_room_for(OperationId id, bool) {
  const Lineage::Operation& operation = lineage().operation(id);
  Status status;
  if (operation.workspace_bytes > 0) {
    status = take(kWorkspace, operation.workspace_bytes, AddressRange::End::high);
  }
  for (std::int32_t i = 0; i < operation.output_count && status.ok(); ++i) {
    const Lineage::Tensor& tensor = lineage().tensor(operation.first_output + i);
    if (tensor.bytes == 0) continue;
    const bool there = lineage().storage(tensor.storage).resident;
    status =
        take(there ? kFirstSpare - i : tensor.storage, tensor.bytes, end_for(id, tensor.storage));
  }
  if (status.ok()) return status;
  for (std::int32_t i = 0; i < operation.output_count; ++i) {
    const StorageId storage = lineage().tensor(operation.first_output + i).storage;
    if (!lineage().storage(storage).resident) range_.give_back(storage);
  }
  placed(id);
  return status;
}

void RangeEvictor::placed(OperationId id) {
  range_.give_back(kWorkspace);
  const Lineage::Operation& operation = lineage().operation(id);
  for (std::int32_t i = 0; i < operation.output_count; ++i) {
    if (!range_.has(kFirstSpare - i)) continue;
    const StorageId storage = lineage().tensor(operation.first_output + i).storage;
    // It may have gone to make room for another.
    if (lineage().storage(storage).resident && !range_.has(storage)) {
      range_.pass_on(kFirstSpare - i, storage);
    } else {
      range_.give_back(kFirstSpare - i);
    }
  }
}

}  // namespace plimsoll::memory
