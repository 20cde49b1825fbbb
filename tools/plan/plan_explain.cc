// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/plan_explain.h"

#include <fmt/core.h>
#include <vector>

#include "runtime/base/byte_size.h"
#include "runtime/planner/cost/collective_costs.h"
#include "runtime/planner/ladder/module_planner.h"
#include "runtime/planner/remedies/remedies.h"
#include "tools/plan/plan_view.h"

namespace plimsoll::tools {
namespace {

// A stretch of time in which a value is there and nobody reads it.
struct Interval {
  int leaf = 0;
  std::int64_t bytes = 0;
  std::string after, before;
  double seconds = 0;
};

// One way to be without a value's bytes in an interval.
struct Price {
  int leaf = 0;
  std::string remedy;
  std::string detail;
  double seconds = 0;
  std::int64_t stored_bytes = 0;  // elsewhere in the arena (compress), or out of it (swap)
};

struct Facts {
  std::vector<Interval> intervals;
  std::vector<Price> prices;
  bool made = false;          // by an op, in the arena
  bool recomputable = false;  // if made
};

std::string seconds_text(double seconds) { return fmt::format("{:.4g} s", seconds); }

std::string op_name(const planner::Problem& problem, planner::OpId op) {
  const planner::Op& what = problem.ops[op];
  return what.instruction == nullptr ? std::string(to_string(what.kind)) : what.instruction->name();
}

void add_intervals(const planner::Problem& problem, planner::ValueId v, Facts& facts) {
  const planner::Value& value = problem.values[v];
  planner::OpId from = value.producer;
  for (const planner::OpId to : problem.uses[v]) {
    Interval interval{value.leaf, value.bytes, op_name(problem, from), op_name(problem, to), 0};
    for (planner::OpId op = from + 1; op < to; ++op) {
      interval.seconds += problem.ops[op].seconds;
    }
    if (to > from + 1) facts.intervals.push_back(std::move(interval));
    from = to;
  }
}

void add_prices(const planner::Problem& problem, planner::ValueId v,
                std::span<const planner::Form> forms, const planner::Remedies& remedies,
                Facts& facts) {
  const planner::Value& value = problem.values[v];
  const planner::Op& producer = problem.ops[value.producer];
  facts.recomputable = producer.recomputable;
  if (producer.kind == planner::StepKind::upload) {
    facts.prices.push_back({value.leaf, "upload again", "", producer.seconds, 0});
    return;
  }
  if (producer.recomputable && remedies.recompute && value.hint != planner::Hint::keep) {
    std::string operands;
    for (const planner::ValueId operand : problem.inputs[value.producer]) {
      if (operand < 0) continue;
      const auto* source = problem.values[operand].source;
      operands += (operands.empty() ? "with " : ", ") + source->name();
    }
    facts.prices.push_back({value.leaf, "recompute",
                            operands.empty() ? operands : operands + " at hand", producer.seconds,
                            0});
  }
  for (const planner::Form& form : forms) {
    if (form.value != v) continue;
    Price price{value.leaf, "", "", form.encode_seconds + form.decode_seconds, form.bytes};
    switch (form.kind) {
      case planner::RemedyKind::compress:
        price.remedy = "compress";
        price.detail = to_string(form.codec) + ", " + format_bytes(form.bytes) + " instead of " +
                       format_bytes(value.bytes);
        break;
      default:
        price.remedy = "swap";
        price.detail = std::string(tier_info(space_of(form.kind)).name);
        for (const planner::TransferTime& time : {form.out, form.in}) {
          price.seconds += time.synchronous ? time.taken_seconds : time.engine_seconds;
        }
        price.detail += form.out.synchronous && form.in.synchronous
                            ? ", by the kernels' threads"
                            : ", nothing where the interval is longer";
        break;
    }
    facts.prices.push_back(std::move(price));
  }
}

// The planner's own view of the value: its intervals in the order without a limit, and every
// remedy.
Result<Facts> find_facts(const PlannedProgram& planned, const ir::Instruction& instruction) {
  Facts facts;
  const planner::PlanOptions& options = planned.options();
  const auto look = [&](const planner::Problem& problem, std::span<const planner::Form> forms) {
    for (const planner::ValueId v : problem.values.ids()) {
      const planner::Value& value = problem.values[v];
      if (value.source != &instruction || value.producer < 0) continue;
      facts.made = true;
      add_intervals(problem, v, facts);
      add_prices(problem, v, forms, options.remedies, facts);
    }
    return std::vector<planner::Choice>();
  };
  PLIMSOLL_RETURN_IF_ERROR(
      planner::plan_with_choices(planned.module(), planned.cost_model(), options, look).status());
  return facts;
}

struct StepsOf {
  std::int64_t computed = 0, recomputed = 0, encoded = 0, swapped = 0, uploaded = 0;
  Json list = Json::array();
};

// A kernel that codes the value while it makes or reads it.
void add_codings(const planner::Step& step, planner::StepId t, const ir::Instruction& instruction,
                 StepsOf& found) {
  const auto add = [&](const char* kind, const ir::Codec& codec) {
    found.list.push_back({{"step", t.value()}, {"kind", kind}, {"codec", to_string(codec)}});
  };
  for (const ir::EncodedOutput& output : step.coding.outputs) {
    if (step.instruction != &instruction) continue;
    add("encode inside", output.codec);
    ++found.encoded;
  }
  for (const ir::EncodedInput& input : step.coding.inputs) {
    if (step.instruction->operand(input.input) == &instruction) add("decode inside", input.codec);
  }
}

StepsOf steps_of(const planner::Plan& plan, const ir::Instruction& instruction) {
  StepsOf found;
  for (const planner::StepId t : plan.steps.ids()) {
    const planner::Step& step = plan.steps[t];
    add_codings(step, t, instruction, found);
    if (step.instruction != &instruction) continue;
    found.computed += step.kind == planner::StepKind::compute;
    found.recomputed += step.kind == planner::StepKind::recompute;
    found.encoded += step.kind == planner::StepKind::encode;
    found.swapped += step.kind == planner::StepKind::swap_out;
    found.uploaded += step.kind == planner::StepKind::upload;
    Json row = {{"step", t.value()}, {"kind", std::string(to_string(step.kind))}};
    if (step.codec.kind != ir::CodecKind::none) row["codec"] = to_string(step.codec);
    found.list.push_back(std::move(row));
  }
  return found;
}

std::string decision_of(const StepsOf& steps) {
  std::string text;
  const auto add = [&](bool on, const char* word) {
    if (on) text += (text.empty() ? "" : " and ") + std::string(word);
  };
  add(steps.uploaded > 0, "streamed");
  add(steps.recomputed > 0, "recomputed");
  add(steps.encoded > 0, "compressed");
  add(steps.swapped > 0, "swapped");
  return text.empty() ? "kept" : text;
}

std::string reason(const PlannedProgram& planned, const planner::Plan& plan,
                   const ir::Instruction& instruction, const Facts& facts, const StepsOf& steps,
                   bool kept, bool at_peak) {
  const planner::Hint hint = ir::hint_of(instruction);
  const std::int64_t unlimited = planned.unlimited().peak_bytes;
  const std::string need = "the limit is " + format_bytes(unlimited - plan.limit_bytes) +
                           " below what keeping everything needs";
  if (steps.uploaded > 0 && instruction.opcode() == ir::Opcode::parameter) {
    return "the program has it in host memory between runs: an upload brings it right before it is "
           "read, and it goes after its last use";
  }
  if (steps.uploaded > 0) {
    return need + ", and its value lies in host memory: an upload brings it right before it is " +
           "read, and it goes after its last use";
  }
  if (!facts.made) return "it is not computed: it stays where it is for the whole run";
  if (!kept) {
    if (hint != planner::Hint::none) {
      return need + ", and its hint says " + std::string(ir::to_string(hint));
    }
    return need + ", and this costs less than what else would free as much there";
  }
  if (hint == planner::Hint::keep) return "its hint says keep";
  if (facts.intervals.empty())
    return "it has no retention interval: whatever reads it comes right after";
  if (plan.limit_bytes >= unlimited) return "everything fits the limit";
  if (facts.prices.empty()) return "it cannot be evicted: no remedy is allowed and possible";
  if (!at_peak) return "it is not there at the peak: without it the peak would be the same";
  return "other values free as much there for less";
}

}  // namespace

Outcome explain_value(const PlannedProgram& planned, const planner::Plan& plan,
                      const std::string& name, bool is_in_text, Output& output) {
  const ir::Instruction* instruction = planned.module().entry()->find(name);
  if (instruction == nullptr) {
    return Outcome::call_fault(invalid_argument(
        "--explain " + name +
        (is_in_text ? ": is not a value of its own after optimization (it was fused, folded or "
                      "removed; `opt --passes optimize` shows what is left)"
                    : ": the entry computation has no such value")));
  }
  const auto facts = find_facts(planned, *instruction);
  PLIMSOLL_PROGRAM_FAULT(facts.status());
  const PlanView view = view_plan(plan);
  StepsOf steps = steps_of(plan, *instruction);
  const std::string decision = decision_of(steps);
  const auto step_name = [&](planner::StepId t) {
    const bool named = t >= 0 && t < plan.steps.end_id() && plan.steps[t].instruction;
    return named ? plan.steps[t].instruction->name() : std::string();
  };
  Json ranges = Json::array();
  std::string range_text;
  bool at_peak = false;
  for (const ValueLife& life : lives_of(plan, *instruction)) {
    const bool here = life.first_step <= view.peak_step && view.peak_step <= life.last_step;
    at_peak |= here;
    ranges.push_back({{"leaf", life.leaf},
                      {"bytes", life.bytes},
                      {"first_step", life.first_step.value()},
                      {"last_step", life.last_step.value()},
                      {"first_instruction", step_name(life.first_step)},
                      {"last_instruction", step_name(life.last_step)},
                      {"recomputed", life.recomputed},
                      {"live_at_peak", here}});
    range_text += fmt::format(
        "  {}live from step {} ({}) to {} ({}), {}{}", life.recomputed ? "recomputed, " : "",
        life.first_step.value(), step_name(life.first_step), life.last_step.value(),
        step_name(life.last_step), format_bytes(life.bytes), here ? ", at the peak\n" : "\n");
  }
  const std::string why =
      reason(planned, plan, *instruction, *facts, steps, decision == "kept", at_peak);
  const std::string times = steps.uploaded > 0
                                ? fmt::format("uploaded {} time(s) a run", steps.uploaded)
                                : fmt::format("computed {} time(s), recomputed {} time(s)",
                                              steps.computed, steps.recomputed);
  output.text +=
      fmt::format("\n{} = {} {}: {}, {}\n  why: {}\n{}", name, instruction->shape().to_string(),
                  ir::to_string(instruction->opcode()), decision, times, why, range_text);
  Json intervals = Json::array();
  for (const Interval& interval : facts->intervals) {
    intervals.push_back({{"leaf", interval.leaf},
                         {"bytes", interval.bytes},
                         {"after", interval.after},
                         {"before", interval.before},
                         {"seconds", interval.seconds}});
    if (intervals.size() <= 12) {
      output.text += "  interval: " + format_bytes(interval.bytes) + " unread for " +
                     seconds_text(interval.seconds) + " between " + interval.after + " and " +
                     interval.before + "\n";
    }
  }
  const planner::CollectiveTraffic traffic = planner::collective_traffic(*instruction);
  if (traffic.messages > 0) {
    output.text +=
        fmt::format("  communicates: {:g} messages, {} sent by each participant\n",
                    traffic.messages, format_bytes(static_cast<std::int64_t>(traffic.bytes)));
  }
  Json prices = Json::array();
  for (const Price& price : facts->prices) {
    prices.push_back({{"leaf", price.leaf},
                      {"remedy", price.remedy},
                      {"detail", price.detail},
                      {"seconds", price.seconds},
                      {"stored_bytes", price.stored_bytes}});
    output.text += "  to " + price.remedy + " it: " + seconds_text(price.seconds) +
                   (price.detail.empty() ? "" : " (" + price.detail + ")") + "\n";
  }
  if (facts->made && !facts->recomputable) {
    output.text += "  it can't be computed again: it has an effect or an order to keep\n";
  }
  Json peak = Json::array();
  output.text += fmt::format("live at the peak (step {}, {})\n", view.peak_step.value(),
                             step_name(view.peak_step));
  for (const planner::BufferId id : view.live_at_peak) {
    const PlanView::Value& value = view.values[id];
    peak.push_back(
        {{"name", value.name_at_peak}, {"shape", value.shape}, {"bytes", value.buffer->bytes}});
    if (peak.size() <= 12) {
      output.text +=
          "  " + value.name + "  " + value.shape + "  " + format_bytes(value.buffer->bytes) + "\n";
    }
  }
  output.json["explain"] = {{"value", name},
                            {"decision", decision},
                            {"why", why},
                            {"hint", std::string(ir::to_string(ir::hint_of(*instruction)))},
                            {"recomputations", steps.recomputed},
                            {"uploads", steps.uploaded},
                            {"messages", traffic.messages},
                            {"sent_bytes", traffic.bytes},
                            {"steps", std::move(steps.list)},
                            {"gaps", std::move(intervals)},
                            {"prices", std::move(prices)},
                            {"live_ranges", std::move(ranges)},
                            {"live_at_peak", at_peak},
                            {"peak_step", view.peak_step.value()},
                            {"peak_instruction", step_name(view.peak_step)},
                            {"peak_values", std::move(peak)}};
  return {};
}

}  // namespace plimsoll::tools
