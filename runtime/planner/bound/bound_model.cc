// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/bound/bound_model.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "runtime/base/index.h"
#include "runtime/planner/remedies/remedies_find.h"

// From a problem to intervals.
//
// Example: ops 0: a = f(x), 1: b = g(a), 2: c = h(b), 3: d = k(c), 4: e = m(d, a), where x is a
// parameter. Storage a is touched at 0, 1 and 4. Between 0 and 1 there is no time step; between 1
// and 4 lies an interval over the time steps 2..3. Whoever does not keep a there runs op 0 again
// before op 4: one recomputation, a itself, which reads nothing of the arena. need(2) is b and c,
// need(3) is c and d, whatever is decided about a.
//
// If op 0 read another value w of the arena instead, whose last touch is op 1, w is dead in the
// interval, and the interval has a second recomputation, w, of which it may have a share
// (bound_pricing.cc).
//
// What an interval may count is limited by what can happen in every schedule:
// - An op of which an output may be written over an input that dies there needs that output's bytes
//   only once; if the input is kept instead, its interval begins at the op itself (find_needs,
//   interval_from_).
// - A value that can't be recomputed after some time step (a donated parameter that it comes from
//   is overwritten, `latest`) lies in the arena from there on: that is need, not choice (require).
// - A value that has a smaller form (a codec, a swap) has at least that form's bytes somewhere
//   (least_bytes); the rest of the interval may give way (add_substitutes).

namespace plimsoll::planner {
namespace {

class Builder {
 public:
  Builder(const Problem& problem, int most_recomputations, std::span<const Substitute> substitutes)
      : problem_(problem),
        most_recomputations_(at(most_recomputations)),
        substitutes_(substitutes.begin(), substitutes.end()) {}

  BoundModel run() {
    model_.time_steps = problem_.op_count();
    for (const Op& op : problem_.ops) model_.base_seconds += op.seconds;
    find_storages();
    find_op_facts();
    find_touches();
    find_substitutes();
    find_needs();
    for (const ValueId s : storage_.ids()) add_intervals(s);
    for (std::size_t g = 0; g < model_.intervals.size(); ++g) add_recomputations(g);
    divide_shares();
    return std::move(model_);
  }

 private:
  const Value& value(ValueId v) const { return problem_.values[v]; }
  bool movable(ValueId storage) const {
    return value(storage).home == Home::arena && value(storage).producer >= 0;
  }

  void find_storages() {
    storage_.resize(problem_.values.size());
    model_.bytes.assign(problem_.values.size(), 0);
    for (const ValueId v : storage_.ids()) {
      const ValueId of = problem_.view_of.empty() ? ValueId() : problem_.view_of[v];
      storage_[v] = of >= 0 ? of : v;
      if (of < 0 && value(v).home == Home::arena) model_.bytes[v] = value(v).bytes;
    }
  }

  void find_op_facts() {
    const std::size_t n = problem_.ops.size();
    latest_.assign(n, kNever);
    output_bytes_.assign(n, 0);
    output_storages_.assign(n, 0);
    for (const OpId op : problem_.ops.ids()) {
      for (const ValueId v : problem_.reads[op]) {
        if (value(v).producer < 0) {
          latest_[op] = std::min(latest_[op], value(v).overwritten);
        }
      }
      distinct_storages(problem_.outputs[op], scratch_);
      for (const ValueId s : scratch_) {
        output_bytes_[op] += model_.bytes[s];
        ++output_storages_[op];
      }
    }
  }

