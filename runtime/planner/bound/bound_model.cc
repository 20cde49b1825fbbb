// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/bound/bound_model.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "runtime/base/index.h"
#include "runtime/planner/remedies/remedies_find.h"

// From a problem to gaps.
//
// Example: ops 0: a = f(x), 1: b = g(a), 2: c = h(b), 3: d = k(c), 4: e = m(d, a), where x is a
// parameter. Storage a is touched at 0, 1 and 4. Between 0 and 1 there is no moment; between 1 and
// 4 lies a gap over the moments 2..3. Whoever does not keep a there runs op 0 again before op 4:
// one remake, a itself, which reads nothing of the arena. need(2) is b and c, need(3) is c and d,
// whatever is decided about a.
//
// If op 0 read another value w of the arena instead, whose last touch is op 1, w is dead in the
// gap, and the gap has a second remake, w, which it may claim (bound_pricing.cc).
//
// What a gap may count is limited by what can happen in every schedule:
// - An op of which an output may be written over an input that dies there needs that output's bytes
//   only once; if the input is kept instead, its gap begins at the op itself (find_needs,
//   gap_from_).
// - A value that can't be made again after some moment (a donated parameter that it comes from is
//   overwritten, `latest`) lies in the arena from there on: that is need, not choice (hold).
// - A value that has a smaller form (a codec, a swap) has at least that form's bytes somewhere
//   (least_bytes); the rest of the gap may give way (add_substitutes).

namespace plimsoll::planner {
namespace {

class Builder {
 public:
  Builder(const Problem& problem, int most_remakes, std::span<const Substitute> substitutes)
      : problem_(problem),
        most_remakes_(static_cast<std::size_t>(most_remakes)),
        substitutes_(substitutes.begin(), substitutes.end()) {}

  BoundModel run() {
    model_.moments = problem_.op_count();
    for (const Op& op : problem_.ops) model_.base_seconds += op.seconds;
    find_storages();
    find_op_facts();
    find_touches();
    find_substitutes();
    find_needs();
    for (ValueId s = 0; s < static_cast<ValueId>(storage_.size()); ++s) add_gaps(s);
    for (std::size_t g = 0; g < model_.gaps.size(); ++g) add_remakes(g);
    share_claims();
    return std::move(model_);
  }

 private:
  const Value& value(ValueId v) const { return problem_.values[at(v)]; }
  bool movable(ValueId storage) const {
    return value(storage).home == Home::arena && value(storage).producer >= 0;
  }

  void find_storages() {
    const auto count = static_cast<ValueId>(problem_.values.size());
    storage_.resize(at(count));
    model_.bytes.assign(at(count), 0);
    for (ValueId v = 0; v < count; ++v) {
      const ValueId of = problem_.view_of.empty() ? -1 : problem_.view_of[at(v)];
      storage_[at(v)] = of >= 0 ? of : v;
      if (of < 0 && value(v).home == Home::arena) model_.bytes[at(v)] = value(v).bytes;
    }
  }

  void find_op_facts() {
    const int n = problem_.op_count();
    latest_.assign(at(n), kNever);
    output_bytes_.assign(at(n), 0);
    output_storages_.assign(at(n), 0);
    for (OpId op = 0; op < n; ++op) {
      for (const ValueId v : problem_.reads[op]) {
        if (value(v).producer < 0) {
          latest_[at(op)] = std::min(latest_[at(op)], value(v).overwritten);
        }
      }
      distinct_storages(problem_.outputs[op], scratch_);
      for (const ValueId s : scratch_) {
        output_bytes_[at(op)] += model_.bytes[at(s)];
        ++output_storages_[at(op)];
      }
    }
  }

