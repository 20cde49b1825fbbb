// SPDX-License-Identifier: Apache-2.0
// Gradients of loops and branches.
#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "runtime/autograd/gradient.h"
#include "runtime/autograd/rules.h"
#include "runtime/base/index.h"
#include "runtime/ir/dataflow/induction_variables.h"
#include "runtime/trace/record/emit.h"
#include "runtime/trace/record/scope.h"

namespace plimsoll::autograd {

using ir::Opcode;
using trace::ControlFlow;
using trace::Region;
using trace::Scope;

namespace {

using Nodes = std::vector<Node*>;

// Which outputs change with the parameters that `active` marks.
std::vector<bool> active_outputs(const Region& region, const std::vector<bool>& active) {
  std::vector<bool> values = active;
  for (const Region::Step& step : region.steps) {
    const bool stops = (step.flags & trace::kStopGradient) != 0 ||
                       (step.shape.is_array() && !ir::is_floating(step.shape.dtype()));
    values.push_back(!stops && std::any_of(step.operands.begin(), step.operands.end(),
                                           [&](int operand) { return values[at(operand)]; }));
  }
  std::vector<bool> outputs;
  for (const int output : region.outputs) outputs.push_back(values[at(output)]);
  return outputs;
}

// How often a loop goes round, where constants tell.
std::optional<std::int64_t> count_rounds(const Node& loop) {
  ir::Module module("loop");
  ir::Computation* entry = module.add_computation("main");
  module.set_entry(entry);
  std::vector<ir::Instruction*> operands;
  for (const Node* operand : loop.operands()) {
    if (operand->is_pending() && operand->opcode == Opcode::constant) {
      operands.push_back(
          entry->add_constant(trace::scalar_literal(operand->dtype, operand->words())));
    } else {
      operands.push_back(entry->add_parameter(static_cast<std::int64_t>(entry->parameters().size()),
                                              operand->shape()));
    }
  }
  const ir::Shape shape = trace::result_shape(loop);
  trace::Emitter emitter(module, {});
  return ir::round_count(*emitter.emit(
      *entry, {loop.opcode, &shape, loop.flags, 0, {}, loop.control.get()}, operands));
}

// The gradient of a scan is a scan the other way round, over the gradients of the state, what the
// rounds have stacked for it (residuals), and sums of the gradients of what was captured.
//
// A round and its gradient are first recorded as one; then that is taken apart. Residuals are what
// the gradient reads of the round that changes from round to round; what costs no more to make
// again than to read (moves_elements) is made again, of what it is made of. (What else is better
// computed again than stacked, plans decide: passes/loops.) The forward scan is recorded once more,
// stacking these as well, and takes the place of the original.
class ScanGradient {
 public:
  ScanGradient(const RuleCall& call, ControlFlow scan)
      : call_(call),
        e_(call.e),
        recorder_(call.e.recorder()),
        recording_(recorder_.recording()),
        scan_(std::move(scan)),
        carried_(at(scan_.carried)),
        scanned_(at(scan_.scanned)) {}

  Status run() {
    find_active();
    if (!any_wanted()) return ok_status();
    PLIMSOLL_RETURN_IF_ERROR(Scope::check_depth(recording_));
    {
      Scope scope(recording_);
      PLIMSOLL_RETURN_IF_ERROR(record_round(scope));
      find_residuals();
      PLIMSOLL_RETURN_IF_ERROR(check_residuals());
      PLIMSOLL_RETURN_IF_ERROR(take_apart(scope));
    }
    return record_loops();
  }

 private:
  Node* operand(std::size_t i) const { return call_.node.operand(static_cast<int>(i)); }
  std::size_t operand_count() const { return call_.node.operand_count; }
  std::size_t first_captured() const { return carried_ + scanned_; }
  bool wants(std::size_t i) const {
    return call_.wants(static_cast<int>(i)) && ir::is_floating(operand(i)->dtype);
  }
  const NodeRef& gradient(std::size_t result) const { return call_.gradients[result]; }

