// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/remedies/remedies.h"

namespace plimsoll::planner {

// What one selection may use, and how it sees the alternatives.
struct SelectionStyle {
  bool recompute = true, compress = true, lossy = false;
  PerTier<bool> tiers;  // which may be swapped to
  bool swaps() const { return tiers != PerTier<bool>(); }
  bool fuse_coding = true;  // values are encoded and decoded inside kernels where these can
  // Recomputing is taken to cost so many times what its own recompute set takes.
  double recompute_factor = 1;
  // Transfers may take so many times the time of the compute steps they are to hide behind.
  double stretch = 1;
  // With recomputing: the part of the memory beside an op's own operands and results that values
  // may take while their transfers wait and last. What is left is there to recompute in.
  double waiting_share = 0.5;
};

// Choices that bring the problem near `arena_limit` at the lowest cost, going by prices per byte
// and time step that compare them with recomputing. Swaps come first: they are free while they hide
// behind compute, one transfer at a time on each engine; what is left over is divided between
// compressing and, if allowed, recomputing, for which nothing is chosen here. The other tiers'
// sizes are kept.
class RemedySelector {
 public:
  RemedySelector(const Problem& problem, std::span<const Form> forms, const PlanOptions& options);
  std::vector<Choice> select(std::int64_t arena_limit, const SelectionStyle& style) const;
  // What recomputing a value for some read takes when all that is read later is there:
  // infinite where it can't be.
  IdVector<ValueId, double> seconds_again() const;

 private:
  friend class Selection;
  // Between two touches of a value: free from `first` to `last`, read again by `ready`.
  struct Interval {
    ValueId value;
    OpId first, last, ready;
    double recompute_seconds = 0;  // infinite: it can't be
  };

  void list_intervals();
  double recompute_set_seconds(ValueId v, OpId ready);

  const Problem& problem_;
  const std::span<const Form> forms_;
  const PlanOptions& options_;
  std::vector<std::int64_t> profile_;  // of keeping everything
  IdVector<OpId, std::int64_t> own_;   // of each op: operands, results and workspace
  IdVector<OpId, double> start_;       // of each op, when everything is kept
  std::vector<Interval> intervals_;    // by value, then by time
  IdVector<ValueId, std::int32_t> first_interval_, first_form_;  // one more at the end
  IdVector<ValueId, std::uint32_t> stamp_;
  std::uint32_t round_ = 0;
  std::vector<ValueId> search_;
};

}  // namespace plimsoll::planner
