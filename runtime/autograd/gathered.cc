// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/gathered.h"

#include <cstdint>
#include <utility>

namespace plimsoll::autograd {

using ir::Opcode;
using trace::Node;
using trace::NodeRef;

namespace {

bool is_hinted(const Node& node) { return trace::hint_of(node) == ir::Hint::recompute; }

// The operation that gathers the value, if it is such a one; of several arrays each has its hint.
Node* gather_of(Node& node) {
  if (!is_hinted(node)) return nullptr;
  Node* const gather = node.opcode == Opcode::get_tuple_element ? node.operand(0) : &node;
  return gather->opcode == Opcode::all_gather ? gather : nullptr;
}

// Costs no more than the copy that it takes anyway.
bool moves_elements(const Node& node) {
  switch (node.opcode) {
    case Opcode::slice:
    case Opcode::reshape:
    case Opcode::transpose:
    case Opcode::convert:
    case Opcode::broadcast:
    case Opcode::reverse:
      return true;
    default:
      return (node.flags & trace::kStopGradient) != 0;
  }
}

}  // namespace

Gathered::Gathered(trace::Recorder& recorder) : recorder_(recorder) {
  if (recorder.participants() <= 1) return;
  for (Node* node = recorder.recording().oldest(); node != nullptr; node = node->next) {
    Node* gather = gather_of(*node);
    if (gather != nullptr && gather != node) add(gather, gather);
    if (gather == nullptr && moves_elements(*node)) {
      const auto found = made_.find(node->operand(0));
      if (found != made_.end()) gather = found->second.gather;
    }
    if (gather != nullptr) {
      add(node, gather);
      continue;
    }
    for (const Node* operand : node->operands()) {
      const auto found = made_.find(operand);
      if (found != made_.end()) read_last_ = found->second.gather;
    }
  }
}

void Gathered::add(Node* node, Node* gather) {
  std::vector<std::int64_t> what = {static_cast<std::int64_t>(node->opcode),
                                    static_cast<std::int64_t>(node->dtype), node->rank};
  what.insert(what.end(), node->dims().begin(), node->dims().end());
  what.insert(what.end(), node->words().begin(), node->words().end());
  for (Node* operand : node->operands()) {
    what.push_back(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(first_of(operand))));
  }
  const auto [first, is_new] = firsts_.try_emplace(std::move(what), node);
  made_.try_emplace(node, Made{gather, first->second});
}

Node* Gathered::first_of(Node* node) const {
  const auto found = made_.find(node);
  return found == made_.end() ? node : found->second.first;
}

NodeRef Gathered::to_read(Node* node) {
  trace::Recording& recording = recorder_.recording();
  const auto found = made_.find(node);
  if (found == made_.end() || found->second.gather == read_last_) return NodeRef(recording, node);
  Node* const first = found->second.first;
  if (const auto copy = copies_.find(first); copy != copies_.end()) return copy->second;
  std::vector<NodeRef> kept;
  std::vector<Node*> operands;
  for (Node* operand : node->operands()) {
    kept.push_back(to_read(operand));
    operands.push_back(kept.back().get());
  }
  const auto flags = static_cast<std::uint8_t>(node->flags & ~(trace::kVariable | trace::kDerived));
  Node* const copy =
      recording.add(node->opcode, node->dtype, node->dims(), operands, node->words(), flags);
  copy->name = node->name;
  return copies_[first] = NodeRef(recording, copy);
}

}  // namespace plimsoll::autograd