  bool any_wanted() const {
    for (std::size_t i = 0; i < operand_count(); ++i) {
      if (wants(i)) return true;
    }
    return false;
  }

  // A state that begins as a constant may change with what is wanted in later rounds.
  void find_active() {
    for (std::size_t i = 0; i < operand_count(); ++i) active_.push_back(wants(i));
    for (bool more = true; std::exchange(more, false);) {
      active_output_ = active_outputs(scan_.body(), active_);
      for (std::size_t i = 0; i < carried_; ++i) {
        if (!active_output_[i] || active_[i]) continue;
        active_[i] = true;
        more = true;
      }
    }
  }

  // A round, and behind it its gradient.
  Status record_round(Scope& scope) {
    const Region& region = scan_.body();
    for (const ir::Shape& shape : region.parameters) {
      parameters_.push_back(scope.parameter(shape));
    }
    outputs_ = trace::record_region(recording_, region, parameters_);
    const NodeRef marker = recorder_.scalar(ir::DType::pred, 0, true);

    Nodes of, weights, wrt;
    for (std::size_t i = 0; i < carried_; ++i) {
      if (!active_[i]) continue;
      states_.push_back(i);
      state_gradients_.push_back(scope.parameter(region.parameters[i]));
      wrt.push_back(parameters_[i]);
      if (!active_output_[i]) continue;
      of.push_back(outputs_[i].get());
      weights.push_back(state_gradients_.back());
    }
    for (std::size_t i = carried_; i < outputs_.size(); ++i) {
      if (!active_output_[i] || !gradient(i)) continue;
      results_.push_back(i);
      result_gradients_.push_back(scope.parameter(outputs_[i]->shape()));
      of.push_back(outputs_[i].get());
      weights.push_back(result_gradients_.back());
    }
    for (std::size_t i = carried_; i < operand_count(); ++i) {
      if (wants(i)) wrt.push_back(parameters_[i]);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<NodeRef> made,
                              gradients(recorder_, of, weights, wrt, Unused::null));
    auto next = made.begin();
    for (const std::size_t i : states_) {
      const NodeRef& made_here = *next++;
      next_.push_back(made_here ? made_here : e_.fill(*parameters_[i], 0));
    }
    for (std::size_t i = carried_; i < operand_count(); ++i) {
      if (!wants(i)) continue;
      const NodeRef& made_here = *next++;
      if (!made_here) continue;
      if (i < first_captured()) {
        arrays_.push_back(i);
        slices_.push_back(made_here);
        continue;
      }
      sums_.push_back(i);
      sums_before_.push_back(scope.parameter(parameters_[i]->shape()));
      sums_after_.push_back(e_.add(e_.ref(sums_before_.back()), made_here));
    }
    PLIMSOLL_RETURN_IF_ERROR(e_.status());
    for (const Node* node = marker->previous; node != nullptr && node->scope == recording_.depth();
         node = node->previous) {
      round_.insert(node);
    }
    for (std::size_t i = 0; i < first_captured(); ++i) varying_.emplace(parameters_[i], true);
    for (std::size_t i = first_captured(); i < parameters_.size(); ++i) {
      varying_.emplace(parameters_[i], false);
    }
    return ok_status();
  }

  bool is_of_round(const Node& node) const {
    return round_.contains(&node) ||
           (node.opcode == Opcode::get_tuple_element && round_.contains(node.operand(0)));
  }

  // Of a node of the round: whether it may differ from one to the next.
  bool varies(const Node& node) {
    if (const auto known = varying_.find(&node); known != varying_.end()) return known->second;
    std::vector<const Node*> open = {&node};
    while (!open.empty()) {
      const Node& top = *open.back();
      bool waits = false, varies = false;
      for (const Node* operand : top.operands()) {
        if (operand->scope != recording_.depth()) continue;
        const auto known = varying_.find(operand);
        if (known == varying_.end()) {
          open.push_back(operand);
          waits = true;
        } else {
          varies = varies || known->second;
        }
      }
      if (waits) continue;
      varying_.emplace(&top, varies);
      open.pop_back();
    }
    return varying_.at(&node);
  }

