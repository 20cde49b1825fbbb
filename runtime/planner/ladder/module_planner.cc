// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/ladder/module_planner.h"

#include <fmt/core.h>
#include <algorithm>
#include <chrono>
#include <string>
#include <unordered_set>

#include "runtime/planner/cost/builtin_costs.h"
#include "runtime/planner/cost/trip_count.h"
#include "runtime/planner/facts/codec_choice.h"
#include "runtime/planner/plan_summary.h"
#include "runtime/planner/problem/branch_states.h"
#include "runtime/planner/problem/extract.h"
#include "runtime/planner/residency.h"

namespace plimsoll::planner {
namespace {

using ir::Instruction;
using ir::Opcode;

constexpr int kMostCalleePlans = 12;

// Constants of a computation and of the computations it runs (not of fusions and reducers).
std::int64_t count_constants(const ir::Computation& computation,
                             std::unordered_set<const ir::Computation*>& seen) {
  if (!seen.insert(&computation).second) return 0;
  std::int64_t bytes = 0;
  for (const auto& instruction : computation.instructions()) {
    if (instruction->opcode() == Opcode::constant) {
      for (const ir::Shape* leaf : ir::leaves(instruction->shape())) {
        bytes += aligned_bytes(leaf->byte_size());
      }
    } else if (ir::op_info(instruction->opcode()).op_class == ir::OpClass::control) {
      for (const ir::Computation* callee : instruction->called_computations()) {
        bytes += count_constants(*callee, seen);
      }
    }
  }
  return bytes;
}

// The leaf of `shape` at a tuple path; -1 when the path leads elsewhere than to an array.
int leaf_at(const ir::Shape& shape, std::span<const std::int64_t> path) {
  const ir::Shape* here = &shape;
  int leaf = 0;
  for (const std::int64_t index : path) {
    if (!here->is_tuple() || index < 0 ||
        index >= static_cast<std::int64_t>(here->elements().size())) {
      return -1;
    }
    leaf += ir::leaf_offset(*here, static_cast<int>(index));
    here = &here->elements()[at(index)];
  }
  return here->is_array() ? leaf : -1;
}

// The first leaf of each parameter, and one past the last.
std::vector<int> first_leaves(const ir::Computation& computation) {
  std::vector<int> first{0};
  for (const Instruction* parameter : computation.parameters()) {
    first.push_back(first.back() + (parameter == nullptr ? 0 : ir::leaf_count(parameter->shape())));
  }
  return first;
}

// Of the elements of a tuple.
std::vector<int> first_leaves(const ir::Shape& shape) {
  std::vector<int> first{0};
  if (!shape.is_tuple()) return first;
  for (const ir::Shape& element : shape.elements()) {
    first.push_back(first.back() + ir::leaf_count(element));
  }
  return first;
}

int parameter_leaf_count(const ir::Computation& computation) {
  return first_leaves(computation).back();
}

}  // namespace

Result<std::unique_ptr<ModulePlanner>> ModulePlanner::create(const ir::Module& module,
                                                             const CostModel& cost_model,
                                                             const PlanOptions& options,
                                                             const Cancellation* stop) {
  const auto start = std::chrono::steady_clock::now();
  if (module.entry() == nullptr) return invalid_argument("make_plan: module without an entry");
  std::unique_ptr<ModulePlanner> planner(new ModulePlanner(module, cost_model, options));
  planner->stop_ = stop;
  PLIMSOLL_RETURN_IF_ERROR(planner->choose_residency());
  std::unordered_set<const ir::Computation*> seen;
  planner->constant_bytes_ = count_constants(*module.entry(), seen);
  planner->graph_ = planner->build_graph(*module.entry(), Role::entry, planner->residency_);
  if (const auto& on_host = planner->options_.results_on_host; !on_host.empty()) {
    if (on_host.size() != planner->graph_.results.size()) {
      return invalid_argument(fmt::format("make_plan: where {} results are is said, there are {}",
                                          on_host.size(), planner->graph_.results.size()));
    }
    planner->graph_.results_on_host = on_host;
  }
  planner->graph_.host = planner->options_.host;
  planner->choose_aliases();
  planner->ladder_ = std::make_unique<Ladder>(planner->graph_, planner->options_,
                                              module.is_scheduled, planner->constant_bytes_);
  PLIMSOLL_RETURN_IF_ERROR(planner->check_stop());
  planner->stop_ = nullptr;
  planner->create_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return planner;
}

Status ModulePlanner::choose_residency() {
  const ir::Computation& entry = *module_.entry();
  const auto count = at(parameter_leaf_count(entry));
  if (!options_.parameters.empty()) {
    if (options_.parameters.size() != count) {
      return invalid_argument(
          fmt::format("make_plan: {} parameter residencies for {} parameter leaves",
                      options_.parameters.size(), count));
    }
    residency_ = options_.parameters;
    return ok_status();
  }
  residency_ = default_residency(module_);
  return ok_status();
}

void ModulePlanner::choose_aliases() {
  std::vector<char> given(graph_.parameters.size(), 0);
  const ir::Shape& result = module_.entry()->root()->shape();
  const std::vector<int> first_of_parameter = first_leaves(*module_.entry());
  const std::vector<int> first_of_result = first_leaves(result);
  const auto parameter_leaf = [&](std::int64_t number, std::span<const std::int64_t> path) {
    const auto& parameters = module_.entry()->parameters();
    if (number < 0 || number >= std::ssize(parameters)) return -1;
    const auto p = at(number);
    const int leaf = parameters[p] == nullptr ? -1 : leaf_at(parameters[p]->shape(), path);
    return leaf < 0 ? -1 : first_of_parameter[p] + leaf;
  };
  const auto result_leaf = [&](std::span<const std::int64_t> path) {
    if (!result.is_tuple() || path.empty()) return leaf_at(result, path);
    if (path.front() < 0 || path.front() >= std::ssize(result.elements())) return -1;
    const auto k = at(path.front());
    const int leaf = leaf_at(result.elements()[k], path.subspan(1));
    return leaf < 0 ? -1 : first_of_result[k] + leaf;
  };
  for (const auto& alias : module_.input_output_alias) {
    const int p = parameter_leaf(alias.parameter_number, alias.parameter_index);
    const int k = result_leaf(alias.output_index);
    if (p < 0 || k < 0 || given[at(p)] || graph_.is_on_host(at(k))) continue;
    if (residency_[at(p)] != ParameterResidency::donated) continue;
    graph_.alias[at(k)] = p;
    given[at(p)] = 1;
  }
  alias_by_size();
}

// Donated parameters without an alias of the module's own: a result takes the parameter of equal
// size that it is computed from most directly, then any of equal size.
//
// Which donated parameter a result goes to matters only by bytes, but computing an update into its
// own old value saves a copy where the op may work in place. Hence nearest first: a result that is
// computed from a parameter in one op, then in two, up to four, and at last by size alone.
void ModulePlanner::alias_by_size() {
  std::vector<char> taken(graph_.parameters.size(), 0);
  std::vector<int>& alias = graph_.alias;
  for (const int p : alias) {
    if (p >= 0) taken[at(p)] = 1;
  }
  const auto value = [&](ValueId v) -> const Value& { return graph_.values[v]; };
  const auto raw_bytes = [&](ValueId v) {
    return ir::leaves(value(v).source->shape())[at(value(v).leaf)]->byte_size();
  };
  const auto is_free = [&](int p) {
    return graph_.parameters[at(p)] >= 0 && residency_[at(p)] == ParameterResidency::donated &&
           !taken[at(p)];
  };
  const auto take = [&](std::size_t k, int p) {
    alias[k] = p;
    taken[at(p)] = 1;
  };
  std::unordered_set<ValueId> claimed;
  std::vector<std::size_t> open;
  for (std::size_t k = 0; k < alias.size(); ++k) {
    const ValueId v = graph_.results[k];
    if (v < 0 || alias[k] >= 0 || graph_.is_on_host(k)) continue;
    if (value(v).home == Home::parameter && is_free(value(v).index)) {
      take(k, value(v).index);
    } else if (value(v).producer >= 0 && claimed.insert(v).second) {
      open.push_back(k);
    }
  }
  constexpr int kMostDistance = 4;
  for (int distance = 1; distance <= kMostDistance; ++distance) {
    for (const std::size_t k : open) {
      if (alias[k] >= 0) continue;
      const ValueId result = graph_.results[k];
      std::vector<ValueId> front{result};
      for (int step = 0; step < distance && alias[k] < 0; ++step) {
        std::vector<ValueId> next;
        for (const ValueId v : front) {
          if (value(v).producer < 0) continue;
          const auto inputs = graph_.inputs[value(v).producer];
          next.insert(next.end(), inputs.begin(), inputs.end());
          if (next.size() > 256) break;
        }
        front = std::move(next);
        std::erase(front, ValueId());
        for (const ValueId v : front) {
          if (alias[k] < 0 && value(v).home == Home::parameter && is_free(value(v).index) &&
              raw_bytes(v) == raw_bytes(result)) {
            take(k, value(v).index);
          }
        }
      }
    }
  }
  std::map<std::int64_t, std::vector<int>> left;
  for (std::size_t p = graph_.parameters.size(); p-- > 0;) {
    if (is_free(static_cast<int>(p))) {
      left[raw_bytes(graph_.parameters[p])].push_back(static_cast<int>(p));
    }
  }
  for (const std::size_t k : open) {
    if (alias[k] >= 0) continue;
    const auto it = left.find(raw_bytes(graph_.results[k]));
    if (it == left.end() || it->second.empty()) continue;
    take(k, it->second.back());
    it->second.pop_back();
  }
}

Graph ModulePlanner::build_graph(const ir::Computation& computation, Role role,
                                 std::span<const ParameterResidency> residency) {
  Graph graph = extract(computation, role, residency, cost_model_);
  for (const OpId op : graph.ops.ids()) {
    if (ir::op_info(graph.ops[op].instruction->opcode()).op_class != ir::OpClass::control) continue;
    graph.ops[op].variants = static_cast<std::int32_t>(graph.variants.size());
    graph.variants.push_back(variants_of(graph, op));
  }
  if (options_.remedies.compress && options_.effort != Effort::first) {
    graph.codecs =
        find_codecs(graph, cost_model_,
                    options_.remedies.lossy ? options_.remedies.lossy_codec : CodecKind::none);
  }
  return graph;
}

const ModulePlanner::Plans& ModulePlanner::callee_plans(const ir::Computation& computation,
                                                        Role role, const std::vector<int>& alias) {
  const auto key = std::tuple(&computation, role, alias);
  const auto found = callee_plans_.find(key);
  if (found != callee_plans_.end()) return found->second;
  const auto count = at(parameter_leaf_count(computation));
  Graph graph;
  if (!alias.empty()) {
    graph = branch_graph(computation);
    graph.alias = alias;
    graph.residency.assign(count, ParameterResidency::resident);
    for (const int leaf : alias) {
      if (leaf >= 0) graph.residency[at(leaf)] = ParameterResidency::donated;
    }
  } else {
    const std::vector<ParameterResidency> residency(
        count, role == Role::body ? ParameterResidency::donated : ParameterResidency::resident);
    graph = build_graph(computation, role, residency);
  }
  if (role == Role::body) {
    // Leaf k of the state stays in its buffer.
    for (std::size_t k = 0; k < graph.alias.size(); ++k) {
      if (graph.results[k] >= 0) graph.alias[k] = static_cast<int>(k);
    }
  }
  Ladder ladder(graph, options_, module_.is_scheduled, 0);
  ladder.stop_by(stop_);
  return callee_plans_.emplace(key, ladder.pareto(kMostCalleePlans)).first->second;
}

const Graph& ModulePlanner::branch_graph(const ir::Computation& computation) {
  const auto found = branch_graphs_.find(&computation);
  if (found != branch_graphs_.end()) return found->second;
  const std::vector<ParameterResidency> residency(at(parameter_leaf_count(computation)),
                                                  ParameterResidency::donated);
  Graph graph = build_graph(computation, Role::callee, residency);
  return branch_graphs_.emplace(&computation, std::move(graph)).first->second;
}

// Of each branch; and says in `graph` which values results may take the place of.
//
// Example: cond(p, s => update(s, ...), s => s), where nothing reads s afterwards. Both branches
// are planned to leave their result where s is: one updates it there, the other does nothing.
std::vector<const ModulePlanner::Plans*> ModulePlanner::branch_plans(Graph& graph, OpId op) {
  const auto& computations = graph.ops[op].instruction->called_computations();
  std::vector<const Graph*> branches;
  for (const ir::Computation* branch : computations) branches.push_back(&branch_graph(*branch));
  const std::vector<BranchState> states = find_branch_states(graph, op, branches);
  std::vector<const Plans*> plans;
  for (std::size_t b = 0; b < computations.size(); ++b) {
    std::vector<int> alias(branches[b]->results.size(), -1);
    for (const BranchState& state : states) alias[at(state.result)] = state.leaves[b];
    plans.push_back(&callee_plans(*computations[b], Role::callee, alias));
  }
  // What a branch that reads the value writes elsewhere must not go where the value is.
  const auto is_left = [&](const BranchState& state, std::size_t b) {
    return state.leaves[b] < 0 ||
           std::all_of(
               plans[b]->begin(), plans[b]->end(),
               [&](auto& plan) { return plan->state_leaf(state.result) == state.leaves[b]; });
  };
  for (const BranchState& state : states) {
    bool all = true;
    for (std::size_t b = 0; b < plans.size(); ++b) all = all && is_left(state, b);
    if (all) graph.reuse[op].push_back({state.value, graph.outputs[op][at(state.result)]});
  }
  return plans;
}

// A loop's variants combine the plans of its condition and its body, which share the workspace of
// the call site: at an arena of A bytes each takes its fastest plan of at most A. Example: the
// condition has one plan of 1 KB; the body has plans of 80 and 50 MB. The arenas worth trying are
// 80 MB, 50 MB and 1 KB; at 1 KB the body has no plan, so two variants are left, fastest first. A
// variant that is no slower than one with a larger arena replaces it.
std::vector<Variant> ModulePlanner::variants_of(Graph& graph, OpId op) {
  const Instruction& instruction = *graph.ops[op].instruction;
  const bool loop = instruction.opcode() == Opcode::while_;
  const double trips = loop ? trip_count(instruction) : 1;
  std::vector<const Plans*> lists;
  if (instruction.opcode() == Opcode::conditional) {
    lists = branch_plans(graph, op);
  } else {
    for (std::size_t i = 0; i < instruction.called_computations().size(); ++i) {
      const Role role = !loop ? Role::callee : i == 0 ? Role::condition : Role::body;
      lists.push_back(&callee_plans(*instruction.called_computations()[i], role));
    }
  }
  std::vector<std::int64_t> arenas;
  std::int64_t least = 0;
  for (const Plans* plans : lists) {
    for (const auto& plan : *plans) arenas.push_back(plan->arena_bytes);
    least = std::max(least, plans->back()->arena_bytes);
  }
  std::sort(arenas.begin(), arenas.end(), std::greater<>());
  arenas.erase(std::unique(arenas.begin(), arenas.end()), arenas.end());
  std::vector<Variant> variants;
  for (const std::int64_t arena : arenas) {
    if (arena < least) break;
    Variant variant;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      const auto fits = std::find_if(lists[i]->begin(), lists[i]->end(),
                                     [&](const auto& plan) { return plan->arena_bytes <= arena; });
      variant.callees.push_back(*fits);
      variant.arena_bytes = std::max(variant.arena_bytes, (*fits)->arena_bytes);
      const double seconds = (*fits)->predicted_seconds;
      if (!loop) {
        variant.seconds = std::max(variant.seconds, seconds);
      } else {
        variant.seconds += seconds * (i == 0 ? trips + 1 : trips);
      }
    }
    if (!variants.empty() && variant.seconds <= variants.back().seconds) variants.pop_back();
    variants.push_back(std::move(variant));
  }
  return variants;
}

