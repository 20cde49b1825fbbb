// SPDX-License-Identifier: Apache-2.0
#include "jit/loop_nest.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace plimsoll::jit {
namespace {

using ir::Opcode;

// Collects the affine expressions that a nest's code will evaluate.
class AccessCollector {
 public:
  AccessCollector(IndexSpace& space, const Graph& graph) : space_(space), graph_(graph) {}

  void visit(const Node& node, const Index& index) {
    if (visited_.size() > kMaxEmittedValues) return;
    const auto* id = node.is_input() ? nullptr : node.instruction;
    if (!visited_.insert({id, node.is_input() ? node.input : node.component, index}).second) return;
    if (node.is_input()) {
      record(space_.linearize(index, node.dims()));
      return;
    }
    const ir::Instruction& instruction = *node.instruction;
    if (instruction.opcode() == Opcode::iota) {
      record(index[static_cast<std::size_t>(instruction.attributes().dimensions[0])]);
      return;
    }
    // Start indices are scalars, read once.
    int count = instruction.operand_count();
    if (instruction.opcode() == Opcode::dynamic_slice) count = 1;
    if (instruction.opcode() == Opcode::dynamic_update_slice) count = 2;
    for (int i = 0; i < count; ++i) {
      if (graph_.operand(instruction, i).shape->element_count() == 0) continue;
      for (const Condition& condition : operand_conditions(space_, graph_, instruction, i, index)) {
        record(condition.x);
      }
      visit(graph_.operand(instruction, i), operand_index(space_, graph_, instruction, i, index));
    }
  }

  void record(const Affine& x) {
    if (!accesses_.insert(x).second) return;
    for (const auto& [id, factor] : x.terms) {
      const Symbol symbol = space_.symbol(id);
      if (symbol.kind != SymbolKind::loop) record(symbol.argument);
    }
  }

  const std::set<Affine>& accesses() const { return accesses_; }

 private:
  IndexSpace& space_;
  const Graph& graph_;
  std::set<std::tuple<const ir::Instruction*, int, Index>> visited_;
  std::set<Affine> accesses_;
};

void add_cuts(std::set<std::int64_t>& cuts, const ir::Dims& dims) {
  std::int64_t suffix = 1;
  for (int i = dims.size() - 1; i > 0; --i) {
    suffix *= dims[i];
    const auto above = cuts.lower_bound(suffix);
    if (above == cuts.end() || *above % suffix != 0) continue;
    if (above != cuts.begin() && suffix % *std::prev(above) != 0) continue;
    cuts.insert(suffix);
  }
}

}  // namespace

Affine store_position(IndexSpace& space, const Graph& graph, const Store& store,
                      const Index& index) {
  if (store.placement == nullptr) return space.linearize(index, store.value.dims());
  const ir::Instruction& placement = *store.placement;
  const ir::Dims& dims = placement.shape().dims();
  Index target = index;
  switch (placement.opcode()) {
    case Opcode::concatenate: {
      const auto axis = static_cast<std::size_t>(placement.attributes().dimensions[0]);
      for (int i = 0; i < store.operand; ++i) {
        target[axis] =
            space.add(target[axis], graph.operand(placement, i).dims()[static_cast<int>(axis)]);
      }
      break;
    }
    case Opcode::pad:
      if (store.operand == 1) break;  // the padding value goes everywhere first
      for (std::size_t d = 0; d < target.size(); ++d) {
        const ir::PaddingDimension& padding = placement.attributes().padding[d];
        target[d] = space.add(space.scale(target[d], padding.interior + 1), padding.low);
      }
      break;
    default:  // dynamic-update-slice
      for (std::size_t d = 0; d < target.size(); ++d) {
        target[d] =
            space.add(target[d], dynamic_start(space, placement, static_cast<int>(d), dims));
      }
      break;
  }
  return space.linearize(target, dims);
}

std::vector<std::int64_t> choose_extents(const Graph& graph, const LoopNest& nest) {
  std::int64_t total = 1;
  for (const std::int64_t extent : nest.dims) total *= extent;
  // Suffix products at which the iteration space is cut; each divides the next.
  std::set<std::int64_t> cuts{1, total};
  add_cuts(cuts, nest.dims);
  for (const ir::Instruction* instruction : graph.instructions()) {
    if (instruction->opcode() != Opcode::reshape && instruction->opcode() != Opcode::bitcast) {
      continue;
    }
    if (instruction->shape().element_count() != total) continue;
    add_cuts(cuts, instruction->shape().dims());
    add_cuts(cuts, graph.operand(*instruction, 0).dims());
  }
  std::vector<std::int64_t> extents;
  for (auto it = std::next(cuts.begin()); it != cuts.end(); ++it) {
    extents.insert(extents.begin(), *it / *std::prev(it));
  }
  if (extents.size() <= 1) return {total};

  IndexSpace space;
  std::vector<int> symbols;
  Affine position;
  for (const std::int64_t extent : extents) {
    const Affine loop = space.add_loop(extent, static_cast<int>(symbols.size()) + 1);
    symbols.push_back(loop.is_constant() ? -1 : loop.terms[0].first);
    position = space.add(space.scale(position, extent), loop);
  }
  AccessCollector collector(space, graph);
  const Index index = space.delinearize(position, nest.dims);
  for (const Store& store : nest.stores) {
    collector.record(store_position(space, graph, store, index));
    collector.visit(store.value, space.delinearize(position, store.value.dims()));
  }
  std::vector<std::int64_t> merged{extents.back()};
  int minor = symbols.back();
  for (std::size_t i = extents.size() - 1; i-- > 0;) {
    const int major = symbols[i];
    bool together = true;
    for (const Affine& access : collector.accesses()) {
      if (access.coefficient(major) != access.coefficient(minor) * merged.front()) {
        together = false;
        break;
      }
    }
    if (together) {
      merged.front() *= extents[i];
    } else {
      merged.insert(merged.begin(), extents[i]);
      minor = major;
    }
  }
  return merged;
}

}  // namespace plimsoll::jit