  static bool moves_elements(const Node& node) {
    switch (node.opcode) {
      case Opcode::broadcast:
      case Opcode::reshape:
      case Opcode::transpose:
        return true;
      case Opcode::convert:
        return node.operand(0)->byte_size() <= node.byte_size();
      default:
        return false;
    }
  }

  void find_residuals() {
    std::vector<NodeRef> all = next_;
    all.insert(all.end(), sums_after_.begin(), sums_after_.end());
    all.insert(all.end(), slices_.begin(), slices_.end());
    Nodes open;
    for (auto it = all.rbegin(); it != all.rend(); ++it) open.push_back(it->get());
    std::unordered_set<const Node*> seen;
    std::vector<bool> read(parameters_.size(), false);
    while (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      if (node->scope != recording_.depth() || !seen.insert(node).second) continue;
      if (node->opcode == Opcode::parameter) {
        const auto place = std::find(parameters_.begin(), parameters_.end(), node);
        if (place == parameters_.end()) continue;
        const auto i = static_cast<std::size_t>(place - parameters_.begin());
        if (i < carried_) {
          residuals_.emplace_back(recording_, node);
        } else {
          read[i] = true;
        }
        continue;
      }
      if (is_of_round(*node) && varies(*node) && !moves_elements(*node)) {
        residuals_.emplace_back(recording_, node);
        continue;
      }
      open.insert(open.end(), node->operands().rbegin(), node->operands().rend());
    }
    for (std::size_t i = carried_; i < read.size(); ++i) {
      if (read[i]) (i < first_captured() ? read_arrays_ : read_captured_).push_back(i);
    }
    // What is stacked already.
    for (const NodeRef& residual : residuals_) {
      const auto stacked =
          std::find_if(outputs_.begin() + scan_.carried, outputs_.end(),
                       [&](const NodeRef& output) { return output.get() == residual.get(); });
      if (stacked != outputs_.end()) {
        sources_.push_back(static_cast<int>(stacked - outputs_.begin()));
      } else {
        sources_.push_back(static_cast<int>(outputs_.size() + added_.size()));
        added_.push_back(residual.get());
      }
    }
  }

  Status check_residuals() const {
    for (const Node* residual : added_) {
      ir::Dims dims = {scan_.length};
      if (residual->rank < ir::kMaxRank) {
        for (const std::int64_t dim : residual->dims()) dims.push_back(dim);
        if (ir::fits_address_space(residual->dtype, dims)) continue;
      }
      return unimplemented("gradient: of a loop of " + std::to_string(scan_.length) +
                           " rounds would stack a " + residual->shape().to_string() + " of each (" +
                           std::string(ir::to_string(residual->opcode)) + ")");
    }
    return ok_status();
  }

  Status take_apart(Scope& scope) {
    std::vector<NodeRef> captured;
    if (!added_.empty()) {
      Nodes all;
      for (const NodeRef& output : outputs_) all.push_back(output.get());
      all.insert(all.end(), added_.begin(), added_.end());
      forward_ = scan_;
      PLIMSOLL_ASSIGN_OR_RETURN(auto region, scope.extract(parameters_, all, captured));
      forward_.regions = {std::move(region)};
      forward_.stacked += static_cast<int>(added_.size());
    }
    Nodes given = state_gradients_, made;
    const auto add = [](Nodes& to, const std::vector<NodeRef>& nodes) {
      for (const NodeRef& node : nodes) to.push_back(node.get());
    };
    given.insert(given.end(), sums_before_.begin(), sums_before_.end());
    given.insert(given.end(), result_gradients_.begin(), result_gradients_.end());
    add(given, residuals_);
    for (const std::size_t i : read_arrays_) given.push_back(parameters_[i]);
    for (const std::size_t i : read_captured_) given.push_back(parameters_[i]);
    add(made, next_);
    add(made, sums_after_);
    add(made, slices_);
    PLIMSOLL_ASSIGN_OR_RETURN(auto region, scope.extract(given, made, captured));
    if (!captured.empty()) return internal_error("gradient: a loop's captures more than the loop");
    backward_.form = ControlFlow::Form::scan;
    backward_.reversed = !scan_.reversed;
    backward_.carried = static_cast<int>(next_.size() + sums_after_.size());
    backward_.scanned =
        static_cast<int>(result_gradients_.size() + residuals_.size() + read_arrays_.size());
    backward_.stacked = static_cast<int>(slices_.size());
    backward_.length = scan_.length;
    backward_.regions = {std::move(region)};
    return ok_status();
  }

