// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/planner/pack/pack_inference.h"
#include "runtime/planner/pack/pack_instance.h"

namespace plimsoll::planner {

// Which section a PackBranch decides next, which buffer there, and what it learnt.
struct PackBranchGuide {
  // The section with the lowest floor, or the one with the fewest buffers that can come next,
  // preferring sections where decisions failed.
  enum class Section { floor, firsts };
  // Of the buffers that can come next, the largest by this; by sections: that it lives in;
  // `lowest_then_`: of the lowest. Where floors choose the section, always of the lowest.
  enum class Item { area, length, sections, lowest_then_length };

  Section section = Section::firsts;
  Item item = Item::sections;
  std::vector<double> trouble;  // per section: failures of earlier runs, fading
};

// Depth-first search for a packing of at most a given height by the two-way decisions of
// PackInference: a buffer lies at its lowest offset, or it doesn't. Unlike in PackSearch, offsets
// need not rise from decision to decision: the tightest time steps are filled first, and whatever
// was refuted once stays refuted. Where no unplaced buffer crosses a time step, the two sides are
// searched one by one, and what fails goes back to the decision that made it a side of its own.
class PackBranch {
 public:
  explicit PackBranch(const PackInstance& instance) : instance_(instance), inference_(instance) {}

  // Nothing when there is no such packing (`exhausted()`), or when it would take more than
  // `failures` refuted decisions, or more than the budget. The guide learns.
  std::optional<PackSolution> run(PackBranchGuide& guide, std::int64_t height,
                                  std::int64_t failures, PackBudget& budget);
  bool exhausted() const { return exhausted_; }

 private:
  struct Part {  // sections that share no unplaced item with the rest
    std::int32_t begin, end;
    std::int32_t parent;  // the frame whose decision made it
    std::int32_t next;    // the part to fill after this one
  };
  struct Frame {  // an item that was placed, and what to go back to
    std::int32_t part, item;
    std::size_t mark, parts;
  };

  void rank_items();
  double urgency(std::int32_t section);
  std::int32_t choose_section(const Part& part);
  std::int32_t choose_item(std::int32_t section);
  std::int32_t choose(const Part& part);
  std::int32_t blocker(std::int32_t item);
  std::int32_t decide(std::int32_t part);
  std::int32_t split(std::int32_t item, std::int32_t part);
  std::int32_t refute();
  void learn(PackBranchGuide& guide) const;

  const PackInstance& instance_;
  PackInference inference_;
  PackBranchGuide guide_;
  std::vector<double> rank_;  // per item
  std::vector<Part> parts_;
  std::vector<Frame> frames_;
  std::int64_t height_ = 0, failures_ = 0;
  bool exhausted_ = false;
};

}  // namespace plimsoll::planner
