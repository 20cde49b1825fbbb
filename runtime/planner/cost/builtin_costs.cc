// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/builtin_costs.h"

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/planner/cost/cache_misses.h"
#include "runtime/planner/cost/trip_count.h"
#include "runtime/planner/problem/timeline.h"

namespace plimsoll::planner {
namespace {

bool is_transfer(const Step& step) {
  return step.kind == StepKind::swap_out || step.kind == StepKind::swap_in;
}

// Where a transfer's bytes lie on their tier.
const Buffer& stored_by(const Plan& plan, const Step& transfer) {
  const bool out = transfer.kind == StepKind::swap_out;
  return plan.buffers[out ? transfer.outputs.front() : transfer.inputs.front()];
}

// A clock over the steps. Steps of the device add up in `now`; each engine (a tier and a direction)
// has a time from which on it is free, and a transfer begins when its step has come and its engine
// is free. Only a wait brings the two together. Example: a transfer of 4 ms begins at 10 ms, the
// steps up to its wait take 3 ms: the wait ends at 14 ms, and 1 ms of the transfer was not hidden.
// Where copies take a share of the processor, that share of their time is added at once.
//
// `once` is what the same steps would take without a limit: no recomputations, codecs or waits.
class Pricer {
 public:
  Pricer(const CostModel& model, const PlanOptions& options) : model_(model), options_(options) {}

  void price(Plan& plan, double cache_bytes = 0) {
    const auto missed =
        cache_bytes > 0 ? missed_bytes(plan, cache_bytes) : IdVector<StepId, double>();
    std::array<double, kEngines> free{};
    IdVector<StepId, double> end(plan.steps.size(), 0);
    double now = 0, once = 0;
    for (const StepId t : plan.steps.ids()) {
      Step& step = plan.steps[t];
      if (is_transfer(step)) {
        const bool out = step.kind == StepKind::swap_out;
        const Buffer& stored = stored_by(plan, step);
        const MemorySpace where = space_of(stored.placement);
        const Tier& tier = options_[where];
        double& engine = free[at(engine_of(where, out))];
        const TransferTime time = time_transfer(tier, stored.bytes, out, step.synchronous);
        if (!step.synchronous) engine = std::max(now, engine) + time.engine_seconds;
        now += time.taken_seconds;
        end[t] = step.synchronous ? now : engine;
        continue;
      }
      if (step.kind == StepKind::swap_wait) {
        now = std::max(now, end[step.transfer]);
        continue;
      }
      Times times = of_step(plan, step, missed.empty() ? nullptr : &missed[t]);
      if (!step.sliced.empty()) times.predicted += sliced_loss(plan, step);
      now += times.predicted;
      if (step.kind != StepKind::recompute && step.codec.kind == CodecKind::none) {
        once += times.unlimited;
      }
    }
    plan.predicted_seconds = now;
    // Sums of the same numbers in another order.
    plan.unlimited_seconds = plan.lower_bound_seconds = std::min(once, now);
  }

 private:
  struct Times {
    double predicted = 0, unlimited = 0;
  };