  void distinct_storages(std::span<const ValueId> values, std::vector<ValueId>& out) const {
    out.clear();
    for (const ValueId v : values) {
      if (v >= 0 && movable(storage_[v])) out.push_back(storage_[v]);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
  }

  // The storages that an op reads or makes, into `out`.
  void touched_by(OpId op, std::vector<ValueId>& out) {
    scratch_.assign(problem_.reads[op].begin(), problem_.reads[op].end());
    scratch_.insert(scratch_.end(), problem_.outputs[op].begin(), problem_.outputs[op].end());
    distinct_storages(scratch_, out);
  }

  void find_touches() {
    Rows<OpId, ValueId> touched_at;
    std::vector<ValueId> touched;
    for (const OpId op : problem_.ops.ids()) {
      touched_by(op, touched);
      touched_at.push_row(touched);
    }
    // The end comes behind all ops.
    touched.clear();
    for (const ValueId v : storage_.ids()) {
      if (value(v).live_out && movable(storage_[v])) touched.push_back(storage_[v]);
    }
    touched_at.push_row(touched);
    touches_ = invert(touched_at, storage_.size());
  }

  // An output that is written into an operand's buffer costs no bytes of its own unless the operand
  // is kept after the op: then the operand's interval begins at the op itself.
  void find_needs() {
    model_.need.assign(problem_.ops.size(), 0);
    interval_from_.assign(problem_.ops.size(), {});
    std::vector<ValueId> touched;
    for (const OpId op : problem_.ops.ids()) {
      std::int64_t& need = model_.need[at(op)];
      need = problem_.ops[op].workspace;
      touched_by(op, touched);
      for (const ValueId s : touched) need += least_bytes_at(op, s);
      const auto& reuse = problem_.reuse.empty() ? std::vector<Reuse>{} : problem_.reuse[op];
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
          interval_from_[op].push_back(r.input);
        }
      }
    }
  }

  // What an op that touches a storage needs of it.
  std::int64_t least_bytes_at(OpId op, ValueId s) const {
    std::int64_t least = model_.bytes[s];
    for (const Substitute& other : substitutes_of(s)) {
      if (other.is_fused(op)) least = std::min(least, other.bytes);
    }
    return least;
  }

  std::span<const Substitute> substitutes_of(ValueId s) const {
    const auto range = std::equal_range(
        substitutes_.begin(), substitutes_.end(), Substitute{s, 0, 0, 0, OpId(), {}},
        [](const Substitute& a, const Substitute& b) { return a.value < b.value; });
    return {range.first, range.second};
  }

  void find_substitutes() {
    std::stable_sort(substitutes_.begin(), substitutes_.end(),
                     [](const Substitute& a, const Substitute& b) { return a.value < b.value; });
    model_.least_bytes = model_.bytes;
    for (const Substitute& s : substitutes_) {
      std::int64_t& least = model_.least_bytes[s.value];
      least = std::min(least, s.bytes);
    }
  }

  void add_intervals(ValueId s) {
    if (!movable(s) || model_.bytes[s] == 0) return;
    const auto touches = touches_[s];
    for (std::size_t i = 0; i + 1 < touches.size(); ++i) {
      const OpId from = touches[i], to = touches[i + 1];
      const auto& early = interval_from_[from];
      const bool in_place = std::find(early.begin(), early.end(), s) != early.end();
      Interval interval;
      interval.storage = s;
      interval.first = (in_place ? from : from + 1).value();
      interval.last = to.value() - 1;
      interval.bytes = model_.bytes[s];
      if (interval.first > interval.last) continue;
      add_interval(interval, from, to);
    }
  }

  void add_interval(Interval interval, OpId from, OpId to) {
    Recomputation own = own_recomputation(interval.storage, to);
    const std::int32_t end = interval.last;
    if (own.latest <= from) own.seconds = kInfinite;
    const std::int32_t bound_from = own.seconds == kInfinite ? interval.first : own.latest.value();
    if (value(interval.storage).keep && to < problem_.ops.end_id()) {
      require(interval, interval.first, interval.bytes);
    } else if (model_.least_bytes[interval.storage] == interval.bytes) {
      require(interval, bound_from, interval.bytes);
    } else if (own.seconds == kInfinite) {
      // Its smallest form is there whatever is done; what is left may give way.
      const std::int64_t least = model_.least_bytes[interval.storage];
      for (std::int32_t t = interval.first; t <= interval.last; ++t) model_.need[at(t)] += least;
      interval.bytes -= least;
      add_substitutes(interval, to, least);
    } else {
      add_substitutes(interval, to, 0);
    }
    if (interval.first > interval.last) return;
    // Others may count a part of what is evicted in one piece.
    const bool whole = interval.last == end && own.seconds < kInfinite &&
                       model_.least_bytes[interval.storage] == interval.bytes;
    if (whole) {
      whole_intervals_.emplace(interval_key(interval.storage, from),
                               static_cast<std::int32_t>(model_.intervals.size()));
    }
    model_.intervals.push_back(interval);
    wanted_by_.push_back(to);
  }

  template <typename Other>
  static std::uint64_t interval_key(ValueId storage, Other other) {
    return static_cast<std::uint64_t>(storage.value()) << 32 |
           static_cast<std::uint32_t>(other.value());
  }

