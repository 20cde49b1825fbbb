// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack/pack_search.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/base/index.h"

// Depth-first search over canonical packings, with propagation.
//
// Example, at height 8, with sections 0, 1, 2:
//   A: sections 0..1, 4 bytes    B: sections 1..2, 3 bytes
//   C: section 0, 2 bytes        D: section 2, 5 bytes
// The loads are 6, 7 and 8, so no packing is lower than 8. All floors are 0, and `left_` (bytes
// still to place) is the load. The fullest section is 2. Say D is placed first, at 0. Section 2 has
// B unplaced, so its floor rises to 5, and with it B's lowest offset, 5 + 3 <= 8. In section 1 the
// least of the lowest offsets is A's, 0: its floor stays, 0 + 7 <= 8. A is placed at 0: the floor
// of section 0 rises to 4, which is C's lowest offset, and that of section 1 to the least of its
// unplaced items, B at 5. C goes to 4, B to 5: height 8. Had D been larger by one byte, B's lowest
// offset would have been 6, 6 + 3 > 8: the decision fails where it was made, not three decisions
// later.
//
// Three kinds of numbers carry this, and each only rises along a branch:
// - lowest_[i]: no offset of unplaced item i is lower, the highest floor over its sections;
// - floor_[s]: nothing that is still to be placed in section s lies lower, the least lowest_ of its
//   unplaced items;
// - floor_[s] + left_[s] is what the section needs at least; above the height the branch is dead.
// A rise in one section lifts items, which may be what held the floor of another section down, and
// so on until nothing changes (propagate). `trail_` remembers every old value, so that going back
// costs what going on did.

namespace plimsoll::planner {
namespace {

// How far the failures of earlier calls may lift a section's load in the ranking, as a part of the
// maximum load.
constexpr double kPressure = 0.3;
constexpr double kFading = 0.9;
// Why a section has to be looked at.
constexpr char kLost = 1, kRaised = 2;

}  // namespace

// A decision that fails says which section was too full. Sections that failed often in earlier
// calls count as fuller (`pressure`), so that what lives there is decided earlier: failing early is
// cheap. This is what restarts learn from one another.
void PackSearch::rank_items(const PackGuide& guide) {
  first_ = guide.first;
  double most = 0;
  for (const double p : guide.pressure) most = std::max(most, p);
  const double scale = most > 0 ? kPressure * static_cast<double>(instance_.max_load) / most : 0.0;
  const std::size_t count = instance_.items.size();
  std::vector<double> load(count, 0.0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& item = instance_.items[i];
    for (auto s = at(item.begin); s < at(item.end); ++s) {
      const double pressure = most > 0 ? scale * guide.pressure[s] : 0.0;
      load[i] = std::max(load[i], static_cast<double>(instance_.load[s]) + pressure);
    }
    work_ += item.end - item.begin;
  }
  const auto value = [&](PackGuide::Key key, std::int32_t i) {
    const auto& item = instance_.item(i);
    const auto size = static_cast<double>(item.size), length = static_cast<double>(item.length);
    switch (key) {
      case PackGuide::Key::load:
        return load[at(i)];
      case PackGuide::Key::length:
        return length;
      case PackGuide::Key::area:
        return size * length;
      case PackGuide::Key::size:
        return size;
      case PackGuide::Key::sections:
        return static_cast<double>(item.end - item.begin);
      case PackGuide::Key::begin:
        return -static_cast<double>(item.begin);
      case PackGuide::Key::end:
        return static_cast<double>(item.end);
    }
    return 0.0;
  };
  std::vector<std::int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    for (const PackGuide::Key key : guide.rank) {
      const double x = value(key, a), y = value(key, b);
      if (x != y) return x > y;
    }
    return false;
  });
  items_.clear();
  size_.clear();
  for (const std::int32_t i : ids) {
    items_.push_back(instance_.item(i));
    size_.push_back(instance_.item(i).size);
    items_.back().lifetime = i;  // here: the item's place in the instance
  }
}

void PackSearch::learn(PackGuide& guide) {
  guide.pressure.resize(failed_.size(), 0.0);
  for (std::size_t s = 0; s < failed_.size(); ++s) {
    guide.pressure[s] = guide.pressure[s] * kFading + static_cast<double>(failed_[s]);
  }
  guide.depth =
      static_cast<double>(depth_) / static_cast<double>(std::max<std::size_t>(items_.size(), 1));
}

