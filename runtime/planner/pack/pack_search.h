// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/planner/pack/pack_instance.h"

namespace plimsoll::planner {

// In which order a search tries the buffers that may come next, and what it learnt from failures.
struct PackGuide {
  enum class First { lowest, rank, lowest_then_tightest };
  // Larger values come first, but for `begin`; the keys are compared one after the other. `load`
  // is the fullest section of the life, `area` bytes x time.
  enum class Key { load, length, area, size, sections, begin, end };

  First first = First::lowest;
  std::vector<Key> rank;

  // Per section, how often decisions failed there, fading with every search: buffers that live
  // there count as living in a fuller section.
  std::vector<double> pressure;
  // The part of the buffers that the last search had placed at once at best.
  double depth = 0;
};

// Depth-first search for a packing of at most a given height. Every packing can be pushed down
// until each buffer rests on another or on the ground, and then be built by placing buffers in
// order of rising offsets, each on the highest one below it: only those *canonical* packings are
// looked at. (The canonical form, dominance and inference on sections are those of MiniMalloc,
// Moffitt, ASPLOS 2023; decisions are ordered, restarted and undone otherwise.)
//
// A decision is cut off when
// - a section's floor plus the bytes that are still to be placed in it exceed the height. The floor
//   is the lowest offset any of its unplaced buffers can have, which in turn is the highest floor
//   over the buffer's life: both rise until nothing changes;
// - another unplaced buffer would fit wholly below the one to be placed.
// Where no unplaced buffer crosses a time step, the two sides are searched one by one.
class PackSearch {
 public:
  explicit PackSearch(const PackInstance& instance) : instance_(instance) {}

  // Nothing when there is no such packing (`exhausted()`), or when it would take more than
  // `failures` decisions that had to be undone, or more than the budget. The guide learns.
  std::optional<PackSolution> run(PackGuide& guide, std::int64_t height, std::int64_t failures,
                                  PackBudget& budget);
  bool exhausted() const { return exhausted_; }

 private:
  struct Part {  // sections to fill that share no unplaced buffer with the rest
    std::int32_t begin, end;
    std::int32_t parent;  // the frame whose decision made it
    std::int32_t next;    // the part to fill after this one
    std::int64_t last;    // offsets do not fall below it
    std::size_t first_member, last_member;
  };
  struct Frame {
    Part part;
    std::size_t trail, members, parts;            // sizes to go back to
    std::size_t first_candidate, last_candidate;  // a heap of those left
    std::int32_t tried;                           // the last one that was taken from it
  };
  struct Candidate {
    std::int64_t key, tightness;
    std::int32_t item;
    // In heaps, what comes first is the largest.
    bool operator<(const Candidate& other) const {
      if (key != other.key) return key > other.key;
      if (tightness != other.tightness) return tightness > other.tightness;
      return item > other.item;
    }
  };
  struct Change {
    enum class Kind : std::int32_t { floor, lowest, placed } kind;
    std::int32_t index;
    std::int64_t old;
  };

  void rank_items(const PackGuide& guide);
  void learn(PackGuide& guide);
  void reset(std::int64_t height);
  void open(std::int32_t part);
  bool advance(std::int32_t& next_part);
  bool place(std::int32_t item, const Part& part);
  bool raise(std::int32_t section, std::int64_t floor);
  bool propagate();
  bool lift(std::int32_t item, std::int64_t lowest);
  void undo(std::size_t mark);
  void unplace(std::int32_t item);
  bool has_something_above(std::int32_t item) const;
  std::int32_t split(std::int32_t item, std::int32_t frame);

  const PackInstance& instance_;
  PackGuide::First first_ = PackGuide::First::lowest;
  std::vector<std::int64_t> failed_;       // per section, in this run
  std::vector<PackInstance::Item> items_;  // by rank

  std::int64_t height_ = 0, work_ = 0, failures_ = 0;
  std::vector<std::int64_t> floor_, left_;         // per section
  std::vector<std::int32_t> row_, alive_, count_;  // per section: its unplaced items
  std::vector<std::int64_t> size_;                 // per item
  std::vector<std::int32_t> witness_;   // per section, an item that may be as low as the floor
  std::vector<std::int64_t> lowest_;    // per item, the lowest offset it can have
  std::vector<std::size_t> slot_;       // per item, its first entry of place_
  std::vector<std::int32_t> place_;     // per item and section, index in the row
  std::vector<std::int32_t> crossing_;  // per section, unplaced items that outlive it
  std::vector<char> placed_, dirty_;
  std::vector<std::int32_t> queue_, members_;
  std::vector<Change> trail_;
  std::vector<Part> parts_;
  std::vector<Frame> frames_;
  std::vector<Candidate> candidates_;
  std::int32_t depth_ = 0, placed_count_ = 0;
  bool exhausted_ = false;
};

}  // namespace plimsoll::planner
