// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/loop_sequence.h"

#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/executor/resolved_plan.h"

namespace plimsoll::executor {
namespace {

using device::SequenceStep;
using planner::BufferId;
using planner::Placement;
using planner::StepKind;
using Places = std::vector<LoopPlace>;

// A sequence repeats what is called from several places, loops inside of loops above all.
constexpr std::int32_t kMostSteps = 8192;

LoopPlace moved(LoopPlace place, std::int64_t offset) {
  if (place.root != LoopPlace::Root::none) place.offset += offset;
  return place;
}

// Writes down what Run (run.cc) does in a loop, with places where it has addresses.
class SequenceWriter {
 public:
  // False where there is no such sequence.
  bool write(const ResolvedPlan& plan, const ResolvedStep& loop) {
    Places state;
    for (std::int32_t i = 0; i < loop.output_count; ++i) {
      const BufferId id = plan.ids[at(loop.outputs + i)];
      state.push_back(id < 0 ? LoopPlace{} : LoopPlace{LoopPlace::Root::state, i});
    }
    return add_loop(plan, loop, state, {LoopPlace::Root::arena});
  }
  const device::SequenceText& text() const { return text_; }
  LoopSequence finish() {
    LoopSequence made;
    made.places.resize(numbers_.size());
    for (const auto& [place, number] : numbers_) made.places[at(number)] = place;
    made.predicates = predicates_;
    return made;
  }

 private:
  using Addresses = IdVector<BufferId, LoopPlace>;

  static Addresses addresses_of(const ResolvedPlan& plan, const Places& parameters,
                                const Places& outputs, const LoopPlace& arena) {
    const auto& buffers = plan.plan->buffers;
    Addresses addresses(buffers.size());
    for (const BufferId id : buffers.ids()) {
      const planner::Buffer& buffer = buffers[id];
      switch (buffer.placement) {
        case Placement::arena:
          addresses[id] = moved(arena, buffer.offset);
          break;
        case Placement::parameter:
          addresses[id] = parameters[at(buffer.index)];
          break;
        case Placement::output:
          addresses[id] = outputs[at(buffer.index)];
          break;
        case Placement::lent:
          addresses[id] = moved(outputs[at(buffer.index)], buffer.offset);
          break;
        case Placement::constant:
          addresses[id] = buffer.host
                              ? LoopPlace{LoopPlace::Root::literal, 0, 0,
                                          buffer.source->attributes().literal->bytes().data()}
                              : LoopPlace{LoopPlace::Root::constants, 0, plan.constant_offsets[id]};
          break;
        default:  // on a tier
          break;
      }
    }
    return addresses;
  }

  static Places places_of(const ResolvedPlan& plan, const Addresses& addresses, std::int32_t first,
                          std::int32_t count) {
    Places places;
    for (std::int32_t i = 0; i < count; ++i) {
      const BufferId id = plan.ids[at(first + i)];
      places.push_back(id < 0 ? LoopPlace{} : addresses[id]);
    }
    return places;
  }

  std::int32_t next() const { return static_cast<std::int32_t>(text_.steps.size()); }

  void put(const LoopPlace& place) {
    std::int32_t number = -1;
    if (place.root != LoopPlace::Root::none) {
      number = numbers_.emplace(place, static_cast<std::int32_t>(numbers_.size())).first->second;
      text_.addresses = static_cast<std::int32_t>(numbers_.size());
    }
    text_.places.push_back(number);
  }

  std::int32_t begin_step(SequenceStep::Kind kind) {
    SequenceStep step;
    step.kind = kind;
    step.places = static_cast<std::int32_t>(text_.places.size());
    text_.steps.push_back(step);
    return next() - 1;
  }

  // Of so many bytes and no more, though buffers are larger: the next reader of a scalar waits for
  // what has just been written as far as it reads alone.
  void add_copy(const LoopPlace& to, const LoopPlace& from, std::int64_t bytes) {
    if (to == from || bytes == 0) return;
    SequenceStep& step = text_.steps[at(begin_step(SequenceStep::Kind::copy))];
    step.input_count = step.output_count = 1;
    step.bytes = bytes;
    put(from);
    put(to);
  }

