// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/arrange.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "runtime/planner/problem/problem_builder.h"
#include "runtime/planner/problem/result_leaves.h"
#include "runtime/planner/problem/timeline.h"

namespace plimsoll::planner {
namespace {

// After every position.
constexpr std::int32_t kNoPosition = std::numeric_limits<std::int32_t>::max();

class Arranger {
 public:
  Arranger(const Graph& graph, std::span<const OpId> order, bool movable)
      : graph_(graph), order_(order.begin(), order.end()) {
    find_readers();
    if (movable) sink_updates();
  }

  Problem run() {
    problem_.graph = &graph_;
    problem_.values = graph_.values;
    problem_.results.resize(graph_.results.size());
    claimed_.assign(graph_.values.size(), false);
    for (std::size_t k = 0; k < graph_.results.size(); ++k) place_result(static_cast<int>(k));
    if (graph_.role != Role::body) {
      const auto leaf = result_leaves(graph_);
      for (const ValueId v : leaf.ids()) {
        if (leaf[v] < 0) continue;
        value(v).home = Home::output;
        value(v).index = leaf[v];
      }
    }
    place_pending_copies();
    emit();
    for (const OpId op : problem_.ops.ids()) {
      if (problem_.ops[op].variants >= 0) choose_variant(problem_, op, 0);
    }
    keep_small_values();
    count_fixed_bytes();
    return builder_.finish();
  }

 private:
  // An op of the arranged problem: a graph op, or an added copy, upload or download.
  struct Item {
    std::int32_t position;  // in order_
    std::int32_t phase;     // 0: before the op there, 1: the op, 2: after it
    OpId graph_op;          // -1: added
    ValueId from, to;       // added ops
    int leaf;
    StepKind kind;
  };

  const Value& graph_value(ValueId v) const { return graph_.values[v]; }
  Value& value(ValueId v) { return problem_.values[v]; }
  std::int32_t position(OpId op) const { return position_[op]; }

  void find_readers() {
    position_.resize(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      position_[order_[i]] = static_cast<std::int32_t>(i);
    }
    first_reader_.assign(graph_.values.size(), kNoPosition);
    last_reader_.assign(graph_.values.size(), {-1, -1});
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const auto read = [&](ValueId v) {
        if (v < 0) return;
        auto& first = first_reader_[v];
        auto& last = last_reader_[v];
        const auto here = static_cast<std::int32_t>(i);
        first = std::min(first, here);
        if (last.first != here) last = {here, last.first};
      };
      for (const ValueId v : graph_.inputs[order_[i]]) read(v);
      for (const ValueId v : graph_.held[order_[i]]) read(v);
    }
  }

  // The last reader's position, the op at `except` not counted.
  std::int32_t last_reader(ValueId v, std::int32_t except) const {
    const auto& [last, before] = last_reader_[v];
    return last == except ? before : last;
  }

