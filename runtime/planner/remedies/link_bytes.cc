// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/link_bytes.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/index.h"
#include "runtime/planner/problem/problem_builder.h"

namespace plimsoll::planner {
namespace {

// The values that hold bytes, by what each op has to do before it: free some, take others.
class BytesAdder {
 public:
  BytesAdder(const Problem& base, std::int64_t step, int levels)
      : step_(step), held_(at(levels)), builder_(base) {}

  // Before the next op of the base, the lowest `free` levels hold nothing, the others do.
  void set_free(int free) {
    std::vector<ValueId> gone, taken;
    for (int level = 0; level < std::ssize(held_); ++level) {
      ValueId& held = held_[at(level)];
      if (level < free && held >= 0) {
        gone.push_back(held);
        held = ValueId();
      } else if (level >= free && held < 0) {
        Value value;
        value.bytes = step_;
        value.keep = true;
        value.producer = builder_.next_op();
        held = builder_.add_value(value);
        taken.push_back(held);
      }
    }
    if (gone.empty() && taken.empty()) return;
    Op op;
    op.kind = StepKind::copy;
    builder_.add_op(op, gone, gone, taken);
    out_.base_of.push_back(OpId());
  }

  void add_base(OpId op) {
    out_.op_of.push_back(builder_.copy_op(op));
    out_.base_of.push_back(op);
  }

  RelaxedProblem finish() {
    set_free(static_cast<int>(held_.size()));
    out_.problem = builder_.finish();
    out_.most = step_ * std::ssize(held_);
    return std::move(out_);
  }

 private:
  const std::int64_t step_;
  std::vector<ValueId> held_;  // per level
  ProblemBuilder builder_;
  RelaxedProblem out_;
};

}  // namespace

std::vector<std::int64_t> bytes_in_tiers(std::span<const double> seconds,
                                         const PerTier<Tier>& tiers, double more_seconds) {
  double left = 0;
  for (const double s : seconds) left += s;
  double gone = 0;
  std::vector<std::int64_t> result;
  result.reserve(seconds.size());
  for (const double s : seconds) {
    double bytes = 0;
    for (const MemorySpace where : kTiers) {
      const Tier& tier = tiers[where];
      const double out = std::max(tier.out_bytes_per_second, tier.synchronous_out_bytes_per_second);
      const double in = std::max(tier.in_bytes_per_second, tier.synchronous_in_bytes_per_second);
      bytes += std::max(0.0, std::min({(gone + more_seconds) * out, (left + more_seconds) * in,
                                       static_cast<double>(tier.bytes)}));
    }
    result.push_back(static_cast<std::int64_t>(std::ceil(bytes)));
    gone += s;
    left -= s;
  }
  return result;
}

RelaxedProblem add_bytes(const Problem& problem, std::span<const std::int64_t> bytes, int levels,
                         Rounding rounding) {
  const std::int64_t most = bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
  const std::int64_t step = std::max<std::int64_t>(1, (most + levels - 1) / levels);
  BytesAdder maker(problem, step, levels);
  for (const OpId op : problem.ops.ids()) {
    const std::int64_t more = rounding == Rounding::up ? step - 1 : 0;
    maker.set_free(static_cast<int>(std::min<std::int64_t>(levels, (bytes[at(op)] + more) / step)));
    maker.add_base(op);
  }
  return maker.finish();
}

}  // namespace plimsoll::planner