  // The state lies in the loop's results; see Run::run_while.
  bool add_loop(const ResolvedPlan& plan, const ResolvedStep& step, const Places& state,
                const LoopPlace& arena) {
    if (step.sliced_count > 0) return false;
    const std::int32_t loop = begin_step(SequenceStep::Kind::loop);
    text_.steps[at(loop)].rounds = step.rounds;
    if (step.rounds < 0) {
      const LoopPlace predicate{LoopPlace::Root::predicate, predicates_++};
      text_.steps[at(loop)].input_count = 1;
      put(predicate);
      if (!add_plan(*plan.callees[at(step.callees)], state, {predicate}, arena)) return false;
    }
    text_.steps[at(loop)].body = next();
    const ResolvedPlan& body = *plan.callees[at(step.callees) + 1];
    Addresses addresses;
    if (!add_plan(body, state, {}, arena, &addresses)) return false;
    const auto leaves = ir::leaves(step.instruction->shape());
    for (std::size_t leaf = 0; leaf < body.plan->results.size(); ++leaf) {
      const BufferId result = body.plan->results[leaf];
      if (result >= 0) add_copy(state[leaf], addresses[result], leaves[leaf]->byte_size());
    }
    text_.steps[at(loop)].end = next();
    return true;
  }

  bool add_plan(const ResolvedPlan& plan, const Places& parameters, const Places& outputs,
                const LoopPlace& arena, Addresses* addresses_out = nullptr) {
    Addresses addresses = addresses_of(plan, parameters, outputs, arena);
    for (const ResolvedLaunch& launch : plan.launches) {
      if (next() > kMostSteps) return false;
      if (launch.meets || launch.goes_on || launch.waits > 0) return false;
      const std::span<const planner::StepId> steps(plan.launch_steps.data() + launch.steps,
                                                   at(launch.step_count));
      std::int32_t joint = -1;
      if (launch.joint >= 0) joint = begin_joint(plan, launch, addresses);
      for (const planner::StepId id : steps) {
        if (!add_step(plan, id, addresses)) return false;
      }
      if (joint >= 0) text_.steps[at(joint)].end = next();
    }
    if (addresses_out != nullptr) *addresses_out = std::move(addresses);
    return true;
  }

  // Pointers are those of all parts, one part after the other.
  std::int32_t begin_joint(const ResolvedPlan& plan, const ResolvedLaunch& launch,
                           const Addresses& addresses) {
    const std::int32_t number = begin_step(SequenceStep::Kind::joint);
    text_.steps[at(number)].joint = plan.joint_launches[at(launch.joint)].get();
    Places inputs, outputs, workspaces;
    for (std::int32_t i = 0; i < launch.step_count; ++i) {
      const ResolvedStep& part = plan.steps[plan.launch_steps[at(launch.steps + i)]];
      for (const LoopPlace& place : places_of(plan, addresses, part.inputs, part.input_count)) {
        inputs.push_back(place);
      }
      for (const LoopPlace& place : places_of(plan, addresses, part.outputs, part.output_count)) {
        outputs.push_back(place);
      }
      workspaces.push_back(part.workspace < 0 ? LoopPlace{} : addresses[part.workspace]);
    }
    put_all(text_.steps[at(number)], inputs, outputs, workspaces);
    return number;
  }

  void put_all(SequenceStep& step, const Places& inputs, const Places& outputs,
               const Places& workspaces) {
    step.input_count = static_cast<std::int32_t>(inputs.size());
    step.output_count = static_cast<std::int32_t>(outputs.size());
    step.workspace_count = static_cast<std::int32_t>(workspaces.size());
    for (const Places* places : {&inputs, &outputs, &workspaces}) {
      for (const LoopPlace& place : *places) put(place);
    }
  }

  bool add_step(const ResolvedPlan& plan, planner::StepId id, const Addresses& addresses) {
    const ResolvedStep& step = plan.steps[id];
    const Places inputs = places_of(plan, addresses, step.inputs, step.input_count);
    const Places outputs = places_of(plan, addresses, step.outputs, step.output_count);
    const LoopPlace workspace = step.workspace < 0 ? LoopPlace{} : addresses[step.workspace];
    switch (step.kind) {
      case StepKind::free:
        return true;
      case StepKind::copy:
        add_copy(outputs[0], inputs[0], plan.bytes[plan.ids[at(step.outputs)]]);
        return true;
      case StepKind::compute:
      case StepKind::recompute:
      case StepKind::encode:
      case StepKind::decode:
        break;
      default:
        return false;
    }
    if (step.kernel != nullptr) {
      SequenceStep& launch = text_.steps[at(begin_step(SequenceStep::Kind::launch))];
      launch.kernel = step.kernel;
      // What reads or writes codes is a kernel of its own.
      const bool codes = step.kind == StepKind::encode || step.kind == StepKind::decode ||
                         !plan.plan->steps[id].coding.empty();
      if (!codes) launch.instruction = step.instruction;
      if (step.instruction != nullptr) launch.name = step.instruction->name();
      put_all(launch, inputs, outputs, {workspace});
      return true;
    }
    switch (step.opcode) {
      case ir::Opcode::call:
        return add_plan(*plan.callees[at(step.callees)], inputs, outputs, workspace);
      case ir::Opcode::while_:
        for (std::size_t leaf = 0; leaf < outputs.size(); ++leaf) {
          if (plan.ids[at(step.outputs) + leaf] < 0) continue;
          add_copy(outputs[leaf], inputs[leaf],
                   ir::leaves(step.instruction->shape())[leaf]->byte_size());
        }
        return add_loop(plan, step, outputs, workspace);
      case ir::Opcode::conditional:
        return add_branch(plan, step, inputs, outputs, workspace);
      default:
        return false;
    }
  }

