// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/planner/pack/pack_instance.h"

namespace plimsoll::planner {

// What follows from decisions about a packing of at most a given height: lowest offsets of buffers,
// which rise until nothing changes, or a contradiction. Decisions are taken back in the reverse
// order. pack_inference.cc derives the rules.
//
// A buffer is *lowest among its neighbours* when no other unplaced buffer that it meets could lie
// wholly below it. Such a one may be decided in two ways that exclude each other: it lies at its
// lowest offset (`place`), or it doesn't (`exclude`).
class PackInference {
 public:
  explicit PackInference(const PackInstance& instance);

  // What a section asks of its next buffer.
  struct Next {
    std::int32_t firsts = 0;  // unplaced buffers that can be the lowest one of those to come
    std::int64_t lid = kFar;  // the lowest top of an unplaced buffer
  };

  // No decisions. These three are false when there is no such packing.
  bool reset(std::int64_t height);
  bool place(std::int32_t item);
  bool exclude(std::int32_t item);

  std::size_t mark() const { return trail_.size(); }
  void undo(std::size_t mark);

  std::int64_t lowest(std::int32_t item) const { return lowest_[at(item)]; }
  std::int64_t size(std::int32_t item) const { return instance_.item(item).size; }
  const std::vector<std::int64_t>& offsets() const { return lowest_; }
  // Of a section: its unplaced buffers, where the next one begins at the lowest and at the highest,
  // and how many unplaced buffers live on behind it.
  std::span<const std::int32_t> unplaced(std::int32_t section) const {
    return {row_.data() + first_[at(section)], at(count_[at(section)])};
  }
  std::int64_t floor(std::int32_t section) const { return floor_[at(section)]; }
  std::int64_t limit(std::int32_t section) const { return height_ - left_[at(section)]; }
  std::int32_t crossing(std::int32_t section) const { return crossing_[at(section)]; }
  const Next& next(std::int32_t section);

  // Where the last contradiction showed.
  std::int32_t failed_section() const { return failed_; }
  // Units of work since the last call.
  std::int64_t take_work() { return std::exchange(work_, 0); }

 private:
  struct Change {
    enum class Kind : std::int32_t { floor, lowest, placed } kind;
    std::int32_t index;
    std::int64_t old;
  };

  void find_twins();
  void touch(std::int32_t section);
  bool fail(std::int32_t section);
  bool lift(std::int32_t item, std::int64_t lowest);
  bool propagate();
  bool infer(std::int32_t section);
  bool infer_order(std::int32_t section);
  void sort_row(std::int32_t section);
  void remove(std::int32_t item, std::int32_t section);
  void unplace(std::int32_t item);

  const PackInstance& instance_;
  std::int64_t height_ = 0, work_ = 0;
  std::int32_t failed_ = 0;
  std::vector<std::int64_t> lowest_;               // per item
  std::vector<std::int32_t> twin_;                 // per item, the next one that is equal
  std::vector<std::int64_t> floor_;                // per section, no unplaced item is lower
  std::vector<std::int64_t> left_;                 // per section, bytes of its unplaced items
  std::vector<std::int32_t> first_, row_, count_;  // per section, its unplaced items
  std::vector<std::int32_t> crossing_;
  std::vector<Next> next_;
  std::vector<char> is_known_;  // per section: next_ is right
  std::vector<char> is_queued_;
  std::vector<std::int32_t> queue_;
  std::vector<std::pair<std::int64_t, std::int32_t>> sorted_;  // a row's lowest offsets and items
  std::vector<Change> trail_;
};

}  // namespace plimsoll::planner
