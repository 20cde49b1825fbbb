// SPDX-License-Identifier: Apache-2.0
#include "runtime/residency/live_values.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "runtime/base/index.h"

namespace plimsoll::trace {

using memory::OperationId;
using memory::StorageId;
using memory::TensorId;

namespace {

// Requests for which a tier is left alone that has failed to store a value.
constexpr int kPause = 2;

}  // namespace

LiveValues::LiveValues(std::shared_ptr<memory::Budget> budget, Worker& worker,
                       const planner::PlanPolicy& planning)
    : budget_(std::move(budget)),
      worker_(&worker),
      planning_(planning),
      evictor_(lineage_, budget_->limit(), this) {
  for (const MemorySpace space : kTiers) {
    memory::Tier* const tier = budget_->tiers()[space].get();
    if (tier == nullptr || !planning.remedies.swap) continue;
    const auto speed = tier->speed();
    if (speed.ok()) place_at(place_on(space)) = {tier, *speed, 0};
  }
}

LiveValues::LiveValues(const LiveValues& other, Worker* worker)
    : budget_(other.budget_),
      worker_(worker),
      planning_(other.planning_),
      lineage_(other.lineage_),
      evictor_(other.evictor_, lineage_, this),
      places_(other.places_),
      entries_(other.entries_),
      recipes_(other.recipes_),
      kept_host_bytes_(other.kept_host_bytes_) {}

std::unique_ptr<LiveValues> LiveValues::dry_run() const {
  return std::unique_ptr<LiveValues>(new LiveValues(*this, nullptr));
}

void LiveValues::pretend_limit(std::int64_t bytes) {
  evictor_.set_limit(bytes);
  (void)evictor_.make_room(0);
}

void LiveValues::follow_limit() {
  for (Place& place : places_) place.pause = std::max(0, place.pause - 1);
  credit_savings();
  const std::int64_t limit = budget_->limit();
  if (limit == evictor_.limit()) return;
  evictor_.set_limit(limit);
  // What can't go stays: the next execution will say so if it has no room.
  (void)evictor_.make_room(0);
}

LiveValues::Entry& LiveValues::entry(TensorId id) {
  const auto i = at(id);
  if (i >= entries_.size()) entries_.resize(i + 1);
  return entries_[i];
}

void LiveValues::enter(TensorId id, const std::shared_ptr<Value>& value) {
  Entry of;
  of.value = value;
  of.there = true;
  entry(id) = std::move(of);
  value->tensor = id;
}

void LiveValues::add_source(const std::shared_ptr<Value>& value) {
  enter(evictor_.add_source(value->bytes), value);
}

// Host values live as long as their users hold them, and longer for what may be made of them again:
// at most as much as the device may hold.
//
// A recipe holds its host parameters: a batch that the user has long forgotten may be needed to
// recompute an activation. What such recipes keep is bounded by the device's limit; an execution
// beyond that makes sources instead.
bool LiveValues::keep_inputs(const Execution& execution) {
  if (worker_ == nullptr) return true;
  std::int64_t more = 0;
  for (const auto& value : execution.parameters) {
    if (value->on_host && value->recipes == 0) more += value->bytes;
  }
  if (more > evictor_.limit() - kept_host_bytes_) return false;
  kept_host_bytes_ += more;
  for (const auto& value : execution.parameters) ++value->recipes;
  return true;
}

void LiveValues::add(const std::shared_ptr<Execution>& execution, bool repeatable) {
  std::vector<std::shared_ptr<Value>> donated;
  std::vector<TensorId> arguments;
  for (std::size_t i = 0; i < execution->parameters.size(); ++i) {
    const auto& value = execution->parameters[i];
    if (value->on_host) continue;
    if (execution->executable->residency(static_cast<int>(i)) ==
        planner::ParameterResidency::donated) {
      donated.push_back(value);
    } else {
      arguments.push_back(value->tensor);
    }
  }
  std::vector<std::shared_ptr<Value>> outputs;
  for (const auto& weak : execution->outputs) outputs.push_back(weak.lock());
  for (const auto& value : donated) mark_donated(*value);
  for (std::size_t i = 0; execution->forms != nullptr && i < outputs.size(); ++i) {
    outputs[i]->form = (*execution->forms)[i];
  }
  if (!repeatable || !planning_.remedies.recompute || !donated.empty() ||
      evictor_.limit() == planner::kUnlimited || !keep_inputs(*execution)) {
    for (const auto& value : outputs) add_source(value);
    return;
  }
  std::vector<memory::Lineage::Output> made;
  for (const auto& value : outputs) made.push_back({value->bytes, -1});
  const OperationId id = lineage_.add(execution->executable->plan().predicted_seconds, arguments,
                                      made, execution->workspace_bytes());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    enter(lineage_.operation(id).first_output + static_cast<TensorId>(i), outputs[i]);
  }
  if (at(id) >= recipes_.size()) recipes_.resize(at(id) + 1);
  recipes_[at(id)] = std::make_shared<const Recipe>(
      Recipe{execution->executable, execution->parameters, execution->scalars});
  evictor_.ran(id);
}