Result<Plan> plan_with_choices(const ir::Module& module, const CostModel& cost_model,
                               const PlanOptions& options, const Chooser& choose) {
  PLIMSOLL_ASSIGN_OR_RETURN(const std::unique_ptr<ModulePlanner> planner,
                            ModulePlanner::create(module, cost_model, options));
  return planner->plan_with(choose);
}

// The planner by the table's costs: this one, where its own are the table's.
Result<ModulePlanner*> ModulePlanner::table() {
  if (!is_table_) {
    is_table_ = table_options(options_) == options_ && planner::is_table(module_, cost_model_);
  }
  if (*is_table_) return this;
  if (table_ == nullptr) {
    table_costs_ = std::make_unique<TableCostModel>(cost_model_);
    PLIMSOLL_ASSIGN_OR_RETURN(table_,
                              create(module_, *table_costs_, table_options(options_), stop_));
    table_->is_table_ = true;
  }
  return table_.get();
}

// The same planner without swap, null where there is none to leave out. Another search may end
// higher that has more ways to go, and a tier must not raise the floor: below what this one finds,
// that one is asked.
Result<ModulePlanner*> ModulePlanner::without_swap() {
  const bool has_tiers = std::any_of(std::begin(kTiers), std::end(kTiers),
                                     [&](MemorySpace tier) { return options_[tier].bytes > 0; });
  if (!options_.remedies.swap || !has_tiers) return nullptr;
  if (without_swap_ == nullptr) {
    PlanOptions fewer = options_;
    fewer.remedies.swap = false;
    PLIMSOLL_ASSIGN_OR_RETURN(without_swap_, create(module_, cost_model_, fewer, stop_));
  }
  without_swap_->stop_by(stop_);
  return without_swap_.get();
}

