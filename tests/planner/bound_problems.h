// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <queue>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// Builds small problems by hand.
class ProblemMaker {
 public:
  ValueId parameter(OpId overwritten = kNever) {
    Value v;
    v.home = Home::parameter;
    v.overwritten = overwritten;
    problem_.values.push_back(v);
    problem_.view_of.push_back(-1);
    return last();
  }
  ValueId value(std::int64_t bytes, ValueId view_of = -1) {
    Value v;
    v.bytes = bytes;
    v.producer = problem_.op_count();
    problem_.values.push_back(v);
    problem_.view_of.push_back(view_of);
    return last();
  }
  OpId op(double seconds, const std::vector<ValueId>& reads, const std::vector<ValueId>& outputs,
          std::vector<Reuse> reuse = {}, std::int64_t workspace = 0, bool recomputable = true) {
    Op o;
    o.seconds = seconds;
    o.workspace = workspace;
    o.recomputable = recomputable;
    problem_.ops.push_back(o);
    for (const ValueId v : reads) {
      problem_.inputs.push(v);
      problem_.reads.push(v);
    }
    for (const ValueId v : outputs) problem_.outputs.push(v);
    problem_.inputs.close();
    problem_.reads.close();
    problem_.outputs.close();
    problem_.reuse.push_back(std::move(reuse));
    problem_.variant.push_back(-1);
    return problem_.op_count() - 1;
  }
  Value& at(ValueId v) { return problem_.values[static_cast<std::size_t>(v)]; }
  Problem finish() {
    problem_.uses = find_uses(problem_.reads, problem_.values.size());
    problem_.deadline = find_deadlines(problem_);
    return std::move(problem_);
  }

 private:
  ValueId last() const { return static_cast<ValueId>(problem_.values.size()) - 1; }
  Problem problem_;
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
  ValueId gradient = -1;
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
    all.push_back(make.parameter(ops / 2 + draw(ops)));
    storage.push_back(all.back());
  }
  for (int i = 0; i < ops; ++i) {
    std::vector<ValueId> reads;
    const auto read = [&](std::size_t k) {
      for (const ValueId v : {all[k], storage[k]}) {
        const ValueId parameter = 0;
        if (v == parameter && make.at(v).producer < 0 && make.at(v).overwritten < i) continue;
        if (std::find(reads.begin(), reads.end(), v) == reads.end()) reads.push_back(v);
      }
    };
    for (int k = draw(3); k > 0 && !all.empty(); --k) {
      // Late reads of early values: what a backward pass does.
      const auto n = static_cast<int>(all.size());
      read(static_cast<std::size_t>(draw(2) == 0 ? n - 1 - draw(std::min(n, 2)) : draw(n)));
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
  const auto values = problem.values.size();
  const auto bit = [](ValueId v) { return std::uint64_t{1} << v; };
  const auto bytes = [&](std::uint64_t there) {
    std::int64_t sum = 0;
    for (std::size_t v = 0; v < values; ++v) {
      if (there >> v & 1) sum += problem.values[v].bytes;
    }
    return sum;
  };
  const auto views = [&](ValueId of) {
    std::uint64_t mask = 0;
    for (std::size_t v = 0; v < values; ++v) {
      if (problem.view_of[v] == of) mask |= std::uint64_t{1} << v;
    }
    return mask;
  };
  std::uint64_t held = 0;
  for (std::size_t v = 0; v < values; ++v) {
    if (problem.values[v].live_out) held |= std::uint64_t{1} << v;
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
    for (ValueId v = 0; v < static_cast<ValueId>(values); ++v) {
      if (there & bit(v)) reach(seconds, next, there & ~(bit(v) | views(v)));
    }
    for (OpId op = 0; op <= std::min(next, problem.op_count() - 1); ++op) {
      const Op& what = problem.ops[static_cast<std::size_t>(op)];
      if (op < next && !what.recomputable) continue;
      bool can = true;
      for (const ValueId v : problem.reads[op]) {
        const Value& value = problem.values[static_cast<std::size_t>(v)];
        if (value.producer >= 0 ? (there & bit(v)) == 0 : value.overwritten < next) can = false;
      }
      if (!can) continue;
      std::uint64_t after = there;
      for (const ValueId v : problem.outputs[op]) after = (after & ~views(v)) | bit(v);
      const int then = std::max(next, op + 1);
      const std::int64_t needed = bytes(there | after) + what.workspace;
      if (needed <= limit) reach(seconds + what.seconds, then, after);
      for (const Reuse& r : problem.reuse[static_cast<std::size_t>(op)]) {
        if (!problem.in_arena(r.input) || !problem.in_arena(r.output)) continue;
        const std::int64_t saved = problem.values[static_cast<std::size_t>(r.output)].bytes;
        if (needed - saved > limit) continue;
        reach(seconds + what.seconds, then, after & ~(bit(r.input) | views(r.input)));
      }
    }
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace plimsoll::planner
