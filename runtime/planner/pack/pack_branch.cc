// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack/pack_branch.h"

#include <algorithm>
#include <limits>

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

constexpr std::int32_t kNoPart = -1, kNothingLeft = -2;
// What fades from run to run of what a section's failures count.
constexpr double kTroubleKept = 0.7;

}  // namespace

void PackBranch::rank_items() {
  using Item = PackBranchGuide::Item;
  rank_.clear();
  for (const auto& item : instance_.items) {
    const auto size = static_cast<double>(item.size), length = static_cast<double>(item.length);
    switch (guide_.item) {
      case Item::area:
        rank_.push_back(size * length);
        break;
      case Item::length:
      case Item::lowest_then_length:
        rank_.push_back(length);
        break;
      case Item::sections:
        rank_.push_back(item.end - item.begin);
        break;
    }
  }
}

// The lowest comes first.
double PackBranch::urgency(std::int32_t section) {
  if (guide_.section == PackBranchGuide::Section::floor) {
    return static_cast<double>(inference_.floor(section));
  }
  return inference_.next(section).firsts / guide_.trouble[at(section)];
}

std::int32_t PackBranch::choose_section(const Part& part) {
  std::int32_t chosen = -1;
  double least = std::numeric_limits<double>::max();
  for (std::int32_t s = part.begin; s < part.end; ++s) {
    if (inference_.unplaced(s).empty()) continue;
    const double value = urgency(s);
    if (value >= least && chosen >= 0) continue;
    least = value;
    chosen = s;
  }
  return chosen;
}

std::int32_t PackBranch::choose_item(std::int32_t section) {
  const bool lowest_first = guide_.section == PackBranchGuide::Section::floor ||
                            guide_.item == PackBranchGuide::Item::lowest_then_length;
  std::int32_t chosen = -1;
  const auto comes_before = [&](std::int32_t a, std::int32_t b) {
    if (b < 0) return true;
    const std::int64_t x = inference_.lowest(a), y = inference_.lowest(b);
    if (lowest_first && x != y) return x < y;
    return rank_[at(a)] != rank_[at(b)] ? rank_[at(a)] > rank_[at(b)] : a < b;
  };
  for (const std::int32_t id : inference_.unplaced(section)) {
    if (inference_.lowest(id) > inference_.limit(section)) continue;
    if (comes_before(id, chosen)) chosen = id;
  }
  return chosen;
}

// Of the unplaced items that could lie wholly below the item, the one with the lowest top; -1: none
// could.
std::int32_t PackBranch::blocker(std::int32_t id) {
  const auto& item = instance_.item(id);
  std::int64_t lid = inference_.lowest(id) + 1;
  std::int32_t section = -1;
  for (std::int32_t s = item.begin; s < item.end; ++s) {
    if (inference_.next(s).lid >= lid) continue;
    lid = inference_.next(s).lid;
    section = s;
  }
  std::int32_t lowest = -1;
  if (section < 0) return lowest;
  for (const std::int32_t other : inference_.unplaced(section)) {
    const bool is_lid = inference_.lowest(other) + inference_.size(other) == lid;
    if (is_lid && (lowest < 0 || other < lowest)) lowest = other;
  }
  return lowest;
}

// An item that is lowest among its neighbours: each step down has a lower top than the last.
std::int32_t PackBranch::choose(const Part& part) {
  std::int32_t chosen = choose_item(choose_section(part));
  for (std::int32_t below = chosen; below >= 0; below = blocker(chosen)) chosen = below;
  return chosen;
}

// Places an item; what comes next: a part, kNoPart at the end, kNothingLeft when all is refuted.
std::int32_t PackBranch::decide(std::int32_t part) {
  const std::int32_t id = choose(parts_[at(part)]);
  frames_.push_back({part, id, inference_.mark(), parts_.size()});
  return inference_.place(id) ? split(id, part) : refute();
}

// The parts that placing an item leaves of its part; the first of them, or what comes next.
std::int32_t PackBranch::split(std::int32_t id, std::int32_t index) {
  struct Piece {
    std::int64_t slack;
    std::int32_t begin, end;
  };
  const Part part = parts_[at(index)];
  const auto& item = instance_.item(id);
  std::vector<Piece> pieces{{kFar, part.begin, part.begin}};
  for (std::int32_t s = part.begin; s < part.end; ++s) {
    Piece& piece = pieces.back();
    piece.end = s + 1;
    if (!inference_.unplaced(s).empty()) {
      piece.slack = std::min(piece.slack, inference_.limit(s) - inference_.floor(s));
    }
    const bool is_cut = s >= item.begin && s + 1 < item.end && inference_.crossing(s) == 0;
    if (is_cut) pieces.push_back({kFar, s + 1, s + 1});
  }
  // The tightest is the likeliest to fail.
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.slack != b.slack ? a.slack < b.slack : a.begin < b.begin;
  });
  const auto parent = static_cast<std::int32_t>(frames_.size()) - 1;
  std::int32_t next = part.next;
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    if (piece->slack == kFar) continue;
    parts_.push_back({piece->begin, piece->end, parent, next});
    next = static_cast<std::int32_t>(parts_.size()) - 1;
  }
  return next;
}

// Goes back to the youngest decision that the contradiction depends on and takes the other side of
// it; if that fails too, to the decision that made its part, past those that only filled siblings.
std::int32_t PackBranch::refute() {
  while (!frames_.empty()) {
    ++failures_;
    guide_.trouble[at(inference_.failed_section())] += 1;
    const Frame frame = frames_.back();
    frames_.pop_back();
    inference_.undo(frame.mark);
    parts_.resize(frame.parts);
    if (inference_.exclude(frame.item)) return frame.part;
    frames_.resize(at(parts_[at(frame.part)].parent + 1));
  }
  return kNothingLeft;
}

void PackBranch::learn(PackBranchGuide& guide) const {
  guide.trouble = guide_.trouble;
  for (double& trouble : guide.trouble) trouble = 1 + (trouble - 1) * kTroubleKept;
}

std::optional<PackSolution> PackBranch::run(PackBranchGuide& guide, std::int64_t height,
                                            std::int64_t failures, PackBudget& budget) {
  guide.trouble.resize(instance_.load.size(), 1);
  guide_ = guide;
  height_ = height;
  failures_ = 0;
  rank_items();
  frames_.clear();
  parts_.assign(1, {0, instance_.sections(), -1, kNoPart});
  exhausted_ = !inference_.reset(height);
  std::int32_t part = exhausted_ ? kNothingLeft : instance_.items.empty() ? kNoPart : 0;
  while (part >= 0) {
    budget.spend(inference_.take_work() + parts_[at(part)].end - parts_[at(part)].begin);
    if (failures_ > failures || budget.over()) {
      learn(guide);
      return std::nullopt;
    }
    part = decide(part);
  }
  exhausted_ = part == kNothingLeft;
  if (exhausted_) return std::nullopt;
  PackSolution solution{inference_.offsets(), 0};
  for (std::size_t i = 0; i < solution.offsets.size(); ++i) {
    solution.height = std::max(solution.height, solution.offsets[i] + instance_.items[i].size);
  }
  return solution;
}

}  // namespace plimsoll::planner