Status ModulePlanner::check_stop() const {
  if (stop_ == nullptr || !stop_->is_cancelled()) return ok_status();
  return Status(StatusCode::cancelled, "make_plan: cancelled by the caller");
}

void ModulePlanner::stop_by(const Cancellation* stop) {
  stop_ = stop;
  ladder_->stop_by(stop);
  if (table_ != nullptr) table_->stop_by(stop);
  if (without_swap_ != nullptr) without_swap_->stop_by(stop);
}

Result<Plan> ModulePlanner::plan(std::int64_t limit_bytes, const Cancellation* stop,
                                 Refusal refusal) {
  stop_by(stop);
  Result<Plan> made = find_plan(limit_bytes, refusal);
  stop_by(nullptr);
  return made;
}

// By the table's costs; null: there is none. With swap, or without where only that fits.
Result<const Plan*> ModulePlanner::plan_by_table(std::int64_t limit_bytes) {
  PLIMSOLL_ASSIGN_OR_RETURN(ModulePlanner* const table, this->table());
  table->ladder_->stop_by(stop_);
  const Plan* plan = table->ladder_->best(limit_bytes);
  PLIMSOLL_RETURN_IF_ERROR(check_stop());
  if (plan != nullptr) return plan;
  PLIMSOLL_ASSIGN_OR_RETURN(ModulePlanner* const fewer, table->without_swap());
  if (fewer != nullptr) plan = fewer->ladder_->best(limit_bytes);
  PLIMSOLL_RETURN_IF_ERROR(check_stop());
  return plan;
}