  // With all that it stacks, in the place of the original.
  NodeRef record_forward() {
    Node* const before = &call_.node;
    if (added_.empty()) return NodeRef(recording_, before);
    const NodeRef loop = trace::record_control(recording_, forward_, before->operands());
    recording_.move_before(loop.get(), before);
    loop->name = before->name;
    for (Node* node = before->next; node != nullptr; node = node->next) {
      if (node->opcode == Opcode::get_tuple_element && node->operand(0) == before) {
        recording_.replace_operand(node, 0, loop.get());
      }
    }
    return loop;
  }

  Status record_loops() {
    if (backward_.carried + backward_.stacked == 0) return ok_status();
    const NodeRef forward = record_forward();
    std::vector<NodeRef> operands;
    for (const std::size_t i : states_) {
      operands.push_back(gradient(i) ? gradient(i) : e_.fill(*operand(i), 0));
    }
    for (const std::size_t i : sums_) operands.push_back(e_.fill(*operand(i), 0));
    for (const std::size_t i : results_) operands.push_back(gradient(i));
    for (const int source : sources_) operands.push_back(e_.element(forward, source));
    for (const std::size_t i : read_arrays_) operands.push_back(call_.operand(static_cast<int>(i)));
    for (const std::size_t i : read_captured_) {
      operands.push_back(call_.operand(static_cast<int>(i)));
    }
    PLIMSOLL_RETURN_IF_ERROR(e_.status());
    Nodes nodes;
    for (const NodeRef& node : operands) nodes.push_back(node.get());
    const NodeRef backward = trace::record_control(recording_, backward_, nodes);
    int result = 0;
    const auto give = [&](std::size_t i) {
      if (wants(i)) call_.give(static_cast<int>(i), e_.element(backward, result));
      ++result;
    };
    for (const std::size_t i : states_) give(i);
    for (const std::size_t i : sums_) give(i);
    for (const std::size_t i : arrays_) give(i);
    return e_.status();
  }

  const RuleCall& call_;
  Expression& e_;
  trace::Recorder& recorder_;
  trace::Recording& recording_;
  const ControlFlow scan_;
  const std::size_t carried_, scanned_;
  std::vector<bool> active_, active_output_;  // by operand; by output