void PackSearch::reset(std::int64_t height) {
  const std::size_t sections = instance_.load.size(), count = items_.size();
  height_ = height;
  floor_.assign(sections, 0);
  witness_.assign(sections, 0);
  left_ = instance_.load;
  lowest_.assign(count, 0);
  placed_.assign(count, 0);
  dirty_.assign(sections, 0);
  crossing_.assign(sections, 0);
  count_.assign(sections, 0);
  row_.assign(sections + 1, 0);
  slot_.assign(count + 1, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& item = items_[i];
    slot_[i + 1] = slot_[i] + at(item.end - item.begin);
    for (auto s = at(item.begin); s < at(item.end); ++s) ++row_[s + 1];
    for (auto s = at(item.begin); s + 1 < at(item.end); ++s) ++crossing_[s];
  }
  std::partial_sum(row_.begin(), row_.end(), row_.begin());
  alive_.resize(slot_.back());
  place_.resize(slot_.back());
  for (std::size_t i = 0; i < count; ++i) {
    const auto& item = items_[i];
    for (auto s = at(item.begin); s < at(item.end); ++s) {
      place_[slot_[i] + s - at(item.begin)] = count_[s];
      alive_[at(row_[s] + count_[s]++)] = static_cast<std::int32_t>(i);
    }
  }
  failed_.assign(sections, 0);
  queue_.clear();
  trail_.clear();
  parts_.clear();
  frames_.clear();
  candidates_.clear();
  members_.resize(count);
  std::iota(members_.begin(), members_.end(), 0);
  depth_ = placed_count_ = 0;
  exhausted_ = false;
}

bool PackSearch::raise(std::int32_t section, std::int64_t floor) {
  const auto s = at(section);
  if (floor <= floor_[s]) return true;
  trail_.push_back({Change::Kind::floor, section, floor_[s]});
  floor_[s] = floor;
  if (floor + left_[s] > height_) {
    ++failed_[s];
    return false;
  }
  if (!dirty_[s]) queue_.push_back(section);
  dirty_[s] = kRaised;
  return true;
}

// Floors and lowest offsets rise until, in every section, the floor is the least of the lowest
// offsets of its unplaced items. A section has to be looked at when its floor was raised from
// outside, or when the item that was as low as its floor is not any more.
bool PackSearch::propagate() {
  bool fits = true;
  for (std::size_t head = 0; head < queue_.size(); ++head) {
    const std::int32_t section = queue_[head];
    const auto s = at(section);
    const bool is_raised = dirty_[s] == kRaised;
    dirty_[s] = 0;
    if (!fits || count_[s] == 0) continue;
    const std::int64_t floor = floor_[s];
    std::int64_t least = kFar;
    std::size_t k = at(row_[s]);
    const std::size_t begin = k, end = k + at(count_[s]);
    for (; k < end; ++k) {
      const auto i = at(alive_[k]);
      if (lowest_[i] < floor) {
        if (!lift(alive_[k], floor)) {
          ++failed_[s];
          fits = false;
          break;
        }
      }
      if (lowest_[i] < least) {
        least = lowest_[i];
        witness_[s] = alive_[k];
        if (!is_raised && least == floor) break;
      }
    }
    work_ += static_cast<std::int64_t>(k - begin) + 1;
    if (fits && least > floor) {
      trail_.push_back({Change::Kind::floor, section, floor});
      floor_[s] = least;
      if (least + left_[s] > height_) {
        ++failed_[s];
        fits = false;
      }
    }
  }
  queue_.clear();
  return fits;
}

// Raises the lowest offset of an item; false when it would stand out above the height then.
//
// A section's floor can only change if the item that was lifted was as low as the floor. `witness_`
// names an item that is: as long as the witness is still there, unplaced and as low, another item's
// lift changes nothing, and the section is not looked at. Most lifts end here.
bool PackSearch::lift(std::int32_t id, std::int64_t lowest) {
  const auto i = at(id);
  const std::int64_t old = lowest_[i];
  trail_.push_back({Change::Kind::lowest, id, old});
  lowest_[i] = lowest;
  if (lowest + size_[i] > height_) return false;
  const auto& item = items_[i];
  work_ += item.end - item.begin;
  for (std::int32_t section = item.begin; section < item.end; ++section) {
    const auto s = at(section);
    if (floor_[s] != old || dirty_[s]) continue;
    const auto witness = at(witness_[s]);
    if (witness_[s] != id && !placed_[witness] && lowest_[witness] == old &&
        items_[witness].begin <= section && section < items_[witness].end) {
      continue;
    }
    dirty_[s] = kLost;
    queue_.push_back(section);
  }
  return true;
}