  void distinct_storages(std::span<const ValueId> values, std::vector<ValueId>& out) const {
    out.clear();
    for (const ValueId v : values) {
      if (v >= 0 && movable(storage_[at(v)])) out.push_back(storage_[at(v)]);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
  }

  void find_touches() {
    const int n = problem_.op_count();
    std::vector<std::int32_t> count(storage_.size() + 1, 0);
    const auto each = [&](auto&& take) {
      std::vector<ValueId> touched;
      for (OpId op = 0; op < n; ++op) {
        scratch_.assign(problem_.reads[op].begin(), problem_.reads[op].end());
        scratch_.insert(scratch_.end(), problem_.outputs[op].begin(), problem_.outputs[op].end());
        distinct_storages(scratch_, touched);
        for (const ValueId s : touched) take(s, op);
      }
      for (ValueId v = 0; v < static_cast<ValueId>(storage_.size()); ++v) {
        if (value(v).live_out && movable(storage_[at(v)])) take(storage_[at(v)], n);
      }
    };
    each([&](ValueId s, OpId) { ++count[at(s) + 1]; });
    for (std::size_t s = 1; s < count.size(); ++s) count[s] += count[s - 1];
    touches_.begin = count;
    touches_.items.resize(at(count.back()));
    each([&](ValueId s, OpId op) { touches_.items[at(count[at(s)]++)] = op; });
  }

  // An output that is written into an operand's buffer costs no bytes of its own unless the operand
  // is kept after the op: then the operand's gap begins at the op itself.
  void find_needs() {
    const int n = problem_.op_count();
    model_.need.assign(at(n), 0);
    gap_from_.assign(at(n), {});
    for (OpId op = 0; op < n; ++op) {
      std::int64_t& need = model_.need[at(op)];
      need = problem_.ops[at(op)].workspace;
      scratch_.assign(problem_.reads[op].begin(), problem_.reads[op].end());
      scratch_.insert(scratch_.end(), problem_.outputs[op].begin(), problem_.outputs[op].end());
      std::vector<ValueId> touched;
      distinct_storages(scratch_, touched);
      for (const ValueId s : touched) need += least_bytes_at(op, s);
      const auto& reuse = problem_.reuse.empty() ? std::vector<Reuse>{} : problem_.reuse[at(op)];
      for (std::size_t i = 0; i < reuse.size(); ++i) {
        const Reuse& r = reuse[i];
        if (!problem_.in_arena(r.input) || !problem_.in_arena(r.output)) continue;
        const bool seen = std::any_of(
            reuse.begin(), reuse.begin() + static_cast<long>(i),
            [&](const Reuse& q) { return q.output == r.output && problem_.in_arena(q.input); });
        if (seen) continue;
        need -= value(r.output).bytes;
        const auto rivals = std::count_if(reuse.begin(), reuse.end(), [&](const Reuse& q) {
          return q.output == r.output || q.input == r.input;
        });
        if (rivals == 1 && value(r.input).bytes == value(r.output).bytes) {
          gap_from_[at(op)].push_back(r.input);
        }
      }
    }
  }

  // What an op that touches a storage needs of it.
  std::int64_t least_bytes_at(OpId op, ValueId s) const {
    std::int64_t least = model_.bytes[at(s)];
    for (const Substitute& other : substitutes_of(s)) {
      if (other.is_direct(op)) least = std::min(least, other.bytes);
    }
    return least;
  }

  std::span<const Substitute> substitutes_of(ValueId s) const {
    const auto range = std::equal_range(
        substitutes_.begin(), substitutes_.end(), Substitute{s, 0, 0, 0, 0, {}},
        [](const Substitute& a, const Substitute& b) { return a.value < b.value; });
    return {range.first, range.second};
  }

  void find_substitutes() {
    std::stable_sort(substitutes_.begin(), substitutes_.end(),
                     [](const Substitute& a, const Substitute& b) { return a.value < b.value; });
    model_.least_bytes = model_.bytes;
    for (const Substitute& s : substitutes_) {
      std::int64_t& least = model_.least_bytes[at(s.value)];
      least = std::min(least, s.bytes);
    }
  }

  void add_gaps(ValueId s) {
    if (!movable(s) || model_.bytes[at(s)] == 0) return;
    const auto touches = touches_[s];
    for (std::size_t i = 0; i + 1 < touches.size(); ++i) {
      const OpId from = touches[i], to = touches[i + 1];
      const auto& early = gap_from_[at(from)];
      const bool in_place = std::find(early.begin(), early.end(), s) != early.end();
      Gap gap;
      gap.storage = s;
      gap.first = in_place ? from : from + 1;
      gap.last = to - 1;
      gap.bytes = model_.bytes[at(s)];
      if (gap.first > gap.last) continue;
      add_gap(gap, from, to);
    }
  }

  void add_gap(Gap gap, OpId from, OpId to) {
    Remake own = own_remake(gap.storage, to);
    const OpId end = gap.last;
    if (own.latest <= from) own.seconds = kInfinite;
    const std::int32_t bound_from = own.seconds == kInfinite ? gap.first : own.latest;
    if (value(gap.storage).keep && to < problem_.op_count()) {
      hold(gap, gap.first, gap.bytes);
    } else if (model_.least_bytes[at(gap.storage)] == gap.bytes) {
      hold(gap, bound_from, gap.bytes);
    } else if (own.seconds == kInfinite) {
      // Its smallest form is there whatever is done; what is left may give way.
      const std::int64_t least = model_.least_bytes[at(gap.storage)];
      for (std::int32_t t = gap.first; t <= gap.last; ++t) model_.need[at(t)] += least;
      gap.bytes -= least;
      add_substitutes(gap, to, least);
    } else {
      add_substitutes(gap, to, 0);
    }
    if (gap.first > gap.last) return;
    // Others may claim a part of what is given up in one piece.
    const bool whole = gap.last == end && own.seconds < kInfinite &&
                       model_.least_bytes[at(gap.storage)] == gap.bytes;
    if (whole) {
      whole_gaps_.emplace(gap_key(gap.storage, from),
                          static_cast<std::int32_t>(model_.gaps.size()));
    }
    model_.gaps.push_back(gap);
    wanted_by_.push_back(to);
  }

  static std::uint64_t gap_key(ValueId storage, OpId from) {
    return static_cast<std::uint64_t>(storage) << 32 | static_cast<std::uint32_t>(from);
  }

  // Makes what op `to` reads of the storage, or the end wants.
  Remake own_remake(ValueId s, OpId to) {
    wanted_.clear();
    if (to < problem_.op_count()) {
      for (const ValueId v : problem_.reads[to]) {
        if (storage_[at(v)] == s) wanted_.push_back(v);
      }
    }
    if (wanted_.empty()) wanted_.push_back(s);
    return remake(s, wanted_);
  }

  // The bytes lie in the arena from moment `from` of the gap on; it ends before.
  void hold(Gap& gap, std::int32_t from, std::int64_t bytes) {
    from = std::max(from, gap.first);
    for (std::int32_t t = from; t <= gap.last; ++t) model_.need[at(t)] += bytes;
    gap.last = std::min(gap.last, from - 1);
  }

  void add_substitutes(Gap& gap, OpId to, std::int64_t counted_bytes) {
    gap.first_substitute = static_cast<std::int32_t>(model_.substitutes.size());
    // What is paid once may serve all gaps of the value.
    const auto gaps = static_cast<double>(touches_[gap.storage].size() - 1);
    for (const Substitute& other : substitutes_of(gap.storage)) {
      if (to < other.first_return) continue;
      const double each = other.is_direct(to) ? 0 : other.seconds_each;
      model_.substitutes.push_back({other.bytes - counted_bytes, each + other.seconds_once / gaps});
    }
    gap.substitutes = static_cast<std::int32_t>(model_.substitutes.size()) - gap.first_substitute;
  }

  // A storage and what is read to make `wanted` of it when nothing of it is there; fills outside_
  // with the values of other storages that are read.
  Remake remake(ValueId s, const std::vector<ValueId>& wanted) {
    Remake result;
    result.storage = s;
    outside_.clear();
    ops_.clear();
    work_ = wanted;
    work_.push_back(s);
    while (!work_.empty()) {
      const ValueId v = work_.back();
      work_.pop_back();
      const OpId op = value(v).producer;
      if (op < 0 || std::find(ops_.begin(), ops_.end(), op) != ops_.end()) continue;
      ops_.push_back(op);
      for (const ValueId r : problem_.reads[op]) {
        if (storage_[at(r)] == s) {
          work_.push_back(r);
        } else if (movable(storage_[at(r)])) {
          outside_.push_back(r);
        }
      }
    }
    for (const OpId op : ops_) {
      result.seconds += problem_.ops[at(op)].recomputable
                            ? problem_.ops[at(op)].seconds * share(op, s)
                            : kInfinite;
      result.latest = std::min(result.latest, latest_[at(op)]);
    }
    return result;
  }

  // One run brings all of an op's results back: each storage answers for a part of it.
  //
  // Two results of 30 and 10 bytes of an op of 4 s answer for 3 s and 1 s. If both are made again,
  // one run serves both and 4 s are counted; if one alone is, less than its run is counted. Either
  // way no schedule takes less.
  double share(OpId op, ValueId s) const {
    if (output_storages_[at(op)] <= 1) return 1;
    if (output_bytes_[at(op)] == 0) return 1.0 / output_storages_[at(op)];
    // A view's storage is not made by the op that makes the view.
    return static_cast<double>(model_.bytes[at(s)]) / static_cast<double>(output_bytes_[at(op)]);
  }

  // A breadth-first walk from the gap's own remake over the storages that making needs and that may
  // have to be made themselves, as far as `most_remakes`. Leaving some out only weakens the bound.
  // The order in which they are stored (falling producers) is what lets drop_cost() and `paths` go
  // through them once.
  void add_remakes(std::size_t g) {
    struct Node {
      Remake remake;
      std::vector<ValueId> outside;
      std::vector<std::size_t> needs;
    };
    Gap& gap = model_.gaps[g];
    std::vector<Node> nodes;
    const Remake own = own_remake(gap.storage, wanted_by_[g]);
    nodes.push_back({own, outside_, {}});
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto outside = nodes[i].outside;
      const ValueId parent = nodes[i].remake.storage;
      for (std::size_t k = 0; k < outside.size(); ++k) {
        const ValueId s = storage_[at(outside[k])];
        if (value(s).producer >= value(parent).producer) continue;
        auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const Node& n) { return n.remake.storage == s; });
        if (found == nodes.end()) {
          if (nodes.size() >= most_remakes_) continue;
          Remake other;
          if (!claim_part(gap, s, outside, other)) continue;
          nodes.push_back({other, outside_, {}});
          found = nodes.end() - 1;
        }
        const auto index = static_cast<std::size_t>(found - nodes.begin());
        auto& needs = nodes[i].needs;
        if (std::find(needs.begin(), needs.end(), index) != needs.end()) continue;
        needs.push_back(index);
      }
    }
    gap.first_remake = static_cast<std::int32_t>(model_.remakes.size());
    gap.remakes = static_cast<std::int32_t>(nodes.size());
    // Producers fall along the order, so that each remake comes before those it needs.
    std::vector<std::size_t> order(nodes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return value(nodes[a].remake.storage).producer > value(nodes[b].remake.storage).producer;
    });
    std::vector<std::int32_t> place(nodes.size());
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<std::int32_t>(i);
    nodes[0].remake.paths = 1;
    for (const std::size_t i : order) {
      Remake& r = nodes[i].remake;
      r.first_need = static_cast<std::int32_t>(model_.needs.size());
      r.needs = static_cast<std::int32_t>(nodes[i].needs.size());
      for (const std::size_t k : nodes[i].needs) {
        model_.needs.push_back(place[k]);
        nodes[k].remake.paths += r.paths;
      }
      model_.remakes.push_back(r);
    }
  }

  // What `gap` may count of storage `s` when ops that read `values` run again in it; false when
  // that is nothing: the storage is touched until the end of the gap, or is there for good.
  bool claim_part(const Gap& gap, ValueId s, const std::vector<ValueId>& values, Remake& other) {
    const auto touches = touches_[s];
    const auto next = std::upper_bound(touches.begin(), touches.end(), gap.last);
    const OpId before = *(next - 1);
    std::int32_t alive = -1;
    if (next != touches.end()) {
      const auto found = whole_gaps_.find(gap_key(s, before));
      if (found == whole_gaps_.end() || before >= gap.last) return false;
      alive = found->second;
    }
    wanted_.clear();
    for (const ValueId v : values) {
      if (storage_[at(v)] == s) wanted_.push_back(v);
    }
    other = remake(s, wanted_);
    other.free_until = before;
    other.claim = alive < 0 ? dead_claim(s, gap.storage)
                            : living_claim(alive, gap, std::max(before + 1, gap.first));
    return true;
  }

  std::int32_t dead_claim(ValueId dead, ValueId root) {
    const auto [it, added] =
        claim_ids_.emplace(gap_key(dead, root), static_cast<std::int32_t>(model_.claims.size()));
    if (added) model_.claims.push_back({dead, root, 0, -1, 0, -1});
    return it->second;
  }

  std::int32_t living_claim(std::int32_t gap, const Gap& root, std::int32_t first) {
    model_.claims.push_back({model_.gaps[at(gap)].storage, root.storage, 0, gap, first, root.last});
    return static_cast<std::int32_t>(model_.claims.size()) - 1;
  }

  // To begin with, the dead are shared evenly, and the living are nearly their own.
  void share_claims() {
    constexpr double kOfTheLiving = 0.3;
    std::vector<std::int32_t> of_dead(storage_.size(), 0);
    std::vector<std::vector<std::int32_t>> on_gap(model_.gaps.size());
    for (std::size_t c = 0; c < model_.claims.size(); ++c) {
      const Claim& claim = model_.claims[c];
      if (claim.gap < 0) {
        ++of_dead[at(claim.storage)];
      } else {
        on_gap[at(claim.gap)].push_back(static_cast<std::int32_t>(c));
      }
    }
    for (Claim& c : model_.claims) {
      c.fraction = c.gap < 0 ? 1.0 / of_dead[at(c.storage)]
                             : kOfTheLiving / static_cast<double>(on_gap[at(c.gap)].size());
    }
    for (const auto& claims : on_gap) {
      for (const std::int32_t c : claims) model_.claims_on.push(c);
      model_.claims_on.close();
    }
  }

  const Problem& problem_;
  const std::size_t most_remakes_;
  std::vector<Substitute> substitutes_;  // by value
  BoundModel model_;
  std::vector<ValueId> storage_;  // per value
  std::vector<OpId> latest_;
  std::vector<std::int64_t> output_bytes_;
  std::vector<int> output_storages_;
  Rows touches_;  // per storage, moments
  std::vector<std::vector<ValueId>> gap_from_;
  std::unordered_map<std::uint64_t, std::int32_t> claim_ids_;
  std::unordered_map<std::uint64_t, std::int32_t> whole_gaps_;  // by storage and first touch
  std::vector<OpId> wanted_by_;                                 // per gap: the touch that ends it
  std::vector<ValueId> scratch_, wanted_, outside_, work_;
  std::vector<OpId> ops_;
};

}  // namespace

BoundModel make_bound_model(const Problem& problem, int most_remakes,
                            std::span<const Substitute> substitutes) {
  return Builder(problem, most_remakes, substitutes).run();
}

}  // namespace plimsoll::planner