  // The round: its parameters and outputs, all its nodes, and which of them are known to vary.
  Nodes parameters_;
  std::vector<NodeRef> outputs_;
  std::unordered_set<const Node*> round_;
  std::unordered_map<const Node*, bool> varying_;
  // Its gradient: of states, stacked results, sliced arrays and captured values (numbers of
  // operands and outputs), what comes into it and what it makes.
  std::vector<std::size_t> states_, results_, arrays_, sums_;
  Nodes state_gradients_, result_gradients_, sums_before_;
  std::vector<NodeRef> next_, slices_, sums_after_;
  // What it reads of the round: values to stack, and the results of the forward loop that hold
  // them; those that are not stacked yet; arrays that the round reads slices of, too.
  std::vector<NodeRef> residuals_;
  std::vector<int> sources_;
  Nodes added_;
  std::vector<std::size_t> read_arrays_, read_captured_;
  ControlFlow forward_, backward_;
};

void loop_rule(const RuleCall& call) {
  ControlFlow scan = *call.node.control;
  if (scan.form == ControlFlow::Form::loop) {
    const auto rounds = count_rounds(call.node);
    if (!rounds) {
      return call.refuse(
          "has no gradient, as constants do not tell how often it goes round (record a scan, or "
          "count from a constant to a constant)");
    }
    if (*rounds == 0) {
      for (int i = 0; i < scan.carried; ++i) call.give(i, call.gradients[at(i)]);
      return;
    }
    scan.form = ControlFlow::Form::scan;
    scan.length = *rounds;
    scan.regions = {scan.regions[1]};
  }
  const Status status = ScanGradient(call, std::move(scan)).run();
  if (!status.ok()) call.e.fail(status);
}

// One branch of the gradient: the branch again, and what of the gradients of its results reaches
// each of `wanted` (numbers of what was captured).
Result<std::shared_ptr<const Region>> branch_gradient(const RuleCall& call, const Region& branch,
                                                      const std::vector<std::size_t>& wanted) {
  trace::Recorder& recorder = call.e.recorder();
  Scope scope(recorder.recording());
  Nodes captured, given;
  for (int i = 1; i < static_cast<int>(call.node.operand_count); ++i) {
    captured.push_back(scope.parameter(call.node.operand(i)->shape()));
  }
  const std::size_t own = branch.parameters.size();
  const std::vector<NodeRef> outputs =
      trace::record_region(recorder.recording(), branch, std::span(captured).first(own));
  Nodes of, weights, wrt, all = captured;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!call.gradients[i]) continue;
    all.push_back(scope.parameter(outputs[i]->shape()));
    of.push_back(outputs[i].get());
    weights.push_back(all.back());
  }
  for (const std::size_t i : wanted) wrt.push_back(captured[i]);
  PLIMSOLL_ASSIGN_OR_RETURN(std::vector<NodeRef> made,
                            gradients(recorder, of, weights, wrt, Unused::null));
  Nodes results;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (!made[i]) made[i] = call.e.fill(*wrt[i], 0);
    results.push_back(made[i].get());
  }
  PLIMSOLL_RETURN_IF_ERROR(call.e.status());
  std::vector<NodeRef> more;
  PLIMSOLL_ASSIGN_OR_RETURN(auto region, scope.extract(all, results, more));
  if (!more.empty()) return internal_error("gradient: a branch's captures more than the branch");
  return region;
}

void branches_rule(const RuleCall& call) {
  const ControlFlow& branches = *call.node.control;
  std::vector<std::size_t> wanted;
  for (int i = 1; i < static_cast<int>(call.node.operand_count); ++i) {
    if (call.wants(i) && ir::is_floating(call.node.operand(i)->dtype)) wanted.push_back(at(i - 1));
  }
  if (wanted.empty()) return;
  const Status depth = Scope::check_depth(call.e.recorder().recording());
  if (!depth.ok()) {
    call.e.fail(depth);
    return;
  }
  ControlFlow gradient;
  gradient.form = ControlFlow::Form::branches;
  for (const auto& branch : branches.regions) {
    auto region = branch_gradient(call, *branch, wanted);
    if (!region.ok()) {
      call.e.fail(region.status());
      return;
    }
    gradient.regions.push_back(*std::move(region));
  }
  std::vector<NodeRef> operands;
  for (int i = 0; i < static_cast<int>(call.node.operand_count); ++i) {
    operands.push_back(call.operand(i));
  }
  for (const NodeRef& g : call.gradients) {
    if (g) operands.push_back(g);
  }
  Nodes nodes;
  for (const NodeRef& node : operands) nodes.push_back(node.get());
  const NodeRef made =
      trace::record_control(call.e.recorder().recording(), std::move(gradient), nodes);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    call.give(static_cast<int>(wanted[i]) + 1, call.e.element(made, static_cast<int>(i)));
  }
}

}  // namespace

Rule control_rule(const Node& node) {
  return node.control->form == ControlFlow::Form::branches ? branches_rule : loop_rule;
}

}  // namespace plimsoll::autograd