  // Makes what op `to` reads of the storage, or the end wants.
  Recomputation own_recomputation(ValueId s, OpId to) {
    wanted_.clear();
    if (to < problem_.ops.end_id()) {
      for (const ValueId v : problem_.reads[to]) {
        if (storage_[v] == s) wanted_.push_back(v);
      }
    }
    if (wanted_.empty()) wanted_.push_back(s);
    return recomputation(s, wanted_);
  }

  // The bytes lie in the arena from time step `from` of the interval on; it ends before.
  void require(Interval& interval, std::int32_t from, std::int64_t bytes) {
    from = std::max(from, interval.first);
    for (std::int32_t t = from; t <= interval.last; ++t) model_.need[at(t)] += bytes;
    interval.last = std::min(interval.last, from - 1);
  }

  void add_substitutes(Interval& interval, OpId to, std::int64_t counted_bytes) {
    interval.first_substitute = static_cast<std::int32_t>(model_.substitutes.size());
    // What is paid once may serve all intervals of the value.
    const auto intervals = static_cast<double>(touches_[interval.storage].size() - 1);
    for (const Substitute& other : substitutes_of(interval.storage)) {
      if (to < other.first_return) continue;
      const double each = other.is_fused(to) ? 0 : other.seconds_each;
      model_.substitutes.push_back(
          {other.bytes - counted_bytes, each + other.seconds_once / intervals});
    }
    interval.substitutes =
        static_cast<std::int32_t>(model_.substitutes.size()) - interval.first_substitute;
  }

