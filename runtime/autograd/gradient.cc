// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/gradient.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "runtime/autograd/gathered.h"
#include "runtime/autograd/rules.h"
#include "runtime/base/index.h"

namespace plimsoll::autograd {

using ir::Opcode;

Rule find_rule(Opcode opcode) {
  constexpr Rule none_rule = nullptr;
  static constexpr Rule kRules[] = {
#define PLIMSOLL_OP(number, name, text, c_name, fewest, most, op_class, rule, effect, dtypes, \
                    work, code, loop, folding, recording, gradient)                           \
  gradient##_rule,
#include "runtime/ir/ops.def"
  };
  return kRules[at(opcode)];
}

namespace {

// Results on which no input's infinitesimal change can have an effect.
bool stops(const Node& node) {
  return !ir::is_floating(node.dtype) && (node.flags & trace::kTupleResult) == 0;
}

// Reverse accumulation over the part of the graph between `wrt` and `outputs`.
//
// For y = f(x) and a gradient g of the loss with respect to y, the rule of f gives g * df/dx for
// each operand. Going from the newest node to the oldest, every node's users have been visited
// before it, so its gradient is complete when it is its turn: the sum over all users.
//
// Example: y = x * x + x, dy = 1. Nodes: m = x * x, y = m + x. y gives 1 to m and 1 to x; m gives x
// to x twice; the sum is 1 + x + x. These sums are nodes of the trace like any other, which is how
// gradients of gradients come for nothing.
//
// Only nodes that depend on `wrt` are visited (find_active), so parameters that are not trained
// cost nothing. "Reached, but zero" and "not reached" are told apart: the second is most often a
// mistake, and an error unless asked for otherwise.
//
// What gradients are taken with respect to may have been gathered more than once: one value, whose
// gradient is that of its first copy (one_of).
class Accumulation {
 public:
  explicit Accumulation(trace::Recorder& recorder)
      : recorder_(recorder), recording_(recorder.recording()), e_(recorder), gathered_(recorder) {}

  // Lists the nodes that depend on `wrt`, oldest first.
  void find_active(std::span<Node* const> wrt) {
    for (Node* node : wrt) active_.emplace(gathered_.first_of(node), true);
    wrt_ = active_;
    for (Node* node = recording_.oldest(); node != nullptr; node = node->next) {
      if ((node->flags & trace::kStopGradient) != 0 || stops(*node)) continue;
      const auto depends = [&](Node* operand) { return is_active(operand); };
      if (std::any_of(node->operands().begin(), node->operands().end(), depends)) {
        active_.emplace(node, true);
        order_.push_back(node);
      }
    }
  }

  bool is_active(Node* node) const { return active_.contains(one_of(node)); }

  void add(Node* node, NodeRef gradient) {
    if (!gradient) return;
    NodeRef& sum = gradients_[one_of(node)];
    sum = sum ? e_.add(sum, gradient) : std::move(gradient);
  }

  NodeRef gradient_of(Node* node) const {
    const auto it = gradients_.find(one_of(node));
    return it == gradients_.end() ? NodeRef() : it->second;
  }

  Status run() {
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      PLIMSOLL_RETURN_IF_ERROR(step(**it));
    }
    return ok_status();
  }

  // True when some output's gradient flowed into `node`, even if as zero.
  bool reached(Node* node) const { return reached_.contains(one_of(node)); }
  void reach(Node* node) { reached_.emplace(one_of(node), true); }

  Expression& expression() { return e_; }

 private:
  const Node* one_of(Node* node) const {
    const Node* const first = gathered_.first_of(node);
    return wrt_.contains(first) ? first : node;
  }

  Status step(Node& node) {
    if (one_of(&node) != &node || !reached(&node)) return ok_status();
    if (node.opcode == Opcode::get_tuple_element) {
      Node* tuple = node.operand(0);
      auto& elements = element_gradients_[tuple];
      elements.resize(at(trace::element_count(*tuple)));
      const auto op = trace::decode_words(node.words());
      // Several nodes may stand for one element.
      NodeRef& sum = elements[at(op.attributes.tuple_index)];
      if (const NodeRef own = gradient_of(&node)) sum = sum ? e_.add(sum, own) : own;
      reach(tuple);
      return e_.status();
    }
    for (Node* operand : node.operands()) {
      if (is_active(operand)) reach(operand);
    }
    std::vector<NodeRef> gradients;
    if (const auto it = element_gradients_.find(&node); it != element_gradients_.end()) {
      gradients = std::move(it->second);
    } else {
      gradients.push_back(gradient_of(&node));
    }
    const bool zero = std::none_of(gradients.begin(), gradients.end(),
                                   [](const NodeRef& g) { return static_cast<bool>(g); });
    if (zero) return ok_status();
    const Rule rule = node.control != nullptr ? control_rule(node) : find_rule(node.opcode);
    if (rule == nullptr) {
      return unimplemented(std::string(ir::to_string(node.opcode)) + ": has no gradient");
    }
    std::vector<bool> wanted;
    for (Node* operand : node.operands()) wanted.push_back(is_active(operand));
    std::vector<NodeRef> results(node.operand_count);
    // Another loop may take its place.
    kept_.emplace_back(recording_, &node);
    rule({e_, gathered_, node, trace::decode_words(node.words()), gradients, wanted, results});
    PLIMSOLL_RETURN_IF_ERROR(e_.status());
    for (std::size_t i = 0; i < results.size(); ++i) add(node.operands()[i], results[i]);
    return e_.status();
  }

