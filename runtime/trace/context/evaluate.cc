// SPDX-License-Identifier: Apache-2.0
// How a Context runs what it has recorded.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "runtime/base/alignment.h"
#include "runtime/base/index.h"
#include "runtime/trace/context/context.h"
#include "runtime/trace/cut/cut_values.h"

namespace plimsoll::trace {
namespace {

using planner::ParameterResidency;

std::vector<std::int64_t> lifted_scalars(const Cut& cut, const CachedProgram& program) {
  std::vector<std::int64_t> scalars;
  for (std::size_t i = 0; i < program.lifted.size(); ++i) {
    if (program.lifted[i]) scalars.push_back(cut.constants[i]->words()[0]);
  }
  return scalars;
}

bool has_side_effect(const executor::Program& program) {
  const auto& instructions = program.module().entry()->instructions();
  return std::any_of(instructions.begin(), instructions.end(),
                     [](const auto& instruction) { return instruction->has_side_effect(); });
}

// Only what has collectives in it has several participants.
bool meets_others(const executor::Program& program) { return program.module().replica_count > 1; }

bool is_shortage(const Status& status) { return status.code() == StatusCode::resource_exhausted; }

}  // namespace

Status Context::evaluate(std::span<Node* const> wanted) {
  PLIMSOLL_RETURN_IF_ERROR(check_outside("evaluate", wanted));
  live_.follow_limit();
  PLIMSOLL_RETURN_IF_ERROR(live_.recover());
  std::vector<Node*> uploads;
  for (Node* node : wanted) {
    const bool is_new = std::find(uploads.begin(), uploads.end(), node) == uploads.end();
    if (is_new && !node->is_pending() && node->value->on_host) uploads.push_back(node);
  }
  for (std::size_t i = 0; i < uploads.size(); ++i) {
    const Status uploaded = upload(uploads[i]);
    if (is_shortage(uploaded)) {
      return refuse_upload(std::span(uploads).subspan(i), wanted, uploaded);
    }
    PLIMSOLL_RETURN_IF_ERROR(uploaded);
  }
  std::vector<Node*> old_leaves;
  const std::vector<Node*> outputs = pick_outputs(wanted, old_leaves);
  if (outputs.empty()) {
    assignments_.clear();
    return ok_status();
  }
  make_cut(recording_, outputs, old_leaves, cut_);
  PLIMSOLL_RETURN_IF_ERROR(worker_.revive());
  for (const Node* leaf : cut_.leaves) {
    const Value& value = *leaf->value;
    if (value.state.load(std::memory_order_acquire) == ValueState::failed &&
        value.producer != nullptr) {
      return value.error;
    }
  }
  ++counts_.cuts;
  last_cut_ = CutReport();
  last_cut_.operations = static_cast<std::int64_t>(cut_.nodes.size());
  last_cut_.parameters = static_cast<std::int64_t>(cut_.leaves.size());
  last_cut_.outputs = static_cast<std::int64_t>(cut_.outputs.size());
  last_cut_.limit_bytes = live_.limit();
  PLIMSOLL_ASSIGN_OR_RETURN(const CacheAnswer found, cache_.find_or_compile(cut_, names_));
  last_cut_.hit = found.miss_reason.empty();
  last_cut_.miss_reason = found.miss_reason;
  last_cut_.compile_seconds = found.compile_seconds;
  ++(last_cut_.hit ? counts_.hits : counts_.misses);

  const std::vector<std::shared_ptr<Value>> leaves = values_of(cut_);
  const std::vector<ParameterResidency> residency = cut_.residency;
  Status status = live_.pin(leaves);
  bool has_plan = true;
  if (status.ok()) {
    const std::int64_t held = device_bytes(leaves);
    last_cut_.available_bytes = last_cut_.limit_bytes == planner::kUnlimited
                                    ? planner::kUnlimited
                                    : last_cut_.limit_bytes - live_.used_bytes() + held;
    Result<PlanAnswer> plan = PlanAnswer();
    do {
      plan = choose_plan(live_, *found.program, residency_of(cut_, *found.program), held);
    } while (plan.ok() && keep_what_is_needed(live_));
    has_plan = plan.ok();
    status = has_plan ? start(*plan, *found.program) : plan.status();
    live_.unpin(leaves);
  }
  if (is_shortage(status)) {
    cut_.residency = residency;
    // Where what it reads may go and come back, not all of it need be there at once.
    if (live_.can_evict_any(leaves)) {
      const Status apart = run_segments(*found.program);
      if (apart.ok()) return apart;
      if (!is_shortage(apart) && apart.code() != StatusCode::unimplemented) return apart;
    }
    return refuse(*found.program, status, has_plan);
  }
  return status;
}

// What has been evicted may need a donated leaf to be recomputed: such a leaf stays. Whether there
// was one.
bool Context::keep_what_is_needed(LiveValues& live) {
  bool any = false;
  for (std::size_t i = 0; i < cut_.leaves.size(); ++i) {
    ParameterResidency& residency = cut_.residency[i];
    if (residency != ParameterResidency::donated || live.can_donate(*cut_.leaves[i]->value)) {
      continue;
    }
    residency = ParameterResidency::resident;
    any = true;
  }
  return any;
}

// A plan for what is free now, or for more where evicting other values costs less than the plan
// for less room does. `held_bytes` of what is there are its own parameters, which are pinned.
Result<Context::PlanAnswer> Context::choose_plan(LiveValues& live, CachedProgram& program,
                                                 std::span<const ParameterResidency> residency,
                                                 std::int64_t held_bytes) {
  const std::int64_t limit = live.limit();
  const auto plan_for = [&](std::int64_t available) {
    return program.executables->find_or_plan(
        {options_.planning,
         live.free_machine(),
         {std::max<std::int64_t>(0, available), {residency.begin(), residency.end()}, {}}});
  };
  if (limit == planner::kUnlimited) return plan_for(limit);
  const auto beside = [&](const PlanAnswer& answer) {
    return answer.executable->plan().peak_bytes - held_bytes;
  };
  const std::int64_t free = limit - live.used_bytes() + held_bytes;
  auto plan = plan_for(free);
  if (!plan.ok()) {
    // The least room first; then perhaps more.
    const MemoryShortage* shortage = plan.status().shortage();
    if (shortage == nullptr || shortage->floor_bytes <= 0) return plan.status();
    if (!live.make_room(shortage->floor_bytes - held_bytes).ok()) return plan.status();
    plan = plan_for(limit - live.used_bytes() + held_bytes);
    if (!plan.ok()) return plan.status();
  }
  const planner::Plan& found = plan->executable->plan();
  // Planning takes time: not where nothing could go.
  const bool more_could_go = std::isfinite(live.price_of_room(limit - live.used_bytes() + 1));
  if (found.predicted_seconds > found.unlimited_seconds && more_could_go) {
    const auto larger = plan_for(limit);
    // The price leaves out that what is evicted may fill a tier: the smaller plan stays at hand.
    if (larger.ok() &&
        larger->executable->plan().predicted_seconds + live.price_of_room(beside(*larger)) <
            found.predicted_seconds &&
        live.make_room(beside(*larger)).ok()) {
      plan = larger;
    }
  }
  live.reserve(plan->executable->plan());
  PLIMSOLL_RETURN_IF_ERROR(live.make_room(beside(*plan)));
  return plan;
}

// How what the program makes can be kept in fewer bytes, where it may come to that.
std::shared_ptr<const EncodedForms> Context::forms_of(CachedProgram& program) {
  const planner::Remedies& remedies = options_.planning.remedies;
  if (live_.limit() == planner::kUnlimited || !remedies.compress) return nullptr;
  if (program.forms == nullptr) {
    program.forms = std::make_shared<const EncodedForms>(encoded_forms(
        *program.program, remedies.lossy ? remedies.lossy_codec : ir::CodecKind::none));
  }
  return program.forms;
}

Status Context::start(const PlanAnswer& plan, CachedProgram& program) {
  auto execution = std::make_shared<Execution>();
  execution->executable = plan.executable;
  execution->forms = forms_of(program);
  execution->seconds = std::make_shared<std::atomic<double>>(0.0);
  execution->parameters = values_of(cut_);
  execution->scalars = lifted_scalars(cut_, program);
  execution->meets = meets_others(plan.executable->program());
  std::vector<std::shared_ptr<Value>> values;
  for (Node* output : cut_.outputs) {
    const bool assigned =
        std::any_of(assignments_.begin(), assignments_.end(),
                    [&](const Assignment& assignment) { return assignment.value.get() == output; });
    auto value = std::make_shared<Value>();
    value->bytes = aligned_bytes(output->byte_size());
    value->element_bytes = ir::dtype_bytes(output->shape().dtype());
    value->hint = hint_of(*output);
    execution->outputs.push_back(value);
    execution->output_bytes.push_back(output->byte_size());
    execution->output_tags.push_back(assigned ? memory::Tag::parameters : memory::Tag::outputs);
    values.push_back(std::move(value));
  }
  last_cut_.executable = plan.executable;
  last_cut_.current = plan.current;
  last_cut_.replans = plan.replans;
  last_cut_.seconds = execution->seconds;
  plan.executable->enable_profile(profiling_);
  log_cut();
  // Nobody can be met again alone.
  live_.add(execution, !execution->meets && !has_side_effect(plan.executable->program()));
  PLIMSOLL_RETURN_IF_ERROR(worker_.submit(std::move(execution)));
  materialize(std::move(values));
  return ok_status();
}

// The outputs of the cut become leaves.
void Context::materialize(std::vector<std::shared_ptr<Value>> values) {
  std::vector<NodeRef> outputs;
  for (Node* output : cut_.outputs) outputs.emplace_back(recording_, output);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    recording_.materialize(outputs[i].get(), std::move(values[i]));
  }
  assignments_.clear();
  next_pending_limit_ = std::max(options_.max_pending, recording_.pending_count() * 2);
}

