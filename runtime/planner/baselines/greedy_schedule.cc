// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/baselines/baselines.h"

#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/planner/baselines/greedy_pass.h"
#include "runtime/planner/remat/improve.h"

namespace plimsoll::planner {
namespace {

// Added when the problem was arranged.
bool is_added(const Op& op) {
  return op.kind == StepKind::copy || op.kind == StepKind::upload || op.kind == StepKind::download;
}

// The pass's order of instructions as ops. Copies, uploads and downloads, which it knows nothing
// about, keep their places among the ops around them.
class Translation {
 public:
  explicit Translation(const Problem& problem) : problem_(problem), done_(problem.ops.size(), 0) {}

  void run(OpId op) {
    for (OpId added = next_; added < op; ++added) {
      if (!done_[added] && is_added(added) && is_ready(added)) push(added);
    }
    while (next_ < op && done_[next_]) ++next_;
    for (const ValueId v : problem_.reads[op]) {
      const OpId producer = problem_.values[v].producer;
      if (producer >= 0 && !done_[producer] && is_added(producer)) push(producer);
    }
    push(op);
  }

  Schedule finish() {
    for (const OpId op : problem_.ops.ids()) {
      if (!done_[op]) push(op);
    }
    return std::move(schedule_);
  }

 private:
  bool is_added(OpId op) const { return planner::is_added(problem_.ops[op]); }
  bool is_ready(OpId op) const {
    for (const ValueId v : problem_.reads[op]) {
      const OpId producer = problem_.values[v].producer;
      if (producer >= 0 && !done_[producer]) return false;
    }
    return true;
  }
  void push(OpId op) {
    schedule_.push_back(op);
    done_[op] = 1;
  }

  const Problem& problem_;
  IdVector<OpId, char> done_;
  OpId next_{0};
  Schedule schedule_;
};

}  // namespace

std::optional<Schedule> greedy_schedule(const Problem& problem, std::int64_t arena_limit,
                                        std::int64_t min_bytes) {
  const ir::Computation& original = *problem.graph->computation;
  const std::unique_ptr<ir::Module> module = original.module()->clone();
  ir::Computation* copy = module->find(original.name());
  if (copy == nullptr) return std::nullopt;
  std::unordered_map<std::string, OpId> op_of;
  for (const OpId op : problem.ops.ids()) {
    const Op& what = problem.ops[op];
    if (!is_added(what)) op_of.emplace(what.instruction->name(), op);
  }
  GreedyOptions options;
  options.limit_bytes = arena_limit;
  options.min_bytes = min_bytes;
  GreedyPass pass(*module, options);
  pass.rematerialize(*copy, arena_limit, false);
  Translation translation(problem);
  for (const auto& instruction : copy->instructions()) {
    const auto origin = pass.origins().find(instruction.get());
    const ir::Instruction* source =
        origin == pass.origins().end() ? instruction.get() : origin->second;
    const auto op = op_of.find(source->name());
    if (op != op_of.end()) translation.run(op->second);
  }
  Schedule schedule = translation.finish();
  drop_unread(problem, schedule);
  if (!is_valid(problem, schedule)) return std::nullopt;
  if (evaluate(problem, schedule).arena_peak > arena_limit) return std::nullopt;
  return schedule;
}

}  // namespace plimsoll::planner