  // Inputs are as Run::run_conditional finds them.
  bool add_branch(const ResolvedPlan& plan, const ResolvedStep& step, const Places& inputs,
                  const Places& outputs, const LoopPlace& arena) {
    const ir::Instruction& instruction = *step.instruction;
    const std::int32_t branch = begin_step(SequenceStep::Kind::branch);
    text_.steps[at(branch)].input_count = 1;
    text_.steps[at(branch)].is_pred = instruction.operand(0)->shape().dtype() == ir::DType::pred;
    put(inputs[0]);
    const auto leaves = ir::leaves(instruction.shape());
    auto first = inputs.begin() + 1;
    for (std::int32_t i = 0; i < step.callee_count; ++i) {
      const auto last = first + ir::leaf_count(instruction.operand(i + 1)->shape());
      const std::int32_t block = begin_step(SequenceStep::Kind::block);
      const ResolvedPlan& callee = *plan.callees[at(step.callees + i)];
      Places parameters(first, last);
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        const int leaf = callee.plan->state_leaf(static_cast<int>(k));
        if (leaf < 0) continue;
        add_copy(outputs[k], parameters[at(leaf)], leaves[k]->byte_size());
        parameters[at(leaf)] = outputs[k];
      }
      if (!add_plan(callee, parameters, outputs, arena)) return false;
      text_.steps[at(block)].end = next();
      first = last;
    }
    text_.steps[at(branch)].end = next();
    return true;
  }

  device::SequenceText text_;
  std::map<LoopPlace, std::int32_t> numbers_;
  std::int32_t predicates_ = 0;
};

// Null where there is none. `may_compile`: KernelProvider::sequence.
Result<std::shared_ptr<const LoopSequence>> make_sequence(const ResolvedPlan& plan,
                                                          const ResolvedStep& step,
                                                          device::KernelProvider& provider,
                                                          bool may_compile) {
  SequenceWriter writer;
  if (!writer.write(plan, step)) return std::shared_ptr<const LoopSequence>();
  PLIMSOLL_ASSIGN_OR_RETURN(auto launch, provider.sequence(writer.text(), may_compile));
  if (launch == nullptr) return std::shared_ptr<const LoopSequence>();
  LoopSequence made = writer.finish();
  made.launch = std::move(launch);
  return std::make_shared<const LoopSequence>(std::move(made));
}

}  // namespace

// A loop inside of one that has a sequence is run by itself in few rounds only, those that are
// profiled: code of its own would be wasted.
Status make_loop_sequences(std::span<const std::unique_ptr<ResolvedPlan>> plans,
                           device::KernelProvider& provider) {
  std::unordered_map<const ResolvedPlan*, ResolvedPlan*> known;
  for (const auto& plan : plans) known.emplace(plan.get(), plan.get());
  using Visit = std::pair<ResolvedPlan*, bool>;  // whether a loop around it has a sequence
  std::vector<Visit> open{{plans.front().get(), false}};
  std::set<Visit> reached(open.begin(), open.end());
  while (!open.empty()) {
    const auto [plan, is_inside] = open.back();
    open.pop_back();
    for (ResolvedStep& step : plan->steps) {
      bool has_sequence = is_inside;
      if (step.opcode == ir::Opcode::while_ && step.callee_count > 0) {
        if (!is_inside || step.sequence == nullptr) {
          PLIMSOLL_ASSIGN_OR_RETURN(step.sequence,
                                    make_sequence(*plan, step, provider, !is_inside));
        }
        has_sequence |= step.sequence != nullptr;
      }
      for (std::int32_t i = 0; i < step.callee_count; ++i) {
        const Visit next{known.at(plan->callees[at(step.callees + i)]), has_sequence};
        if (reached.insert(next).second) open.push_back(next);
      }
    }
  }
  return ok_status();
}

}  // namespace plimsoll::executor