void LiveValues::mark_donated(const Value& value) {
  Entry& of = entry(value.tensor);
  of.there = false;
  of.donated = true;
  evictor_.donate(value.tensor);
}

std::vector<TensorId> LiveValues::tensors_of(std::span<const std::shared_ptr<Value>> values) const {
  std::vector<TensorId> tensors;
  for (const auto& value : values) {
    if (!value->on_host) tensors.push_back(value->tensor);
  }
  return tensors;
}

std::int64_t LiveValues::bytes_beside(std::span<const std::shared_ptr<Value>> values) const {
  std::int64_t bytes = used_bytes();
  for (const TensorId id : tensors_of(values)) {
    if (lineage_.storage_of(id).resident) bytes -= lineage_.storage_of(id).bytes;
  }
  return bytes;
}

std::int64_t LiveValues::fixed_bytes_beside(std::span<const std::shared_ptr<Value>> values) {
  std::int64_t bytes = evictor_.fixed_bytes();
  for (const TensorId id : tensors_of(values)) {
    if (evictor_.is_fixed(lineage_.tensor(id).storage)) bytes -= lineage_.storage_of(id).bytes;
  }
  return bytes;
}

bool LiveValues::can_evict_any(std::span<const std::shared_ptr<Value>> values) {
  for (const TensorId id : tensors_of(values)) {
    if (!evictor_.is_fixed(lineage_.tensor(id).storage)) return true;
  }
  return false;
}

Status LiveValues::pin(std::span<const std::shared_ptr<Value>> values) {
  const Status status = evictor_.pin_all(tensors_of(values));
  Status submission = std::exchange(submission_, ok_status());
  return submission.ok() ? status : submission;
}

void LiveValues::unpin(std::span<const std::shared_ptr<Value>> values) {
  for (const auto& value : values) {
    // What was donated has been unpinned, and may be erased.
    if (value->tensor < 0 || lineage_.storage_of(value->tensor).pins == 0) continue;
    const TensorId tensor = value->tensor;
    evictor_.unpin_all(std::span(&tensor, 1));
  }
}

void LiveValues::donate(const Value& value) {
  if (value.tensor < 0 || !evictor_.can_donate(value.tensor)) return;
  const TensorId id = value.tensor;
  const std::shared_ptr<Value> kept = entry(id).value;
  const TensorId pinned[] = {id};
  // What is gone already has nothing to give.
  if (!entry(id).there) return;
  if (!evictor_.pin_all(pinned).ok()) return;
  mark_donated(value);
  submit([&](Worker& worker) { return worker.drop(kept); });
}

void LiveValues::reconcile(const std::shared_ptr<Value>& value, bool will_be_made) {
  if (value->tensor < 0) return;
  Entry& of = entry(value->tensor);
  // A buffer that was given to be overwritten is on nobody's books.
  if (of.donated) return;
  of.there = value->device || will_be_made;
  if (value->device) {
    // What was to make it once more has failed, but it had not gone yet.
    value->error = ok_status();
    value->state.store(ValueState::ready, std::memory_order_release);
  }
  if (of.there && value->has_copy()) {
    submit([&](Worker& worker) { return worker.discard_copy(value); });
  }
  unbook_copy(of);
  if (!of.there && value->copy != nullptr) {
    const auto place = std::find_if(places_.begin(), places_.begin() + kEncoded,
                                    [&](const Place& each) { return each.tier == value->tier; });
    book_copy(of, static_cast<std::int8_t>(place - places_.begin()),
              value->bytes - value->copy->held_bytes());
  } else if (!of.there && value->encoded) {
    book_copy(of, kEncoded, 0);
  }
  evictor_.reconcile(value->tensor, of.there, of.place != kNowhere,
                     of.place == kEncoded ? value->encoded.bytes() : 0);
}

std::vector<std::shared_ptr<Execution>> LiveValues::abandon_recomputable(
    const std::vector<std::shared_ptr<Execution>>& failed) {
  // From the last to the first: what one that is tried again reads can't be left for later either.
  std::vector<std::shared_ptr<Execution>> tried_again;
  std::unordered_set<const Value*> needed;
  for (auto execution = failed.rbegin(); execution != failed.rend(); ++execution) {
    bool repeatable = !(*execution)->donates();
    for (const auto& weak : (*execution)->outputs) {
      const auto value = weak.lock();
      if (value == nullptr) continue;
      repeatable = repeatable && !needed.contains(value.get()) && value->tensor >= 0 &&
                   !lineage_.tensor(value->tensor).is_source;
    }
    if (repeatable) {
      worker_->abandon(*execution);
      continue;
    }
    tried_again.push_back(*execution);
    for (const auto& value : (*execution)->parameters) needed.insert(value.get());
  }
  std::reverse(tried_again.begin(), tried_again.end());
  return tried_again;
}

