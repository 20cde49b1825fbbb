// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/base/cancellation.h"
#include "runtime/base/status.h"
#include "runtime/planner/ladder/ladder.h"
#include "runtime/planner/planner.h"

namespace plimsoll::planner {

// All plans of one module under one set of options but the limit, which is the key: asking for
// several limits costs little more than asking for one. Keeps references to the module and the cost
// model. Not thread-safe.
class ModulePlanner {
 public:
  // INVALID_ARGUMENT when the options do not match the module. CANCELLED soon after `stop` says so
  // (null: never).
  static Result<std::unique_ptr<ModulePlanner>> create(const ir::Module& module,
                                                       const CostModel& cost_model,
                                                       const PlanOptions& options,
                                                       const Cancellation* stop = nullptr);

  // The fastest plan under the limit. Where measured costs lead to none, the one that the built-in
  // table leads to, which is why the floor is the same whatever was measured.
  // RESOURCE_EXHAUSTED with the floor and what pins it when no plan fits; without them where only a
  // first plan is looked for (Effort::first), and where the refusal is to be brief. CANCELLED as
  // above: the planner is of no use any more then.
  Result<Plan> plan(std::int64_t limit_bytes, const Cancellation* stop = nullptr,
                    Refusal refusal = Refusal::explained);
  Floor floor();
  Result<Plan> plan_with(const Chooser& choose) { return ladder_->plan_with(choose); }

 private:
  ModulePlanner(const ir::Module& module, const CostModel& cost_model, const PlanOptions& options)
      : module_(module), cost_model_(cost_model), options_(options) {}

  Status check_stop() const;
  void stop_by(const Cancellation* stop);
  Result<Plan> find_plan(std::int64_t limit_bytes, Refusal refusal);
  Result<const Plan*> plan_by_table(std::int64_t limit_bytes);
  Status refuse(std::int64_t limit_bytes, Refusal refusal);
  Status choose_residency();
  void choose_aliases();
  void alias_by_size();
  Graph build_graph(const ir::Computation& computation, Role role,
                    std::span<const ParameterResidency> residency);
  using Plans = std::vector<std::shared_ptr<const Plan>>;
  std::vector<Variant> variants_of(Graph& graph, OpId op);
  std::vector<const Plans*> branch_plans(Graph& graph, OpId op);
  const Plans& callee_plans(const ir::Computation& computation, Role role,
                            const std::vector<int>& alias = {});
  const Graph& branch_graph(const ir::Computation& computation);
  std::string culprit();
  Result<ModulePlanner*> table();
  Result<ModulePlanner*> without_swap();

  const ir::Module& module_;
  const CostModel& cost_model_;
  const PlanOptions options_;
  const Cancellation* stop_ = nullptr;
  std::vector<ParameterResidency> residency_;
  std::int64_t constant_bytes_ = 0;
  double create_seconds_ = 0;
  Graph graph_;
  std::unique_ptr<Ladder> ladder_;
  std::optional<bool> is_table_;  // whether this one plans by the table
  std::unique_ptr<const CostModel> table_costs_;
  std::unique_ptr<ModulePlanner> table_;
  std::unique_ptr<ModulePlanner> without_swap_;
  // By computation, role, and of a branch, per result leaf the parameter leaf it takes the place
  // of.
  std::map<std::tuple<const ir::Computation*, Role, std::vector<int>>, Plans> callee_plans_;
  std::map<const ir::Computation*, Graph> branch_graphs_;  // as if they might write all they read
};

// A plan of the entry computation that takes just the choices that `choose` makes for its problem
// and recomputes nothing, whatever the limit: for tests of what runs plans. INVALID_ARGUMENT as
// apply_choices.
Result<Plan> plan_with_choices(const ir::Module& module, const CostModel& cost_model,
                               const PlanOptions& options, const Chooser& choose);

}  // namespace plimsoll::planner