std::vector<std::shared_ptr<Value>> Context::segment_parameters(const CachedProgram& program) {
  std::vector<std::shared_ptr<Value>> parameters = values_of(cut_);
  for (const std::int64_t bits : lifted_scalars(cut_, program)) {
    auto value = std::make_shared<Value>();
    value->on_host = true;
    value->bytes = sizeof bits;
    value->host.resize(sizeof bits);
    std::memcpy(value->host.data(), &bits, sizeof bits);
    parameters.push_back(std::move(value));
  }
  return parameters;
}

// In one of the forms with the smaller kernels, the faster one first.
Result<std::shared_ptr<Segments>> Context::segments_of(CachedProgram& program, std::size_t form) {
  constexpr passes::Fusion kForms[] = {passes::Fusion::vertical, passes::Fusion::none};
  static_assert(std::size(kForms) == std::tuple_size_v<decltype(program.segments)>);
  std::shared_ptr<Segments>& segments = program.segments[form];
  if (segments == nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(const auto in_form, program.program->in_form({kForms[form]}));
    PLIMSOLL_ASSIGN_OR_RETURN(
        segments, make_segments(in_form == nullptr ? *program.program : *in_form, cache_));
  }
  return segments;
}

Status Context::run_segments(CachedProgram& program) {
  const std::vector<std::shared_ptr<Value>> parameters = segment_parameters(program);
  Status status;
  for (std::size_t i = 0; i < program.segments.size(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(const auto segments, segments_of(program, i));
    // Nothing may have been donated when there turns out to be no room for the rest.
    std::vector<std::shared_ptr<Value>> results;
    const std::unique_ptr<LiveValues> trial = live_.dry_run();
    status = run_segments(*segments, parameters, *trial, false, results);
    if (!status.ok()) continue;
    results.clear();
    PLIMSOLL_RETURN_IF_ERROR(run_segments(*segments, parameters, live_, true, results));
    last_cut_.segments = static_cast<std::int64_t>(segments->list.size());
    materialize(std::move(results));
    return ok_status();
  }
  return status;
}

// One after the other, each value evicted after its last use. Without `submits`, nothing is done
// but what `live` keeps books of.
Status Context::run_segments(Segments& segments, std::vector<std::shared_ptr<Value>> values,
                             LiveValues& live, bool submits,
                             std::vector<std::shared_ptr<Value>>& results) {
  const std::size_t parameters = values.size();
  values.resize(at(segments.value_count));
  std::vector<bool> is_result(values.size(), false);
  for (const int value : segments.results) is_result[at(value)] = true;
  for (std::size_t step = 0; step < segments.list.size(); ++step) {
    Segments::Segment& segment = segments.list[step];
    auto execution = std::make_shared<Execution>();
    std::vector<ParameterResidency> residency;
    for (const int input : segment.inputs) {
      const auto& value = values[at(input)];
      execution->parameters.push_back(value);
      residency.push_back(value->on_host ? ParameterResidency::host : ParameterResidency::resident);
    }
    const std::vector<std::shared_ptr<Value>> inputs = execution->parameters;
    PLIMSOLL_RETURN_IF_ERROR(live.pin(inputs));
    const auto plan = choose_plan(live, segment.program, residency, device_bytes(inputs));
    if (!plan.ok()) {
      live.unpin(inputs);
      return plan.status();
    }
    execution->executable = plan->executable;
    execution->forms = forms_of(segment.program);
    execution->meets = meets_others(*segment.program.program);
    for (const int output : segment.outputs) {
      auto value = std::make_shared<Value>();
      const std::int64_t bytes = segments.bytes[at(output)];
      value->bytes = aligned_bytes(bytes);
      value->element_bytes = segments.element_bytes[at(output)];
      const auto result = std::find(segments.results.begin(), segments.results.end(), output);
      if (result != segments.results.end()) {
        value->hint = hint_of(*cut_.outputs[at(result - segments.results.begin())]);
      }
      execution->outputs.push_back(value);
      execution->output_bytes.push_back(bytes);
      execution->output_tags.push_back(memory::Tag::outputs);
      values[at(output)] = std::move(value);
    }
    live.add(execution, !execution->meets);
    if (submits) PLIMSOLL_RETURN_IF_ERROR(worker_.submit(std::move(execution)));
    live.unpin(inputs);
    const auto end = [&](int value) {
      const auto at = static_cast<std::size_t>(value);
      if (segments.last_use[at] > static_cast<int>(step) || is_result[at]) return;
      if (at >= parameters) {
        live.discard(*values[at]);
      } else if (at < cut_.residency.size() && cut_.residency[at] == ParameterResidency::donated &&
                 live.can_donate(*values[at])) {
        live.donate(*values[at]);
      }
    };
    for (const int input : segment.inputs) end(input);
    for (const int output : segment.outputs) end(output);
  }
  for (const int value : segments.results) results.push_back(values[at(value)]);
  return ok_status();
}

}  // namespace plimsoll::trace
