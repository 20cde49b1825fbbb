// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/cut/cut.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/hash.h"
#include "runtime/base/index.h"
#include "runtime/trace/record/emit.h"

namespace plimsoll::trace {
namespace {

using ir::Opcode;

std::int64_t header(const Node& node) {
  return static_cast<std::int64_t>(node.opcode) | static_cast<std::int64_t>(node.dtype) << 8 |
         static_cast<std::int64_t>(node.rank) << 16 | static_cast<std::int64_t>(node.flags) << 24 |
         static_cast<std::int64_t>(node.operand_count) << 32;
}

bool is_collective(const Node& node) {
  return ir::op_info(node.opcode).op_class == ir::OpClass::collective;
}

// What made a leaf's value does not matter any more.
std::int64_t leaf_header(const Node& leaf) {
  return static_cast<std::int64_t>(Opcode::parameter) | static_cast<std::int64_t>(leaf.dtype) << 8 |
         static_cast<std::int64_t>(leaf.rank) << 16;
}

// Marks what `wanted` needs and lists it, oldest first.
//
// Nodes stand in a list in the order of recording, so operands come before their users. A walk from
// the newest backwards meets every user before its operands: one pass marks and lists everything,
// without a stack, and stops as soon as nothing marked is left (`open`). Marks are epochs, so that
// none has to be cleared.
void collect(Recording& recording, std::span<Node* const> wanted, std::uint32_t epoch, Cut& cut) {
  std::size_t unseen = wanted.size();
  for (Node* node : wanted) node->epoch = epoch;
  std::size_t open = unseen;
  // Operands are older than their users: one walk from the newest marks everything.
  for (Node* node = recording.newest(); node != nullptr && open > 0; node = node->previous) {
    if (node->epoch != epoch) continue;
    --open;
    node->dropped = 0;
    cut.nodes.push_back(node);
    for (Node* operand : node->operands()) {
      if (operand->epoch == epoch) continue;
      operand->epoch = epoch;
      operand->dropped = 0;
      if (operand->is_pending()) {
        ++open;
      } else {
        operand->index = ~std::uint32_t{0};
      }
    }
  }
  std::reverse(cut.nodes.begin(), cut.nodes.end());
}

// The cut as words, in a form that does not depend on names, on addresses or on what was recorded
// besides: two evaluations of the same Python code have equal keys. Values of scalar constants are
// left out (a learning rate changes); constants that shape the program (kStructural) are part of
// it. The key is compared as a whole; the hash only finds the candidates.
void encode(Cut& cut) {
  std::vector<std::int64_t>& words = cut.key.words;
  for (std::uint32_t i = 0; i < cut.nodes.size(); ++i) {
    Node& node = *cut.nodes[i];
    node.index = i;
    cut.key_starts.push_back(static_cast<std::uint32_t>(words.size()));
    words.push_back(header(node));
    cut.meets = cut.meets || is_collective(node);
    words.insert(words.end(), node.dims().begin(), node.dims().end());
    for (Node* operand : node.operands()) {
      if (!operand->is_pending() && operand->index == ~std::uint32_t{0}) {
        operand->index = static_cast<std::uint32_t>(cut.leaves.size());
        cut.leaves.push_back(operand);
      }
      const auto index = static_cast<std::int64_t>(operand->index);
      words.push_back(operand->is_pending() ? index : -1 - index);
    }
    if (node.opcode == Opcode::constant && (node.flags & kStructural) == 0) {
      cut.constants.push_back(&node);
      continue;
    }
    words.push_back(node.word_count);
    words.insert(words.end(), node.words().begin(), node.words().end());
    if (node.control != nullptr) node.control->append_key(words);
  }
  for (const Node* output : cut.outputs) words.push_back(output->index);
  for (const Node* leaf : cut.leaves) {
    words.push_back(leaf_header(*leaf));
    words.insert(words.end(), leaf->dims().begin(), leaf->dims().end());
  }
  cut.key.hash = hash_words(words);
}

// A leaf is donated when all its references come from nodes that this cut makes superfluous:
// outputs (which become leaves themselves) and what only superfluous nodes use.
//
// Example: w2 = w - 0.1 * g is evaluated after Python has rebound the name w to w2. w is a leaf,
// and the only reference to it comes from the difference. That is an output, which becomes a leaf
// itself and forgets its operands. So all references to w are dropped: w is donated, and w2 may be
// written into w's memory. If the user still holds w, its handle is one more reference, and w
// stays.
//
// The walk goes from users to operands, since a node is superfluous only if all its users are:
// `dropped` counts references that go, `refs` those that there are.
void find_donations(Cut& cut, std::uint32_t epoch, std::span<Node* const> extra_references) {
  for (Node* leaf : extra_references) {
    if (leaf->epoch == epoch) ++leaf->dropped;
  }
  std::vector<bool> is_output(cut.nodes.size(), false);
  for (const Node* output : cut.outputs) is_output[output->index] = true;
  for (auto it = cut.nodes.rbegin(); it != cut.nodes.rend(); ++it) {
    Node& node = **it;
    if (!is_output[node.index] && node.dropped != node.refs) continue;
    for (Node* operand : node.operands()) ++operand->dropped;
  }
  for (const Node* leaf : cut.leaves) {
    if (leaf->value->on_host) {
      cut.residency.push_back(planner::ParameterResidency::host);
    } else if (leaf->dropped == leaf->refs) {
      cut.residency.push_back(planner::ParameterResidency::donated);
    } else {
      cut.residency.push_back(planner::ParameterResidency::resident);
    }
  }
}

}  // namespace

void Cut::clear() {
  nodes.clear();
  outputs.clear();
  leaves.clear();
  residency.clear();
  constants.clear();
  key.words.clear();
  key_starts.clear();
  key.hash = 0;
  meets = false;
}

void make_cut(Recording& recording, std::span<Node* const> wanted,
              std::span<Node* const> extra_references, Cut& cut) {
  cut.clear();
  const std::uint32_t epoch = recording.new_epoch();
  collect(recording, wanted, epoch, cut);
  cut.outputs.assign(wanted.begin(), wanted.end());
  encode(cut);
  find_donations(cut, epoch, extra_references);
}

std::vector<Node*> live_dependants(Recording& recording, std::span<Node* const> leaves,
                                   std::span<Node* const> outputs) {
  std::vector<Node*> found;
  if (leaves.empty()) return found;
  const std::uint32_t of_outputs = recording.new_epoch(), epoch = recording.new_epoch();
  for (Node* output : outputs) output->epoch = of_outputs;
  for (Node* leaf : leaves) leaf->epoch = epoch;
  for (Node* node = recording.oldest(); node != nullptr; node = node->next) {
    if (node->epoch == of_outputs) continue;
    const bool depends = std::any_of(node->operands().begin(), node->operands().end(),
                                     [&](const Node* operand) { return operand->epoch == epoch; });
    if (!depends) continue;
    node->epoch = epoch;
    if (node->handles > 0) found.push_back(node);
  }
  return found;
}

std::unique_ptr<ir::Module> build_module(const Cut& cut, const std::vector<bool>& lifted,
                                         std::span<const std::string> names,
                                         std::int64_t participants) {
  auto module = std::make_unique<ir::Module>("trace");
  if (cut.meets) module->replica_count = participants;
  // Participants tell each other what they come to: names that count anything else would differ
  // where constants have become inputs of one's program and not of another's.
  std::int64_t collectives = 0;
  ir::Computation* entry = module->add_computation("main");
  module->set_entry(entry);
  std::vector<ir::Instruction*> leaves, made(cut.nodes.size());
  for (const Node* leaf : cut.leaves) {
    leaves.push_back(entry->add_parameter(static_cast<std::int64_t>(leaves.size()), leaf->shape(),
                                          leaf->name == 0 ? "p" : names[leaf->name]));
  }
  auto number = static_cast<std::int64_t>(leaves.size());
  for (std::size_t i = 0; i < cut.constants.size(); ++i) {
    const Node& constant = *cut.constants[i];
    if (!lifted[i]) continue;
    made[constant.index] = entry->add_parameter(number++, constant.shape(), "scalar");
  }
  std::vector<bool> is_output(cut.nodes.size(), false);
  for (const Node* output : cut.outputs) is_output[output->index] = true;
  Emitter emitter(*module, names);
  for (const Node* node : cut.nodes) {
    if (made[node->index] != nullptr) continue;
    std::vector<ir::Instruction*> operands;
    for (const Node* operand : node->operands()) {
      operands.push_back(operand->is_pending() ? made[operand->index] : leaves[operand->index]);
    }
    if ((node->flags & kStopGradient) != 0 && !is_output[node->index]) {
      made[node->index] = operands[0];
      if (hint_of(*node) != ir::Hint::none) {
        ir::set_hint(operands[0]->attributes(), hint_of(*node));
      }
      continue;
    }
    std::string name;
    if (is_collective(*node)) {
      name = std::string(ir::to_string(node->opcode)) + "." + std::to_string(++collectives);
    }
    const ir::Shape shape = result_shape(*node);
    made[node->index] = emitter.emit(
        *entry, {node->opcode, &shape, node->flags, node->name, node->words(), node->control.get()},
        operands, name);
  }
  std::vector<ir::Instruction*> results;
  for (const Node* output : cut.outputs) results.push_back(made[output->index]);
  entry->set_root(entry->add_tuple(std::move(results)));
  module->remove_unreachable();  // puts callees before the entry
  return module;
}

std::string describe_key(std::span<const std::int64_t> key, std::size_t start) {
  const std::int64_t word = key[start];
  const auto opcode = static_cast<Opcode>(word & 0xff);
  const auto dtype = static_cast<ir::DType>((word >> 8) & 0xff);
  ir::Dims dims;
  for (std::int64_t i = 0; i < ((word >> 16) & 0xff); ++i) {
    dims.push_back(key[start + 1 + at(i)]);
  }
  return std::string(ir::to_string(opcode)) + " " + ir::Shape(dtype, dims).to_string();
}

}  // namespace plimsoll::trace