bool PackSearch::place(std::int32_t id, const Part& part) {
  const auto& item = items_[at(id)];
  const std::int64_t offset = lowest_[at(id)];
  trail_.push_back({Change::Kind::placed, id, 0});
  placed_[at(id)] = 1;
  depth_ = std::max(depth_, ++placed_count_);
  work_ += (item.end - item.begin) * 3 + (part.end - part.begin);
  for (std::int32_t section = item.begin; section < item.end; ++section) {
    const auto s = at(section);
    left_[s] -= item.size;
    if (section + 1 < item.end) --crossing_[s];
    // The last of the row takes the item's place, and the item goes behind the end: undone in
    // reverse order, this gives the same row again.
    std::int32_t& mine = place_[slot_[at(id)] + at(section - item.begin)];
    const std::int32_t last = --count_[s];
    const std::int32_t other = alive_[at(row_[s] + last)];
    alive_[at(row_[s] + mine)] = other;
    alive_[at(row_[s] + last)] = id;
    place_[slot_[at(other)] + at(section - items_[at(other)].begin)] = mine;
    mine = last;
  }
  bool fits = true;
  for (std::int32_t s = item.begin; s < item.end && fits; ++s) {
    if (count_[at(s)] > 0) fits = raise(s, offset + item.size);
  }
  // Later offsets are not lower.
  for (std::int32_t s = part.begin; s < part.end && fits; ++s) {
    if (count_[at(s)] > 0) fits = raise(s, offset);
  }
  if (fits) return propagate();
  for (const std::int32_t s : queue_) dirty_[at(s)] = 0;
  queue_.clear();
  return false;
}

void PackSearch::unplace(std::int32_t id) {
  const auto& item = items_[at(id)];
  placed_[at(id)] = 0;
  --placed_count_;
  for (std::int32_t section = item.begin; section < item.end; ++section) {
    const auto s = at(section);
    left_[s] += item.size;
    if (section + 1 < item.end) ++crossing_[s];
    ++count_[s];
  }
}

void PackSearch::undo(std::size_t mark) {
  work_ += static_cast<std::int64_t>(trail_.size() - mark);
  while (trail_.size() > mark) {
    const Change& change = trail_.back();
    switch (change.kind) {
      case Change::Kind::floor:
        floor_[at(change.index)] = change.old;
        break;
      case Change::Kind::lowest:
        lowest_[at(change.index)] = change.old;
        break;
      case Change::Kind::placed:
        unplace(change.index);
        break;
    }
    trail_.pop_back();
  }
}

bool PackSearch::has_something_above(std::int32_t id) const {
  const auto& item = items_[at(id)];
  for (std::int32_t s = item.begin; s < item.end; ++s) {
    if (count_[at(s)] > 1) return true;
  }
  return false;
}

// Pushes a frame with the items that may come next in a part.
//
// Canonical packings are built by rising offsets. Whatever comes next therefore lies at its lowest
// offset, and an item whose lowest offset is at or above the `lid` (the lowest top that some
// unplaced item could have) cannot come next: that other item would fit wholly below it, so that
// some canonical packing places it first.
void PackSearch::open(std::int32_t index) {
  const Part part = parts_[at(index)];
  Frame frame{part, trail_.size(), members_.size(), parts_.size(), 0, 0, -1};
  frame.first_candidate = candidates_.size();
  std::int64_t lid = kFar;  // whatever starts at or above it has room for another one below
  for (auto k = part.first_member; k < part.last_member; ++k) {
    const auto i = at(members_[k]);
    lid = std::min(lid, lowest_[i] + size_[i]);
  }
  work_ += static_cast<std::int64_t>(part.last_member - part.first_member) * 2;
  for (auto k = part.first_member; k < part.last_member; ++k) {
    const std::int32_t id = members_[k];
    const std::int64_t lowest = lowest_[at(id)];
    if (lowest >= lid || lowest < part.last) continue;
    Candidate candidate{first_ == PackGuide::First::rank ? 0 : lowest, 0, id};
    if (first_ == PackGuide::First::lowest_then_tightest) {
      candidate.tightness = kFar;
      const auto& item = items_[at(id)];
      for (auto s = at(item.begin); s < at(item.end); ++s) {
        candidate.tightness = std::min(candidate.tightness, height_ - floor_[s] - left_[s]);
      }
      work_ += item.end - item.begin;
    }
    candidates_.push_back(candidate);
  }
  std::make_heap(candidates_.begin() + static_cast<std::ptrdiff_t>(frame.first_candidate),
                 candidates_.end());
  frame.last_candidate = candidates_.size();
  frames_.push_back(frame);
}

