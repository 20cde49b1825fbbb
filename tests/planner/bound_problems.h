// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <queue>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/planner/problem/problem_builder.h"

namespace plimsoll::planner {

// Builds small problems by hand.
class ProblemMaker {
 public:
  ValueId parameter(OpId overwritten = kNever) {
    Value v;
    v.home = Home::parameter;
    v.overwritten = overwritten;
    return add(v, {});
  }
  ValueId value(std::int64_t bytes, ValueId view_of = {}) {
    Value v;
    v.bytes = bytes;
    v.producer = builder_.next_op();
    return add(v, view_of);
  }
  OpId op(double seconds, const std::vector<ValueId>& reads, const std::vector<ValueId>& outputs,
          std::vector<Reuse> reuse = {}, std::int64_t workspace = 0, bool recomputable = true) {
    Op o;
    o.seconds = seconds;
    o.workspace = workspace;
    o.recomputable = recomputable;
    return builder_.add_op(o, reads, reads, outputs, std::move(reuse));
  }
  Value& at(ValueId v) { return builder_.value(v); }
  Problem finish() { return builder_.finish(); }

 private:
  // Problems that may have views say of every value whether it is one.
  ValueId add(const Value& v, ValueId view_of) {
    const ValueId id = builder_.add_value(v, view_of);
    builder_.problem().view_of.resize(builder_.problem().values.size());
    return id;
  }
  ProblemBuilder builder_;
};

// A chain of n ops and its backward chain: op n + k reads the gradient and the results of ops
// n - k - 1 and n - k - 2.
inline Problem training_chain(const std::vector<double>& seconds,
                              const std::vector<std::int64_t>& bytes) {
  ProblemMaker make;
  std::vector<ValueId> x;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const ValueId v = make.value(bytes[i]);
    make.op(seconds[i], i == 0 ? std::vector<ValueId>{} : std::vector<ValueId>{x.back()}, {v});
    x.push_back(v);
  }
  ValueId gradient;
  for (std::size_t i = seconds.size(); i-- > 0;) {
    std::vector<ValueId> reads{x[i]};
    if (i > 0) reads.push_back(x[i - 1]);
    if (gradient >= 0) reads.push_back(gradient);
    const ValueId g = make.value(bytes[i]);
    make.op(seconds[i], reads, {g});
    gradient = g;
  }
  return make.finish();
}

// A problem of `ops` ops with everything that may occur: several results, views, results written in
// place, ops that may not run again, parameters that are overwritten, results to hold.
inline Problem random_problem(std::mt19937& rng, int ops) {
  const auto draw = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  ProblemMaker make;
  std::vector<ValueId> all;
  std::vector<ValueId> storage;  // of each of `all`
  if (draw(2) == 0) {
    const int overwriter = ops / 2 + draw(ops);
    all.push_back(make.parameter(overwriter < ops ? OpId(overwriter) : kNever));
    storage.push_back(all.back());
  }
  for (int i = 0; i < ops; ++i) {
    std::vector<ValueId> reads;
    const auto read = [&](int position) {
      const auto k = plimsoll::at(position);
      for (const ValueId v : {all[k], storage[k]}) {
        const ValueId parameter{0};
        if (v == parameter && make.at(v).producer < 0 && make.at(v).overwritten < OpId(i)) continue;
        if (std::find(reads.begin(), reads.end(), v) == reads.end()) reads.push_back(v);
      }
    };
    for (int k = draw(3); k > 0 && !all.empty(); --k) {
      // Late reads of early values: what a backward pass does.
      const auto n = static_cast<int>(all.size());
      read(draw(2) == 0 ? n - 1 - draw(std::min(n, 2)) : draw(n));
    }
    const bool view = !reads.empty() && make.at(reads.back()).producer >= 0 && draw(6) == 0;
    std::vector<ValueId> outputs;
    std::vector<Reuse> reuse;
    std::vector<ValueId> new_storage;
    if (view) {
      outputs.push_back(make.value(0, reads.back()));
      new_storage.push_back(reads.back());
    } else {
      for (int k = draw(4) == 0 ? 2 : 1; k > 0; --k) {
        outputs.push_back(make.value(1 + draw(4)));
        new_storage.push_back(outputs.back());
      }
      if (!reads.empty() && draw(3) == 0 && make.at(reads[0]).bytes >= make.at(outputs[0]).bytes) {
        reuse.push_back({reads[0], outputs[0]});
      }
    }
    make.op(1 + draw(5), reads, outputs, reuse, draw(4) == 0 ? 1 + draw(2) : 0, draw(8) != 0);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      all.push_back(outputs[k]);
      storage.push_back(new_storage[k]);
      if (new_storage[k] == outputs[k] && draw(12) == 0) make.at(outputs[k]).live_out = true;
    }
  }
  return make.finish();
}

// The least time of any schedule by trying all of them; infinite when none fits. Knows nothing of
// how planners work: states are what is there and how far the first executions have come.
inline double exhaustive_seconds(const Problem& problem, std::int64_t limit) {
  const auto bit = [](ValueId v) { return std::uint64_t{1} << v.value(); };
  const auto bytes = [&](std::uint64_t there) {
    std::int64_t sum = 0;
    for (const ValueId v : problem.values.ids()) {
      if (there & bit(v)) sum += problem.values[v].bytes;
    }
    return sum;
  };
  const auto views = [&](ValueId of) {
    std::uint64_t mask = 0;
    for (const ValueId v : problem.values.ids()) {
      if (problem.view_of[v] == of) mask |= bit(v);
    }
    return mask;
  };
  std::uint64_t held = 0;
  for (const ValueId v : problem.values.ids()) {
    if (problem.values[v].live_out) held |= bit(v);
  }
  using State = std::pair<int, std::uint64_t>;
  std::map<State, double> best;
  using Item = std::tuple<double, int, std::uint64_t>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> open;
  const auto reach = [&](double seconds, int next, std::uint64_t there) {
    const auto [it, added] = best.emplace(State{next, there}, seconds);
    if (!added && it->second <= seconds) return;
    it->second = seconds;
    open.emplace(seconds, next, there);
  };
  reach(0, 0, 0);
  while (!open.empty()) {
    const auto [seconds, next, there] = open.top();
    open.pop();
    if (best[{next, there}] < seconds) continue;
    if (next == problem.op_count() && (there & held) == held) return seconds;
    for (const ValueId v : problem.values.ids()) {
      if (there & bit(v)) reach(seconds, next, there & ~(bit(v) | views(v)));
    }
    for (int n = 0; n <= std::min(next, problem.op_count() - 1); ++n) {
      const OpId op(n);
      const Op& what = problem.ops[op];
      if (n < next && !what.recomputable) continue;
      bool can = true;
      for (const ValueId v : problem.reads[op]) {
        const Value& value = problem.values[v];
        if (value.producer >= 0 ? (there & bit(v)) == 0 : value.overwritten < OpId(next))
          can = false;
      }
      if (!can) continue;
      std::uint64_t after = there;
      for (const ValueId v : problem.outputs[op]) after = (after & ~views(v)) | bit(v);
      const int then = std::max(next, n + 1);
      const std::int64_t needed = bytes(there | after) + what.workspace;
      if (needed <= limit) reach(seconds + what.seconds, then, after);
      for (const Reuse& r : problem.reuse[op]) {
        if (!problem.in_arena(r.input) || !problem.in_arena(r.output)) continue;
        const std::int64_t saved = problem.values[r.output].bytes;
        if (needed - saved > limit) continue;
        reach(seconds + what.seconds, then, after & ~(bit(r.input) | views(r.input)));
      }
    }
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace plimsoll::planner