  Times of_step(const Plan& plan, Step& step, const double* missed) {
    double own = 0;
    switch (step.kind) {
      case StepKind::upload: {
        // A constant that stays takes no time.
        const Buffer& from = plan.buffers[step.inputs.front()];
        if (from.placement == Placement::constant) {
          return {upload_seconds(from.bytes, options_.host), 0};
        }
        own = upload_seconds(from.bytes, options_.host);
        break;
      }
      case StepKind::download:
        own = download_seconds(plan.buffers[step.outputs.front()].bytes, options_.host);
        break;
      case StepKind::copy:
        own = copy_seconds(plan.buffers[step.outputs.front()].bytes);
        break;
      case StepKind::encode:
      case StepKind::decode: {
        const ir::Shape& shape = *ir::leaves(step.instruction->shape())[at(step.leaf)];
        own = model_.codec_seconds(step.codec, shape, step.kind == StepKind::encode);
        break;
      }
      case StepKind::free:
        break;
      default:
        own = missed == nullptr ? model_.seconds(*step.instruction)
                                : model_.seconds_with(*step.instruction, *missed);
    }
    Times sum{own, own};
    if (step.callees.empty()) return sum;
    const bool loop = step.instruction->opcode() == ir::Opcode::while_;
    const double trips = loop ? trip_count(*step.instruction) : 1;
    Times most;
    for (std::size_t i = 0; i < step.callees.size(); ++i) {
      auto& callee = step.callees[i];
      auto& priced = callees_[callee.get()];
      if (priced == nullptr) {
        auto copy = std::make_shared<Plan>(*callee);
        price(*copy);
        priced = std::move(copy);
      }
      callee = priced;
      const double times = i == 0 ? trips + 1 : trips;
      if (loop) {
        most.predicted += times * callee->predicted_seconds;
        most.unlimited += times * callee->unlimited_seconds;
      } else {
        most.predicted = std::max(most.predicted, callee->predicted_seconds);
        most.unlimited = std::max(most.unlimited, callee->unlimited_seconds);
      }
    }
    sum.predicted += most.predicted;
    sum.unlimited += most.unlimited;
    return sum;
  }

  // What the transfers of a loop's residuals add to its callees' time.
  double sliced_loss(const Plan& plan, const Step& step) const {
    SlicedLoop loop;
    for (const SlicedState& state : step.sliced) {
      const BufferId home = step.outputs[at(state.leaf)];
      add_transfers(loop, state, space_of(plan.buffers[home].placement), options_);
    }
    const double trips = trip_count(*step.instruction);
    const double callees = (trips + 1) * step.callees[0]->predicted_seconds +
                           trips * step.callees[1]->predicted_seconds;
    return sliced_seconds(loop, callees) - callees;
  }

  const CostModel& model_;
  const PlanOptions& options_;
  // Several steps may share a callee's plan: they go on to.
  std::unordered_map<const Plan*, std::shared_ptr<const Plan>> callees_;
};

// As many bytes behind the table's link.
Tier at_table_speed(const Tier& tier) { return {.bytes = tier.bytes}; }

}  // namespace

PlanOptions table_options(const PlanOptions& options) {
  PlanPolicy policy = options;
  policy.planning_seconds = 0;
  Machine machine = options;
  for (const MemorySpace tier : kTiers) machine[tier] = at_table_speed(machine[tier]);
  return {policy, machine, options};
}

void choose_copies(Plan& plan, const PlanOptions& options) {
  for (Step& step : plan.steps) {
    if (is_transfer(step)) {
      const Buffer& stored = stored_by(plan, step);
      step.synchronous = time_transfer(options[space_of(stored.placement)], stored.bytes,
                                       step.kind == StepKind::swap_out)
                             .synchronous;
    }
    for (SlicedState& state : step.sliced) {
      const MemorySpace where = space_of(plan.buffers[step.outputs[at(state.leaf)]].placement);
      state.synchronous =
          time_transfer(options[where], state.slice_bytes, state.writes).synchronous;
    }
  }
}

bool is_table(const ir::Module& module, const CostModel& model) {
  const RooflineCostModel table;
  const ir::Shape shape(ir::DType::f32, {1 << 20});
  for (const ir::CodecInfo& row : ir::all_codecs()) {
    const Codec& codec = row.sample.codec;
    for (const bool encode : {true, false}) {
      if (model.codec_seconds(codec, shape, encode) != table.codec_seconds(codec, shape, encode)) {
        return false;
      }
    }
  }
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (model.seconds(*instruction) != table.seconds(*instruction)) return false;
    }
  }
  return true;
}

void price_plan(Plan& plan, const CostModel& model, const PlanOptions& options,
                double cache_bytes) {
  Pricer(model, options).price(plan, cache_bytes);
}

}  // namespace plimsoll::planner
