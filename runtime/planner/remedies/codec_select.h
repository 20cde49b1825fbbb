// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/remedies/remedies.h"

namespace plimsoll::planner {

// What one selection may use, and how it sees the alternatives.
struct CodecStyle {
  bool recompute = true, lossy = false;
  bool fuse_coding = true;  // values are encoded and decoded inside kernels where these can
  // Recomputing is taken to cost so many times what its own recompute set takes.
  double recompute_factor = 1;
};

// Chooses what to compress such that the problem comes near `arena_limit` at the lowest cost, going
// by prices per byte and time step that compare codecs with recomputing, for which nothing is
// chosen here.
class CodecSelector {
 public:
  CodecSelector(const Problem& problem, std::span<const Form> forms, const PlanOptions& options);
  // `elsewhere`: per op, bytes that need no room there, as links can have taken them away; empty:
  // none.
  std::vector<Choice> select(std::int64_t arena_limit, const CodecStyle& style,
                             std::span<const std::int64_t> elsewhere = {}) const;
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
  std::vector<std::int64_t> profile_;                            // of keeping everything
  std::vector<Interval> intervals_;                              // by value, then by time
  IdVector<ValueId, std::int32_t> first_interval_, first_form_;  // one more at the end
  IdVector<ValueId, std::uint32_t> stamp_;
  std::uint32_t round_ = 0;
  std::vector<ValueId> search_;
};

}  // namespace plimsoll::planner