// The parts that placing `id` leaves of its frame's part; the first of them, or what comes next.
//
// Where no unplaced item crosses from one section to the next, the two sides have nothing to do
// with each other any more: a packing of the left is right for every packing of the right.
// Searching them one by one makes the work a sum instead of a product.
std::int32_t PackSearch::split(std::int32_t id, std::int32_t frame_index) {
  const Part part = frames_[at(frame_index)].part;
  const auto& item = items_[at(id)];
  const std::int64_t last = lowest_[at(id)];
  std::vector<std::int32_t> bounds{part.begin};
  for (std::int32_t s = item.begin; s + 1 < item.end; ++s) {
    if (crossing_[at(s)] == 0) bounds.push_back(s + 1);
  }
  bounds.push_back(part.end);
  struct Piece {
    std::int64_t slack;
    std::int32_t begin, end;
    std::vector<std::int32_t> members;
  };
  std::vector<Piece> pieces;
  for (std::size_t b = 0; b + 1 < bounds.size(); ++b) {
    Piece piece{kFar, bounds[b], bounds[b + 1], {}};
    bool is_empty = true;
    if (bounds.size() > 2) {
      for (auto s = at(piece.begin); s < at(piece.end); ++s) {
        if (count_[s] == 0) continue;
        is_empty = false;
        piece.slack = std::min(piece.slack, height_ - floor_[s] - left_[s]);
      }
    }
    if (bounds.size() == 2 || !is_empty) pieces.push_back(std::move(piece));
  }
  // The tightest is the likeliest to fail.
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.slack != b.slack ? a.slack < b.slack : a.begin < b.begin;
  });
  std::int32_t next = part.next;
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    Part made{piece->begin, piece->end, frame_index, next, last, members_.size(), 0};
    for (auto k = part.first_member; k < part.last_member; ++k) {
      const std::int32_t member = members_[k];
      const auto& other = items_[at(member)];
      if (member == id || other.begin < made.begin || other.end > made.end) continue;
      members_.push_back(member);
    }
    work_ += static_cast<std::int64_t>(part.last_member - part.first_member);
    made.last_member = members_.size();
    if (made.first_member == made.last_member) continue;
    next = static_cast<std::int32_t>(parts_.size());
    parts_.push_back(made);
  }
  return next;
}

// Takes the next decision of the youngest frame that can still change what failed. False when no
// frame can.
//
// Backjumping: when all candidates of a frame have failed, the reason lies in decisions that share
// sections with its part, so the search goes back to the frame that made the part (`parent`), past
// those that only solved its siblings.
bool PackSearch::advance(std::int32_t& next_part) {
  while (!frames_.empty()) {
    const auto index = static_cast<std::int32_t>(frames_.size()) - 1;
    Frame& frame = frames_.back();
    undo(frame.trail);
    members_.resize(frame.members);
    parts_.resize(frame.parts);
    candidates_.resize(frame.last_candidate);
    // What has nothing above it takes no room from anyone: to place it otherwise changes nothing.
    const bool is_last = frame.tried >= 0 && !has_something_above(frame.tried);
    if (is_last || frame.first_candidate == frame.last_candidate) {
      // Parts solved since that decision have no share in the failure.
      frames_.resize(at(frame.part.parent + 1));
      continue;
    }
    std::pop_heap(candidates_.begin() + static_cast<std::ptrdiff_t>(frame.first_candidate),
                  candidates_.begin() + static_cast<std::ptrdiff_t>(frame.last_candidate));
    const std::int32_t id = frame.tried = candidates_[--frame.last_candidate].item;
    if (!place(id, frame.part)) {
      ++failures_;
      continue;
    }
    next_part = split(id, index);
    return true;
  }
  return false;
}

std::optional<PackSolution> PackSearch::run(PackGuide& guide, std::int64_t height,
                                            std::int64_t failures, PackBudget& budget) {
  exhausted_ = height < instance_.max_load;
  if (exhausted_) return std::nullopt;
  work_ = failures_ = 0;
  rank_items(guide);
  reset(height);
  std::int32_t next = -1;
  if (!items_.empty()) {
    parts_.push_back({0, instance_.sections(), -1, -1, 0, 0, items_.size()});
    next = 0;
  }
  while (next >= 0) {
    budget.spend(work_);
    work_ = 0;
    if (failures_ > failures || budget.over()) {
      learn(guide);
      return std::nullopt;
    }
    open(next);
    if (!advance(next)) {
      exhausted_ = true;
      return std::nullopt;
    }
  }
  guide.depth = 1;
  PackSolution solution;
  solution.offsets.assign(items_.size(), 0);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    solution.offsets[at(items_[i].lifetime)] = lowest_[i];
    solution.height = std::max(solution.height, lowest_[i] + items_[i].size);
  }
  return solution;
}

}  // namespace plimsoll::planner