  // A storage and what is read to make `wanted` of it when nothing of it is there; fills outside_
  // with the values of other storages that are read.
  Recomputation recomputation(ValueId s, const std::vector<ValueId>& wanted) {
    Recomputation result;
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
        if (storage_[r] == s) {
          work_.push_back(r);
        } else if (movable(storage_[r])) {
          outside_.push_back(r);
        }
      }
    }
    for (const OpId op : ops_) {
      result.seconds +=
          problem_.ops[op].recomputable ? problem_.ops[op].seconds * part_of_run(op, s) : kInfinite;
      result.latest = std::min(result.latest, latest_[op]);
    }
    return result;
  }

  // One run brings all of an op's results back: each storage answers for a part of it.
  //
  // Two results of 30 and 10 bytes of an op of 4 s answer for 3 s and 1 s. If both are recomputed,
  // one run serves both and 4 s are counted; if one alone is, less than its run is counted. Either
  // way no schedule takes less.
  double part_of_run(OpId op, ValueId s) const {
    if (output_storages_[op] <= 1) return 1;
    if (output_bytes_[op] == 0) return 1.0 / output_storages_[op];
    // A view's storage is not made by the op that makes the view.
    return static_cast<double>(model_.bytes[s]) / static_cast<double>(output_bytes_[op]);
  }

  // A breadth-first walk from the interval's own recomputation over the storages that making needs
  // and that may have to be made themselves, as far as `most_recomputations`. Leaving some out only
  // weakens the bound. The order in which they are stored (falling producers) is what lets
  // drop_cost() and `paths` go through them once.
  void add_recomputations(std::size_t g) {
    struct Node {
      Recomputation recomputation;
      std::vector<ValueId> outside;
      std::vector<std::size_t> needs;
    };
    Interval& interval = model_.intervals[g];
    std::vector<Node> nodes;
    const Recomputation own = own_recomputation(interval.storage, wanted_by_[g]);
    nodes.push_back({own, outside_, {}});
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto outside = nodes[i].outside;
      const ValueId parent = nodes[i].recomputation.storage;
      for (std::size_t k = 0; k < outside.size(); ++k) {
        const ValueId s = storage_[outside[k]];
        if (value(s).producer >= value(parent).producer) continue;
        auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const Node& n) { return n.recomputation.storage == s; });
        if (found == nodes.end()) {
          if (nodes.size() >= most_recomputations_) continue;
          Recomputation other;
          if (!share_in(interval, s, outside, other)) continue;
          nodes.push_back({other, outside_, {}});
          found = nodes.end() - 1;
        }
        const auto index = at(found - nodes.begin());
        auto& needs = nodes[i].needs;
        if (std::find(needs.begin(), needs.end(), index) != needs.end()) continue;
        needs.push_back(index);
      }
    }
    interval.first_recomputation = static_cast<std::int32_t>(model_.recomputations.size());
    interval.recomputations = static_cast<std::int32_t>(nodes.size());
    // Producers fall along the order, so that each recomputation comes before those it needs.
    std::vector<std::size_t> order(nodes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return value(nodes[a].recomputation.storage).producer >
             value(nodes[b].recomputation.storage).producer;
    });
    std::vector<std::int32_t> place(nodes.size());
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<std::int32_t>(i);
    nodes[0].recomputation.paths = 1;
    for (const std::size_t i : order) {
      Recomputation& r = nodes[i].recomputation;
      r.first_need = static_cast<std::int32_t>(model_.needs.size());
      r.needs = static_cast<std::int32_t>(nodes[i].needs.size());
      for (const std::size_t k : nodes[i].needs) {
        model_.needs.push_back(place[k]);
        nodes[k].recomputation.paths += r.paths;
      }
      model_.recomputations.push_back(r);
    }
  }

  // What `interval` may count of storage `s` when ops that read `values` run again in it; false
  // when that is nothing: the storage is touched until the end of the interval, or is there for
  // good.
  bool share_in(const Interval& interval, ValueId s, const std::vector<ValueId>& values,
                Recomputation& other) {
    const auto touches = touches_[s];
    const auto next = std::upper_bound(touches.begin(), touches.end(), OpId(interval.last));
    const OpId before = *(next - 1);
    std::int32_t alive = -1;
    if (next != touches.end()) {
      const auto found = whole_intervals_.find(interval_key(s, before));
      if (found == whole_intervals_.end() || before.value() >= interval.last) return false;
      alive = found->second;
    }
    wanted_.clear();
    for (const ValueId v : values) {
      if (storage_[v] == s) wanted_.push_back(v);
    }
    other = recomputation(s, wanted_);
    other.free_until = before.value();
    other.share = alive < 0
                      ? dead_share(s, interval.storage)
                      : living_share(alive, interval, std::max(before.value() + 1, interval.first));
    return true;
  }

  ShareId dead_share(ValueId dead, ValueId root) {
    const auto [it, added] = share_ids_.emplace(interval_key(dead, root), model_.shares.end_id());
    if (added) model_.shares.push_back({dead, root, 0, -1, 0, -1});
    return it->second;
  }

  ShareId living_share(std::int32_t interval, const Interval& root, std::int32_t first) {
    return model_.shares.push_back(
        {model_.intervals[at(interval)].storage, root.storage, 0, interval, first, root.last});
  }

  // To begin with, the dead are shared evenly, and the living are nearly their own.
  void divide_shares() {
    constexpr double kOfTheLiving = 0.3;
    IdVector<ValueId, std::int32_t> of_dead(storage_.size(), 0);
    std::vector<std::vector<ShareId>> on_interval(model_.intervals.size());
    for (const ShareId c : model_.shares.ids()) {
      const Share& share = model_.shares[c];
      if (share.interval < 0) {
        ++of_dead[share.storage];
      } else {
        on_interval[at(share.interval)].push_back(c);
      }
    }
    for (Share& c : model_.shares) {
      c.fraction = c.interval < 0
                       ? 1.0 / of_dead[c.storage]
                       : kOfTheLiving / static_cast<double>(on_interval[at(c.interval)].size());
    }
    for (const auto& shares : on_interval) model_.shares_on.push_row(shares);
  }

  const Problem& problem_;
  const std::size_t most_recomputations_;
  std::vector<Substitute> substitutes_;  // by value
  BoundModel model_;
  IdVector<ValueId, ValueId> storage_;
  IdVector<OpId, OpId> latest_;
  IdVector<OpId, std::int64_t> output_bytes_;
  IdVector<OpId, int> output_storages_;
  Rows<ValueId, OpId> touches_;  // per storage; the op behind the last: the end
  IdVector<OpId, std::vector<ValueId>> interval_from_;
  std::unordered_map<std::uint64_t, ShareId> share_ids_;
  std::unordered_map<std::uint64_t, std::int32_t> whole_intervals_;  // by storage and first touch
  std::vector<OpId> wanted_by_;  // per interval: the touch that ends it
  std::vector<ValueId> scratch_, wanted_, outside_, work_;
  std::vector<OpId> ops_;
};

}  // namespace

BoundModel make_bound_model(const Problem& problem, int most_recomputations,
                            std::span<const Substitute> substitutes) {
  return Builder(problem, most_recomputations, substitutes).run();
}

}  // namespace plimsoll::planner
