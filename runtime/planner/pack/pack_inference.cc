// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack/pack_inference.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "runtime/base/index.h"

// Every packing can be pushed down until each buffer rests on another one or on the ground: it is
// *canonical* then, and not higher. What is inferred here holds for all canonical packings of at
// most the height that agree with the decisions.
//
// Decisions. Say X is lowest among its neighbours: lowest(Y) + size(Y) > lowest(X) for all unplaced
// Y that meet it. If X lies at its lowest offset, no such Y can be below, so all of them lie above
// X: the sections of X are filled up to its top, though elsewhere lower buffers may still come. If
// X lies higher, it rests on one of them, so that its offset is at least the least of
// lowest(Y) + size(Y). Every canonical packing is on exactly one side.
//
// One section is a machine that does one job after the other: jobs take as long as buffers are
// large, none begins before its lowest offset, and all must have ended at the height. Let the
// unplaced buffers of a section be sorted by lowest offset, l(0) <= l(1) <= ..., and let rest(k) be
// the bytes of those from k on. Then for each k
// - these begin at l(k) or later, so l(k) + rest(k) must not exceed the height;
// - whichever of them is the first begins at height - rest(k) or lower. Those whose lowest offset
//   is higher than that are not the first, but lie above the first: at or above the least top of
//   those that can be it.
//
// Example, at height 10: A of 4 bytes from 0 on, B of 3 from 1 on, C of 2 from 3 on. All need 9 of
// 10 bytes, so the first begins at 0 or 1: A or B. C is above one of them, at min(0 + 4, 1 + 3) = 4
// or higher. Had C 4 bytes, then B and C from 1 on would do, and all need 11 bytes: a
// contradiction.
namespace plimsoll::planner {

PackInference::PackInference(const PackInstance& instance) : instance_(instance) {
  const std::size_t sections = instance.load.size();
  first_.assign(sections + 1, 0);
  for (const auto& item : instance.items) {
    for (auto s = at(item.begin); s < at(item.end); ++s) ++first_[s + 1];
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  row_.resize(at(first_.back()));
  find_twins();
}

// Equal buffers may be exchanged, so that they need to be looked at in one order only.
void PackInference::find_twins() {
  const auto key = [&](std::int32_t i) {
    const auto& item = instance_.item(i);
    return std::tuple(item.begin, item.end, item.size);
  };
  std::vector<std::int32_t> ids(instance_.items.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    return std::tuple(key(a), a) < std::tuple(key(b), b);
  });
  twin_.assign(ids.size(), -1);
  for (std::size_t k = 1; k < ids.size(); ++k) {
    if (key(ids[k - 1]) == key(ids[k])) twin_[at(ids[k - 1])] = ids[k];
  }
}

bool PackInference::reset(std::int64_t height) {
  const std::size_t sections = instance_.load.size(), items = instance_.items.size();
  height_ = height;
  left_ = instance_.load;
  floor_.assign(sections, 0);
  lowest_.assign(items, 0);
  count_.assign(sections, 0);
  crossing_.assign(sections, 0);
  next_.assign(sections, {});
  is_known_.assign(sections, 0);
  is_queued_.assign(sections, 0);
  queue_.clear();
  trail_.clear();
  for (std::size_t i = 0; i < items; ++i) {
    const auto& item = instance_.items[i];
    for (auto s = at(item.begin); s < at(item.end); ++s) {
      row_[at(first_[s] + count_[s]++)] = static_cast<std::int32_t>(i);
      if (s + 1 < at(item.end)) ++crossing_[s];
    }
  }
  bool fits = true;
  for (std::int32_t s = 0; s < instance_.sections(); ++s) touch(s);
  for (std::size_t i = 0; i < items && fits; ++i) {
    if (twin_[i] >= 0) fits = lift(twin_[i], lowest_[i] + instance_.items[i].size);
  }
  return propagate() && fits;
}

void PackInference::touch(std::int32_t section) {
  is_known_[at(section)] = 0;
  if (is_queued_[at(section)]) return;
  is_queued_[at(section)] = 1;
  queue_.push_back(section);
}

bool PackInference::fail(std::int32_t section) {
  failed_ = section;
  return false;
}

// Raises the lowest offset of an item, and of its twins; false when one would stand out above the
// height then.
bool PackInference::lift(std::int32_t id, std::int64_t lowest) {
  for (; id >= 0 && lowest > lowest_[at(id)]; id = twin_[at(id)]) {
    const auto& item = instance_.item(id);
    trail_.push_back({Change::Kind::lowest, id, lowest_[at(id)]});
    lowest_[at(id)] = lowest;
    work_ += 8 + (item.end - item.begin) * 2;
    for (std::int32_t s = item.begin; s < item.end; ++s) touch(s);
    lowest += item.size;
    if (lowest > height_) return fail(item.begin);
  }
  return true;
}

bool PackInference::propagate() {
  bool fits = true;
  for (std::size_t head = 0; head < queue_.size(); ++head) {
    const std::int32_t section = queue_[head];
    is_queued_[at(section)] = 0;
    if (fits) fits = infer(section);
  }
  queue_.clear();
  return fits;
}

// Lowest offsets of the row, sorted; rows stay as they are sorted, so that little is to do the next
// time.
void PackInference::sort_row(std::int32_t section) {
  std::int32_t* row = row_.data() + first_[at(section)];
  const auto count = at(count_[at(section)]);
  sorted_.resize(count);
  for (std::size_t k = 0; k < count; ++k) {
    const std::pair entry{lowest_[at(row[k])], row[k]};
    std::size_t to = k;
    for (; to > 0 && sorted_[to - 1].first > entry.first; --to) {
      sorted_[to] = sorted_[to - 1];
      ++work_;
    }
    sorted_[to] = entry;
  }
  for (std::size_t k = 0; k < count; ++k) row[k] = sorted_[k].second;
  work_ += static_cast<std::int64_t>(count) * 3 + 5;
}

bool PackInference::infer(std::int32_t section) {
  const auto s = at(section);
  if (count_[s] == 0) return true;
  sort_row(section);
  for (auto& [lowest, id] : sorted_) {
    if (lowest >= floor_[s]) break;
    lowest = floor_[s];
    if (!lift(id, lowest)) return fail(section);
  }
  if (sorted_[0].first > floor_[s]) {
    trail_.push_back({Change::Kind::floor, section, floor_[s]});
    floor_[s] = sorted_[0].first;
  }
  return infer_order(section);
}

bool PackInference::infer_order(std::int32_t section) {
  const std::size_t count = sorted_.size();
  std::int64_t limit = height_ - left_[at(section)];  // of the first from k on
  std::size_t behind = 0;                             // the first that begins above the limit
  for (std::size_t k = 0; k < count; ++k) {
    const auto [lowest, id] = sorted_[k];
    if (lowest > limit) return fail(section);
    while (behind < count && sorted_[behind].first <= limit) ++behind;
    if (behind < count) {
      std::int64_t top = kFar;
      for (std::size_t j = k; j < behind; ++j) {
        top = std::min(top, sorted_[j].first + size(sorted_[j].second));
      }
      work_ += static_cast<std::int64_t>(behind - k);
      for (std::size_t j = behind; j < count && sorted_[j].first < top; ++j) {
        if (!lift(sorted_[j].second, top)) return fail(section);
      }
    }
    limit += size(id);
  }
  work_ += static_cast<std::int64_t>(count) * 2;
  return true;
}

bool PackInference::place(std::int32_t id) {
  const auto& item = instance_.item(id);
  const std::int64_t top = lowest_[at(id)] + item.size;
  trail_.push_back({Change::Kind::placed, id, 0});
  for (std::int32_t section = item.begin; section < item.end; ++section) {
    const auto s = at(section);
    left_[s] -= item.size;
    if (section + 1 < item.end) --crossing_[s];
    remove(id, section);
    if (count_[s] > 0 && top > floor_[s]) {
      trail_.push_back({Change::Kind::floor, section, floor_[s]});
      floor_[s] = top;
    }
    touch(section);
  }
  return propagate();
}

// What was removed from a row stands behind its end, the latest first.
void PackInference::remove(std::int32_t id, std::int32_t section) {
  std::int32_t* row = row_.data() + first_[at(section)];
  std::int32_t* end = row + count_[at(section)];
  std::int32_t* mine = std::find(row, end, id);
  work_ += (mine - row) / 4 + 8;
  std::rotate(mine, mine + 1, end);
  --count_[at(section)];
}

void PackInference::unplace(std::int32_t id) {
  const auto& item = instance_.item(id);
  for (std::int32_t section = item.begin; section < item.end; ++section) {
    const auto s = at(section);
    left_[s] += item.size;
    if (section + 1 < item.end) ++crossing_[s];
    ++count_[s];
    is_known_[s] = 0;
  }
}

bool PackInference::exclude(std::int32_t id) {
  const auto& item = instance_.item(id);
  std::int64_t top = kFar;
  for (std::int32_t section = item.begin; section < item.end; ++section) {
    for (const std::int32_t other : unplaced(section)) {
      if (other != id) top = std::min(top, lowest_[at(other)] + size(other));
    }
    work_ += count_[at(section)];
  }
  if (top > height_ - item.size) return fail(item.begin + (item.end - item.begin) / 2);
  const bool fits = lift(id, top);
  return propagate() && fits;
}

void PackInference::undo(std::size_t mark) {
  work_ += static_cast<std::int64_t>(trail_.size() - mark) * 4;
  for (; trail_.size() > mark; trail_.pop_back()) {
    const Change& change = trail_.back();
    if (change.kind == Change::Kind::floor) {
      floor_[at(change.index)] = change.old;
    } else if (change.kind == Change::Kind::placed) {
      unplace(change.index);
    } else {
      lowest_[at(change.index)] = change.old;
      const auto& item = instance_.item(change.index);
      for (auto s = at(item.begin); s < at(item.end); ++s) is_known_[s] = 0;
    }
  }
}

const PackInference::Next& PackInference::next(std::int32_t section) {
  Next& next = next_[at(section)];
  if (is_known_[at(section)]) return next;
  is_known_[at(section)] = 1;
  next = {};
  for (const std::int32_t id : unplaced(section)) {
    next.firsts += lowest_[at(id)] <= limit(section) ? 1 : 0;
    next.lid = std::min(next.lid, lowest_[at(id)] + size(id));
  }
  work_ += count_[at(section)];
  return next;
}

}  // namespace plimsoll::planner
