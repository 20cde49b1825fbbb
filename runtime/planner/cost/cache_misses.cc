// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/cache_misses.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <tuple>

// How much of what a step touches has to come from memory. Plans of the same program differ in
// that: where a plan recomputes, or reuses an address soon, bytes are still in the last cache; and
// a kernel measured under one plan would be mispriced in another if its time were taken as it was.
//
// The model is one cache that forgets the least recently used, in blocks of a 1024th of its size (a
// power of two). Every step touches its inputs, its outputs and its workspace, from first to last
// byte. The plan is run twice and the second run counts: programs run again and again, and what the
// end leaves in the cache is what the beginning finds.
//
// Example: a cache of 4 MB; three steps that write a (2 MB), read a and write b (2 MB), read b and
// write c (2 MB) in a plan where c takes a's place. The whole plan touches 4 MB of addresses: after
// the first run nothing misses. If c had an address of its own there were 6 MB in a ring, the worst
// case of this rule: every touch but the re-reads of a and b misses, 6 MB a run. So packing tightly
// is worth time as well.

namespace plimsoll::planner {
namespace {

// Blocks in the order of their last touch: a ring through a sentinel, most recent first.
class RecentBlocks {
 public:
  RecentBlocks(std::size_t blocks, std::size_t capacity)
      : before_(blocks + 1), after_(blocks + 1), kept_(blocks, false), capacity_(capacity) {
    before_[blocks] = after_[blocks] = static_cast<std::uint32_t>(blocks);
  }
  // True when it was kept.
  bool touch(std::uint32_t block) {
    const bool hit = kept_[block];
    if (hit) {
      unlink(block);
    } else {
      kept_[block] = true;
      if (++used_ > capacity_) drop_oldest();
    }
    const auto end = static_cast<std::uint32_t>(kept_.size());
    before_[block] = end;
    after_[block] = after_[end];
    before_[after_[end]] = block;
    after_[end] = block;
    return hit;
  }

 private:
  void unlink(std::uint32_t block) {
    after_[before_[block]] = after_[block];
    before_[after_[block]] = before_[block];
  }
  void drop_oldest() {
    const std::uint32_t oldest = before_[kept_.size()];
    unlink(oldest);
    kept_[oldest] = false;
    --used_;
  }

  std::vector<std::uint32_t> before_, after_;
  std::vector<bool> kept_;
  const std::size_t capacity_;
  std::size_t used_ = 0;
};

// Where each buffer lies in one line of addresses: the arena, then every other buffer by itself.
//
// Only the plan's own offsets are known before it runs. Buffers of the caller (parameters, results,
// constants) get addresses behind the arena, each its own; what is the same parameter or constant
// is the same place.
class Addresses {
 public:
  explicit Addresses(const Plan& plan) : first_(plan.buffers.size(), 0) {
    std::int64_t end = plan.arena_bytes;
    std::map<std::tuple<Placement, int, const ir::Instruction*, int>, std::int64_t> known;
    PerTier<std::int64_t> tiers = for_each_tier(std::int64_t{-1});
    for (const BufferId b : plan.buffers.ids()) {
      const Buffer& buffer = plan.buffers[b];
      const auto within = [&](std::int64_t& base, std::int64_t bytes) {
        if (base < 0) {
          base = end;
          end += bytes;
        }
        return base + buffer.offset;
      };
      switch (buffer.placement) {
        case Placement::arena:
          first_[b] = buffer.offset;
          break;
        case Placement::lent:  // below: where the result will be
          break;
        default: {
          if (is_tier(buffer.placement)) {
            const MemorySpace tier = space_of(buffer.placement);
            first_[b] = within(tiers[tier], plan.tier_bytes[tier]);
            break;
          }
          const bool constant = buffer.placement == Placement::constant;
          const auto [it, inserted] =
              known.try_emplace({buffer.placement, constant ? 0 : buffer.index,
                                 constant ? buffer.source : nullptr, constant ? buffer.leaf : 0},
                                end);
          if (inserted) end += buffer.bytes;
          first_[b] = it->second;
        }
      }
    }
    end_ = end;
    for (const BufferId b : plan.buffers.ids()) {
      const Buffer& buffer = plan.buffers[b];
      if (buffer.placement != Placement::lent) continue;
      const auto result = known.find({Placement::output, buffer.index, nullptr, 0});
      if (result != known.end()) first_[b] = result->second + buffer.offset;
    }
  }
  std::int64_t first(BufferId buffer) const { return first_[buffer]; }
  std::int64_t end() const { return end_; }

 private:
  IdVector<BufferId, std::int64_t> first_;
  std::int64_t end_ = 0;
};

}  // namespace

IdVector<StepId, double> missed_bytes(const Plan& plan, double cache_bytes) {
  IdVector<StepId, double> missed(plan.steps.size(), 0);
  constexpr double kBlocks = 1024;
  if (!(cache_bytes >= kBlocks)) return missed;
  const auto block_bytes =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(cache_bytes / kBlocks)));
  const Addresses addresses(plan);
  const auto blocks = static_cast<std::size_t>(addresses.end() / block_bytes + 2);
  RecentBlocks cache(blocks,
                     static_cast<std::size_t>(cache_bytes) / static_cast<std::size_t>(block_bytes));
  const auto touch = [&](BufferId b) {
    if (b < 0) return 0.0;
    const std::int64_t first = addresses.first(b), end = first + plan.buffers[b].bytes;
    std::int64_t bytes = 0;
    for (std::int64_t block = first / block_bytes; block * block_bytes < end; ++block) {
      const std::int64_t from = std::max(first, block * block_bytes);
      const std::int64_t to = std::min(end, (block + 1) * block_bytes);
      if (!cache.touch(static_cast<std::uint32_t>(block))) bytes += to - from;
    }
    return static_cast<double>(bytes);
  };
  for (const bool counts : {false, true}) {
    for (const StepId t : plan.steps.ids()) {
      const Step& step = plan.steps[t];
      if (step.kind == StepKind::free) continue;
      double bytes = 0;
      for (const BufferId id : step.inputs) bytes += touch(id);
      for (const BufferId id : step.outputs) bytes += touch(id);
      bytes += touch(step.workspace);
      if (counts) missed[t] = bytes;
    }
  }
  return missed;
}

}  // namespace plimsoll::planner