  trace::Recorder& recorder_;
  trace::Recording& recording_;
  Expression e_;
  Gathered gathered_;
  std::unordered_map<const Node*, bool> wrt_, active_, reached_;
  std::vector<Node*> order_;
  std::vector<NodeRef> kept_;
  std::unordered_map<const Node*, NodeRef> gradients_;
  std::unordered_map<const Node*, std::vector<NodeRef>> element_gradients_;
};

std::string describe(const Node& node) {
  return std::string(ir::to_string(node.opcode)) + " " + node.shape().to_string();
}

}  // namespace

Status check_unbroken(trace::Recorder& recorder, std::span<Node* const> outputs) {
  const std::uint32_t epoch = recorder.recording().new_epoch();
  std::vector<const Node*> open;
  const auto visit = [&](Node* node) {
    if (node->epoch == epoch || stops(*node) || (node->flags & trace::kStopGradient) != 0) return;
    node->epoch = epoch;
    open.push_back(node);
  };
  for (Node* output : outputs) visit(output);
  while (!open.empty()) {
    const Node& node = *open.back();
    open.pop_back();
    if (!node.is_pending()) {
      if ((node.flags & trace::kDerived) == 0) continue;
      return failed_precondition(
          "gradient: would end at " + describe(node) +
          ", which was computed from variables and is evaluated already: how is no longer known "
          "(take gradients before reading or evaluating what lies between, or let them end there "
          "by stop_gradient)");
    }
    for (Node* operand : node.operands()) visit(operand);
  }
  return ok_status();
}

Result<std::vector<NodeRef>> gradients(trace::Recorder& recorder, std::span<Node* const> outputs,
                                       std::span<Node* const> output_gradients,
                                       std::span<Node* const> wrt, Unused unused) {
  for (const Node* node : wrt) {
    if (!ir::is_floating(node->dtype)) {
      return invalid_argument("gradient: with respect to " + describe(*node) +
                              ", must be floating");
    }
  }
  Accumulation accumulation(recorder);
  Expression& e = accumulation.expression();
  accumulation.find_active(wrt);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Node* output = outputs[i];
    if (!ir::is_floating(output->dtype)) {
      return invalid_argument("gradient: of " + describe(*output) + ", must be floating");
    }
    Node* given = output_gradients.empty() ? nullptr : output_gradients[i];
    if (given != nullptr && !(given->shape() == output->shape())) {
      return invalid_argument("gradient: of " + describe(*output) + " weighted by " +
                              given->shape().to_string() + ", must have the same shape");
    }
    if (!accumulation.is_active(output)) continue;
    accumulation.reach(output);
    accumulation.add(output, given != nullptr ? e.ref(given) : e.fill(*output, 1));
  }
  PLIMSOLL_RETURN_IF_ERROR(e.status());
  PLIMSOLL_RETURN_IF_ERROR(accumulation.run());
  std::vector<NodeRef> results;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    NodeRef gradient = accumulation.gradient_of(wrt[i]);
    if (!gradient && !accumulation.reached(wrt[i]) && unused == Unused::error) {
      return invalid_argument("gradient: the result does not depend on tensor " +
                              std::to_string(i) + " of " + std::to_string(wrt.size()) + " (" +
                              wrt[i]->shape().to_string() +
                              ") in the pending trace (take gradients before reading or "
                              "evaluating what lies between)");
    }
    const bool is_null = unused == Unused::null && !accumulation.reached(wrt[i]);
    if (!gradient && !is_null) gradient = e.fill(*wrt[i], 0);
    results.push_back(std::move(gradient));
  }
  PLIMSOLL_RETURN_IF_ERROR(e.status());
  return results;
}

}  // namespace plimsoll::autograd