Status ModulePlanner::refuse(std::int64_t limit_bytes, Refusal refusal) {
  if (refusal == Refusal::brief) {
    return Status(StatusCode::resource_exhausted,
                  fmt::format("make_plan: no plan fits the limit of {} bytes", limit_bytes));
  }
  const Floor floor = this->floor();
  PLIMSOLL_RETURN_IF_ERROR(check_stop());
  std::string message = fmt::format(
      "make_plan: no plan fits the limit of {} bytes (the smallest that would do is {}; {})",
      limit_bytes, floor.bytes, floor.culprit);
  return Status::resource_exhausted(std::move(message), {limit_bytes, floor.bytes, floor.culprit});
}

// Whether a limit is kept at all is the table's to say, wherever memory is short: below the floor
// measured times may lead to a plan, which is refused, and above it to a slower one than less
// memory gets by the table. So it is asked first: what it refuses needs no search by other costs,
// which would go down to the bottom, too.
Result<Plan> ModulePlanner::find_plan(std::int64_t limit_bytes, Refusal refusal) {
  const auto start = std::chrono::steady_clock::now();
  constexpr std::size_t kFewOps = 1'000;
  const bool is_first = options_.effort == Effort::first;
  const bool asks_first =
      limit_bytes != kUnlimited && !is_first && !options_.without.contains(Technique::table);
  const Plan* other = nullptr;
  if (asks_first && (graph_.ops.size() <= kFewOps || !ladder_->keeps_all(limit_bytes))) {
    PLIMSOLL_ASSIGN_OR_RETURN(other, plan_by_table(limit_bytes));
    if (other == nullptr) return refuse(limit_bytes, refusal);
  }
  const Plan* best = ladder_->best(limit_bytes);
  PLIMSOLL_RETURN_IF_ERROR(check_stop());
  if (is_first && best == nullptr) {
    return Status(
        StatusCode::resource_exhausted,
        fmt::format("make_plan: no first plan fits the limit of {} bytes (more effort may "
                    "find one)",
                    limit_bytes));
  }
  if (best == nullptr && other == nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(other, plan_by_table(limit_bytes));
    if (other == nullptr) return refuse(limit_bytes, refusal);
  }
  std::optional<Plan> by_table;
  if (other != nullptr && other != best) {
    by_table = *other;
    choose_copies(*by_table, options_);
    price_plan(*by_table, cost_model_, options_);
  }
  // One that seems faster than running everything once is not taken for it.
  const bool is_better =
      by_table && (best == nullptr || (by_table->predicted_seconds < best->predicted_seconds &&
                                       by_table->predicted_seconds >= best->unlimited_seconds));
  Plan plan;
  if (is_better) {
    plan = std::move(*by_table);
  } else {
    plan = *best;
    plan.lower_bound_seconds = ladder_->lower_bound_seconds(limit_bytes, *best);
  }
  PLIMSOLL_RETURN_IF_ERROR(check_stop());
  plan.limit_bytes = limit_bytes;
  plan.policy = to_string(options_.policy);
  plan.planning_seconds =
      create_seconds_ +
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

Floor ModulePlanner::floor() {
  if (const auto table = this->table(); table.ok() && *table != this) return (*table)->floor();
  Floor floor;
  floor.bytes = ladder_->floor();
  // A plan may move first executions, too, and come out lower.
  floor.lower_bound_bytes = std::min(ladder_->floor_lower_bound(), floor.bytes);
  floor.callers_bytes = ladder_->callers_bytes();
  floor.culprit = culprit();
  if (const auto fewer = without_swap(); fewer.ok() && *fewer != nullptr) {
    Floor other = (*fewer)->floor();
    if (other.bytes < floor.bytes) floor = std::move(other);
  }
  return floor;
}

// The step of the lowest plan that needs most, and the largest values that live there.
std::string ModulePlanner::culprit() {
  const Plan& plan = ladder_->lowest();
  const std::int64_t fixed = plan.peak_bytes - plan.arena_bytes;
  if (plan.steps.empty() || plan.arena_bytes == 0) {
    return fmt::format("parameters, constants and outputs alone are {} bytes", fixed);
  }
  const IdVector<StepId, std::int64_t> load = arena_load(plan);
  const auto most = std::max_element(load.begin(), load.end());
  const StepId at(most - load.begin());
  std::vector<const Buffer*> largest;
  for (const Buffer& b : plan.buffers) {
    if (b.placement == Placement::arena && b.first_step <= at && at <= b.last_step) {
      largest.push_back(&b);
    }
  }
  std::stable_sort(largest.begin(), largest.end(),
                   [](const Buffer* a, const Buffer* b) { return a->bytes > b->bytes; });
  if (largest.size() > 4) largest.resize(4);
  const Instruction* instruction = plan.steps[at].instruction;
  std::string text = fmt::format(
      "'{}' at step {}: needs {} bytes beside {} of parameters, constants and outputs; "
      "largest live values: ",
      instruction == nullptr ? "copy" : instruction->name(), at.value(), *most, fixed);
  for (std::size_t i = 0; i < largest.size(); ++i) {
    text +=
        fmt::format("{}{} ({})", i > 0 ? ", " : "", largest[i]->source->name(), largest[i]->bytes);
  }
  return text;
}

}  // namespace plimsoll::planner