  // An update of a donated parameter that comes before the parameter's last reader would need a
  // copy: where nothing reads the new value until then, it runs later instead.
  //
  // Example: w' = w - g is written into w's donated buffer, and a later op still reads w. Run in
  // the order written, w' would need a buffer of its own and a copy behind the last reader. If
  // nothing reads w' until then, running the update behind that reader costs nothing.
  void sink_updates() {
    std::vector<std::pair<std::int32_t, OpId>> moved;
    IdVector<OpId, std::int32_t> target(order_.size(), -1);
    IdVector<OpId, std::int32_t> first_follower(order_.size(), kNoPosition);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      for (const OpId before : graph_.after[order_[i]]) {
        auto& first = first_follower[before];
        first = std::min(first, static_cast<std::int32_t>(i));
      }
    }
    for (std::size_t k = 0; k < graph_.results.size(); ++k) {
      const ValueId v = graph_.results[k];
      const int p = graph_.alias[k];
      if (v < 0 || p < 0 || graph_value(v).producer < 0) continue;
      const OpId update = graph_value(v).producer;
      const ValueId old = graph_.parameters[at(p)];
      auto& t = target[update];
      t = std::max(t, last_reader(old, position(update)));
    }
    bool any = false;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const OpId op = order_[i];
      auto& t = target[op];
      bool can = t > static_cast<std::int32_t>(i) && graph_.ops[op].recomputable;
      if (can) {
        for (const ValueId o : graph_.outputs[op]) {
          if (o >= 0 && first_reader_[o] <= t) can = false;
        }
        if (first_follower[op] <= t) can = false;
      }
      if (!can) t = -1;
      any = any || can;
    }
    if (!any) return;
    std::vector<std::tuple<std::int32_t, std::int32_t, OpId>> keyed;
    keyed.reserve(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const OpId op = order_[i];
      const std::int32_t t = target[op];
      const auto here = static_cast<std::int32_t>(i);
      keyed.emplace_back(t >= 0 ? t : here, t >= 0 ? here + 1 : 0, op);
    }
    std::sort(keyed.begin(), keyed.end());
    for (std::size_t i = 0; i < keyed.size(); ++i) order_[i] = std::get<2>(keyed[i]);
    find_readers();
  }

  bool may_reuse(OpId op, ValueId input, ValueId output) const {
    for (const Reuse& r : graph_.reuse[op]) {
      if (r.input == input && r.output == output) return true;
    }
    return false;
  }

  ValueId add_copy_value(ValueId from, Home home, int index, int position, int phase, int leaf,
                         StepKind kind = StepKind::copy) {
    Value copy = graph_value(from);
    copy.home = home;
    copy.index = index;
    copy.live_out = home == Home::arena;
    copy.overwritten = kNever;
    const ValueId to = builder_.add_value(copy);
    items_.push_back({position, phase, OpId(), from, to, leaf, kind});
    return to;
  }

  void place_result(int k) {
    const auto index = at(k);
    const ValueId v = graph_.results[index];
    if (v < 0) return;
    if (graph_.is_on_host(index)) {
      pending_.push_back(k);
      return;
    }
    const int p = graph_.alias[index];
    const bool made = graph_value(v).producer >= 0;
    if (made && !claimed_[v]) {
      claimed_[v] = true;
      problem_.results[index] = p >= 0 ? update_parameter(v, p, k) : v;
      if (p < 0) {
        if (graph_.role == Role::body) {
          value(v).live_out = true;
        } else {
          value(v).home = Home::output;
          value(v).index = k;
        }
      }
      return;
    }
    const bool stays =
        (graph_value(v).home == Home::parameter && p >= 0 && graph_value(v).index == p) ||
        (graph_.role == Role::body && graph_value(v).home == Home::constant) ||
        (made && value(v).live_out);
    if (stays) {
      problem_.results[index] = v;
    } else {
      pending_.push_back(k);
    }
  }

  // The new value of donated parameter leaf `p`: computed right into its buffer where the old
  // content is dead by then, else copied there after the last reader.
  ValueId update_parameter(ValueId v, int p, int k) {
    const ValueId old = graph_.parameters[at(p)];
    const OpId producer = graph_value(v).producer;
    const std::int32_t here = position(producer);
    const std::int32_t last = last_reader(old, here);
    const bool reads = last_reader_[old].first == here || last_reader_[old].second == here;
    if (last < here && (!reads || may_reuse(producer, old, v))) {
      value(v).home = Home::parameter;
      value(v).index = p;
      overwriters_.push_back({old, here});
      return v;
    }
    if (graph_.role == Role::body) {
      value(v).live_out = true;
      return v;
    }
    const std::int32_t anchor = std::max(last, here);
    overwriters_.push_back({old, anchor});
    return add_copy_value(v, Home::parameter, p, anchor, 2, k);
  }

  struct Overwriter {
    ValueId old;
    std::int32_t position;
  };

  // Copies of what is a parameter, a constant or another result already, and what goes to the host.
  void place_pending_copies() {
    const auto end = static_cast<std::int32_t>(order_.size());
    IdVector<ValueId, std::int32_t> overwritten_at(graph_.values.size(), kNoPosition);
    for (const Overwriter& o : overwriters_) {
      overwritten_at[o.old] = o.position;
    }
    for (const int k : pending_) {
      const ValueId v = graph_.results[at(k)];
      std::int32_t where = end;
      std::int32_t phase = 0;
      if (graph_value(v).producer >= 0) {
        // A value that stays in a fixed home can wait; one of the arena should die soon.
        if (value(v).home == Home::arena) {
          where = position(graph_value(v).producer);
          phase = 2;
        }
      } else {
        where = std::min(where, overwritten_at[v]);
      }
      const bool body = graph_.role == Role::body;
      problem_.results[at(k)] =
          add_copy_value(v, body ? Home::arena : Home::output, body ? -1 : k, where, phase, k,
                         graph_.is_on_host(at(k)) ? StepKind::download : StepKind::copy);
    }
  }

  void emit() {
    const std::size_t added = items_.size();
    IdVector<ValueId, std::int32_t> first(problem_.values.size(), kNoPosition);
    for (const ValueId v : first_reader_.ids()) first[v] = first_reader_[v];
    for (std::size_t i = 0; i < added; ++i) {
      auto& f = first[items_[i].from];
      f = std::min(f, items_[i].position);
    }
    for (std::size_t p = 0; p < graph_.parameters.size(); ++p) {
      const ValueId v = graph_.parameters[p];
      if (v < 0 || graph_.residency[p] != ParameterResidency::host) continue;
      value(v).home = Home::arena;
      if (first[v] != kNoPosition) {
        // Phase -1: before a copy that reads it.
        items_.push_back(
            {first[v], -1, OpId(), ValueId(), v, static_cast<int>(p), StepKind::upload});
      }
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      items_.push_back(
          {static_cast<std::int32_t>(i), 1, order_[i], ValueId(), ValueId(), 0, StepKind::compute});
    }
    std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      return a.position != b.position ? a.position < b.position : a.phase < b.phase;
    });
    for (const Item& item : items_) emit(item);
    set_overwriters();
  }

  void emit(const Item& item) {
    if (item.graph_op < 0) return emit_copy(item);
    const auto inputs = graph_.inputs[item.graph_op], outputs = graph_.outputs[item.graph_op];
    const OpId id = builder_.add_op(graph_.ops[item.graph_op], inputs,
                                    distinct_reads(inputs, graph_.held[item.graph_op]), outputs,
                                    graph_.reuse[item.graph_op]);
    for (const ValueId v : outputs) {
      if (v >= 0) value(v).producer = id;
    }
  }

  void emit_copy(const Item& item) {
    Value& to = value(item.to);
    to.producer = builder_.next_op();
    Op op;
    op.kind = item.kind;
    op.leaf = item.leaf;
    op.instruction = to.source;
    op.seconds = item.kind == StepKind::upload     ? upload_seconds(to.bytes, graph_.host)
                 : item.kind == StepKind::download ? download_seconds(to.bytes, graph_.host)
                                                   : copy_seconds(to.bytes);
    op.recomputable = std::find(graph_.held.items.begin(), graph_.held.items.end(), item.to) ==
                      graph_.held.items.end();
    if (item.from >= 0) {
      builder_.add_op(op, {item.from}, {item.to});
    } else {
      builder_.add_op(op, {}, {item.to});
    }
  }

  // Each once: in the order of the operands where there are few, else sorted.
  static std::vector<ValueId> distinct_reads(std::span<const ValueId> inputs,
                                             std::span<const ValueId> held) {
    std::vector<ValueId> reads;
    for (const ValueId v : inputs) {
      if (v >= 0 && std::find(reads.begin(), reads.end(), v) == reads.end()) reads.push_back(v);
      if (reads.size() > 64) break;
    }
    if (reads.size() > 64) {
      reads.clear();
      for (const ValueId v : inputs) {
        if (v >= 0) reads.push_back(v);
      }
      std::sort(reads.begin(), reads.end());
      reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    }
    for (const ValueId v : held) {
      if (std::find(reads.begin(), reads.end(), v) == reads.end()) reads.push_back(v);
    }
    return reads;
  }

  // Each donated parameter takes one result at most; the op that makes it writes the buffer.
  void set_overwriters() {
    for (const ValueId v : problem_.results) {
      if (v < 0 || value(v).home != Home::parameter || value(v).producer < 0) continue;
      const ValueId old = graph_.parameters[at(value(v).index)];
      value(old).overwritten = value(v).producer;
    }
  }

  // Small values made from what is overwritten are kept to the end, so that they don't forbid the
  // recomputation of all that is made from them in turn (a batch's scale in one fusion with the
  // update of running statistics). Together they stay below a small part of all values, and
  // below the largest.
  void keep_small_values() {
    std::int64_t largest = 0;
    std::int64_t keepable = 0;
    for (const Value& any : problem_.values) {
      if (any.home != Home::arena) continue;
      largest = std::max(largest, any.bytes);
      keepable += any.bytes / 256;
    }
    keepable = std::min(keepable, largest);
    for (const OpId op : problem_.ops.ids()) {
      OpId deadline = kNever;
      for (const ValueId v : problem_.reads[op]) {
        if (value(v).producer < 0) deadline = std::min(deadline, value(v).overwritten);
      }
      if (deadline == kNever) continue;
      for (const ValueId v : problem_.outputs[op]) {
        if (v < 0 || value(v).home != Home::arena) continue;
        if (value(v).bytes > std::min(largest / 64, keepable)) continue;
        keepable -= value(v).bytes;
        value(v).live_out = true;
      }
    }
  }

  void count_fixed_bytes() {
    for (std::size_t p = 0; p < graph_.parameters.size(); ++p) {
      if (graph_.parameters[p] >= 0 && graph_.residency[p] != ParameterResidency::host) {
        problem_.parameter_bytes += graph_value(graph_.parameters[p]).bytes;
      }
    }
    for (std::size_t k = 0; k < problem_.results.size(); ++k) {
      const ValueId v = problem_.results[k];
      if (v < 0 || value(v).home != Home::output || graph_.is_on_host(k)) continue;
      problem_.output_bytes += value(v).bytes;
    }
  }

  const Graph& graph_;
  std::vector<OpId> order_;
  ProblemBuilder builder_;
  Problem& problem_ = builder_.problem();
  IdVector<OpId, std::int32_t> position_;
  IdVector<ValueId, std::int32_t> first_reader_;
  IdVector<ValueId, std::pair<std::int32_t, std::int32_t>>
      last_reader_;  // last, and the one before
  IdVector<ValueId, char> claimed_;
  std::vector<int> pending_;
  std::vector<Overwriter> overwriters_;
  std::vector<Item> items_;
};

}  // namespace

Problem arrange(const Graph& graph, std::span<const OpId> order, bool movable) {
  return Arranger(graph, order, movable).run();
}

void choose_variant(Problem& problem, OpId op, int choice) {
  Op& what = problem.ops[op];
  const auto& row = problem.graph->variants[at(what.variants)];
  const SlicedLoop* sliced = problem.sliced_loop(op);
  const auto seconds = [&](int variant) {
    const double callees = row[at(variant)].seconds;
    return sliced == nullptr ? callees : sliced_seconds(*sliced, callees);
  };
  const int before = problem.variant[op];
  if (before >= 0) what.seconds -= seconds(before);
  problem.variant[op] = choice;
  what.workspace = row[at(choice)].arena_bytes + (sliced == nullptr ? 0 : sliced->window_bytes);
  what.seconds += seconds(choice);
}

}  // namespace plimsoll::planner