// Reconciling after a failure:
// 1. Nothing may run, so that what is where can be seen (take_failures waits for that).
// 2. Stores that failed: their place gets nothing for a while.
// 3. Executions that failed: one that can be repeated from the lineage is abandoned, and will be
// run again when somebody wants its results. The others, which overwrite something or which nothing
// else remembers, must be tried again, in their order.
// 4. The books are made to say what is there (reconcile), value by value.
// 5. What the executions to be tried again read is restored and pinned, bytes are freed for them,
// and they are submitted before anything new.
Status LiveValues::recover() {
  if (!worker_->has_failures()) return ok_status();
  const Failures failures = worker_->take_failures();
  for (const auto& value : failures.stores) {
    if (value->tensor < 0) continue;
    const std::int8_t place = entry(value->tensor).place;
    if (place == kEncoded) {
      value->form = nullptr;  // it holds what the codec can't, or there was no room
    } else if (place != kNowhere) {
      place_at(place).pause = kPause;
    }
  }
  const auto tried_again = abandon_recomputable(failures.executions);
  std::vector<std::shared_ptr<Value>> released;
  std::unordered_set<const Value*> will_be_made;
  for (const auto& execution : tried_again) {
    for (const auto& value : worker_->keep_deferred(*execution)) {
      if (value->tensor < 0) released.push_back(value);
    }
    for (const auto& weak : execution->outputs) will_be_made.insert(weak.lock().get());
  }
  // Nothing runs: what is where can be seen.
  for (const Entry& of : entries_) {
    const std::shared_ptr<Value> value = of.value;
    if (value != nullptr) reconcile(value, will_be_made.contains(value.get()));
  }
  // What they read comes back, and stays until they have run.
  std::vector<std::shared_ptr<Value>> again;
  std::int64_t workspace_bytes = 0, unbooked_bytes = 0;
  for (const auto& execution : tried_again) {
    for (const auto& value : execution->parameters) {
      if (value->tensor >= 0 && !entry(value->tensor).donated) again.push_back(value);
    }
    workspace_bytes = std::max(workspace_bytes, execution->workspace_bytes());
    unbooked_bytes += execution->unbooked_bytes();
  }
  evictor_.set_limit(std::max<std::int64_t>(0, evictor_.limit() - unbooked_bytes));
  const Status pinned = pin(again);
  (void)evictor_.make_room(workspace_bytes);
  evictor_.set_limit(budget_->limit());
  const Status revived = worker_->revive();
  for (const auto& value : released) {
    submit([&](Worker& worker) { return worker.drop(value); });
  }
  if (pinned.ok()) unpin(again);
  return revived;
}

void LiveValues::drop(StorageId id) {
  Entry& of = entry(id);
  of.there = false;
  // A copy that is on its way takes the bytes along.
  if (of.place != kNowhere) return;
  submit([&](Worker& worker) { return worker.drop(of.value); });
}

void LiveValues::recompute(OperationId id) {
  const Recipe& recipe = *recipes_[at(id)];
  const memory::Lineage::Operation& operation = lineage_.operation(id);
  auto execution = std::make_shared<Execution>();
  execution->executable = recipe.executable;
  execution->parameters = recipe.parameters;
  execution->scalars = recipe.scalars;
  for (std::int32_t i = 0; i < operation.output_count; ++i) {
    Entry& of = entry(operation.first_output + i);
    execution->output_bytes.push_back(of.value->bytes);
    execution->output_tags.push_back(memory::Tag::outputs);
    const bool wanted = !of.there && of.place == kNowhere;
    execution->outputs.push_back(wanted ? of.value : std::weak_ptr<Value>());
    of.there = of.there || wanted;
  }
  submit([&](Worker& worker) { return worker.submit(std::move(execution)); });
}

void LiveValues::erase(OperationId id) {
  const memory::Lineage::Operation& operation = lineage_.operation(id);
  for (std::int32_t i = 0; i < operation.output_count; ++i) {
    Entry& of = entry(operation.first_output + i);
    if (of.value != nullptr && worker_ != nullptr) of.value->tensor = -1;
    of = Entry();
  }
  if (at(id) >= recipes_.size()) return;
  const auto recipe = std::move(recipes_[at(id)]);
  if (recipe == nullptr || worker_ == nullptr) return;
  for (const auto& value : recipe->parameters) {
    if (--value->recipes == 0 && value->on_host) kept_host_bytes_ -= value->bytes;
  }
}

std::int64_t LiveValues::shrink_workspace(OperationId id, std::int64_t most_bytes) {
  Recipe recipe = *recipes_[at(id)];
  const memory::Lineage::Operation& operation = lineage_.operation(id);
  std::int64_t beside = operation.bytes;
  for (const auto& value : recipe.parameters) {
    if (!value->on_host) beside += value->bytes;
  }
  planner::Question question{beside + most_bytes, {}, {}};
  const std::size_t parameters = recipe.parameters.size() + recipe.scalars.size();
  for (std::size_t i = 0; i < parameters; ++i) {
    question.parameters.push_back(recipe.executable->residency(static_cast<int>(i)));
  }
  auto made = executor::make_executable(recipe.executable->shared_program(), planning_,
                                        std::move(question), *budget_);
  if (!made.ok()) return -1;
  recipe.executable = *made;
  recipes_[at(id)] = std::make_shared<const Recipe>(recipe);
  return std::max<std::int64_t>(0, recipe.executable->plan().peak_bytes - beside);
}

}  // namespace plimsoll::trace
