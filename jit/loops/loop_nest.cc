// SPDX-License-Identifier: Apache-2.0
#include "jit/loops/loop_nest.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <tuple>

#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using ir::Opcode;

// Collects the affine expressions that a nest's code will evaluate.
class AccessCollector {
 public:
  AccessCollector(IndexSpace& space, const KernelGraph& graph) : space_(space), graph_(graph) {}

  void visit(const KernelNode& node, const Index& index) {
    if (visited_.size() > kMaxEmittedValues) return;
    const auto* id = node.is_input() ? nullptr : node.instruction;
    if (!visited_.insert({id, node.is_input() ? node.input : node.component, index}).second) return;
    if (node.is_input()) {
      const Affine position = space_.linearize(index, node.dims());
      record(position);
      loads_.insert({node.input, node.dtype(), position});
      return;
    }
    const ir::Instruction& instruction = *node.instruction;
    if (instruction.opcode() == Opcode::iota) {
      record(index[at(instruction.attributes().dimensions[0])]);
      return;
    }
    // Start indices come up in the expressions that they are part of.
    int count = instruction.operand_count();
    if (instruction.opcode() == Opcode::dynamic_slice || instruction.opcode() == Opcode::gather) {
      count = 1;
    }
    if (instruction.opcode() == Opcode::dynamic_update_slice) count = 2;
    for (int i = 0; i < count; ++i) {
      if (graph_.operand(instruction, i).shape->element_count() == 0) continue;
      if (is_never_chosen(space_, graph_, instruction, i, index)) continue;
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
      if (symbol.kind == SymbolKind::runtime) {
        visit(graph_.operand(*symbol.source, symbol.operand), symbol.at);
      } else if (symbol.kind != SymbolKind::loop) {
        record(symbol.argument);
      }
    }
  }

  // Everything evaluated, and of it the positions read in inputs.
  const std::set<Affine>& accesses() const { return accesses_; }
  const std::set<Load>& loads() const { return loads_; }

 private:
  IndexSpace& space_;
  const KernelGraph& graph_;
  std::set<std::tuple<const ir::Instruction*, int, Index>> visited_;
  std::set<Affine> accesses_;
  std::set<Load> loads_;
};

// The symbols of loops of `extents` (-1 for extent 1), and the position they make.
struct Loops {
  std::vector<int> symbols;
  Affine position;
};

Loops add_loops(IndexSpace& space, const std::vector<std::int64_t>& extents) {
  Loops loops;
  for (const std::int64_t extent : extents) {
    const Affine loop = space.add_loop(extent, static_cast<int>(loops.symbols.size()) + 1);
    loops.symbols.push_back(loop.is_constant() ? -1 : loop.terms[0].first);
    loops.position = space.add(space.scale(loops.position, extent), loop);
  }
  return loops;
}

AccessCollector collect_accesses(IndexSpace& space, const KernelGraph& graph, const LoopNest& nest,
                                 const Affine& position) {
  AccessCollector collector(space, graph);
  for (const Store& store : nest.stores) {
    collector.record(store_position(space, graph, nest, store, position));
    collector.visit(store.value, value_index(space, nest, store, position));
  }
  return collector;
}

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

Index value_index(IndexSpace& space, const LoopNest& nest, const Store& store,
                  const Affine& position) {
  if (nest.origin.empty()) return space.delinearize(position, store.value.dims());
  Index index = space.delinearize(position, nest.dims);
  for (std::size_t d = 0; d < index.size(); ++d) {
    index[d] = space.add(index[d], nest.origin[d]);
  }
  return index;
}

Affine store_position(IndexSpace& space, const KernelGraph& graph, const LoopNest& nest,
                      const Store& store, const Affine& position) {
  if (store.placement == nullptr) {
    return space.linearize(value_index(space, nest, store, position), store.value.dims());
  }
  const ir::Instruction& placement = *store.placement;
  const ir::Dims& dims = placement.shape().dims();
  Index target = space.delinearize(position, nest.dims);
  switch (placement.opcode()) {
    case Opcode::concatenate: {
      const auto axis = at(placement.attributes().dimensions[0]);
      for (int i = 0; i < store.operand; ++i) {
        target[axis] =
            space.add(target[axis], graph.operand(placement, i).dims()[static_cast<int>(axis)]);
      }
      break;
    }
    case Opcode::pad:
      if (store.operand == 1) {
        for (std::size_t d = 0; d < target.size(); ++d) {
          target[d] = space.add(target[d], store.begin[d]);
        }
        break;
      }
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

// Which loops walk the iteration space. One loop over all elements would need divisions for every
// index that is not plain; a loop per dim of the result would make inner loops as short as the last
// dim. In between are the *cuts*: products of the last dims, of the result and of every reshape on
// the way. Between cuts nothing ever divides. Then neighbouring loops are merged again if every
// position moves evenly over both: coefficient(major) = coefficient(minor) * extent(minor).
//
// Example: result [8,4,16], f(x) + broadcast(b), b one number a row of the middle dim. Cuts 1, 16,
// 64, 512: loops 8, 4, 16. x is read at 64 i + 16 j + k, b at j. i and j do not merge (b: 0 is not
// 1 * 4), j and k do not (b: 1 is not 0 * 16). Without b all three merge to a loop of 512. With b
// read at k only, i and j merge: 32 rows of 16.
std::vector<std::int64_t> choose_extents(const KernelGraph& graph, const LoopNest& nest) {
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
  const Loops loops = add_loops(space, extents);
  const auto& symbols = loops.symbols;
  const AccessCollector collector = collect_accesses(space, graph, nest, loops.position);
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

std::vector<Load> collect_loads(IndexSpace& space, const KernelGraph& graph, const LoopNest& nest,
                                const Affine& position) {
  const AccessCollector collector = collect_accesses(space, graph, nest, position);
  return {collector.loads().begin(), collector.loads().end()};
}

// A transposing read: along the innermost loop it jumps (coefficient 16 or more), along another
// loop it walks element by element, or nearly so. Those two loops are walked in tiles, which are
// transposed in registers (transpose_tile.cc), so that both reading and writing touch whole lines.
//
// Example: f32[1000,1000] transposed: read at i + 1000 j with j innermost. One element of each line
// of 16 would be used before the line is replaced; in tiles of 16 x 16 all are.
int choose_tiled_loop(const KernelGraph& graph, const LoopNest& nest,
                      const std::vector<std::int64_t>& extents, std::int64_t most_apart) {
  constexpr std::int64_t kFarApart = 16;
  constexpr std::int64_t kWorthwhile = 4;
  if (extents.size() < 2 || extents.back() < kWorthwhile) return -1;
  IndexSpace space;
  const Loops loops = add_loops(space, extents);
  const AccessCollector collector = collect_accesses(space, graph, nest, loops.position);
  for (const Load& load : collector.loads()) {
    if (std::abs(load.position.coefficient(loops.symbols.back())) < kFarApart) continue;
    for (std::size_t i = 0; i + 1 < extents.size(); ++i) {
      const std::int64_t step = load.position.coefficient(loops.symbols[i]);
      if (step >= 1 && step <= most_apart && extents[i] >= kWorthwhile) {
        return static_cast<int>(i);
      }
    }
  }
  return -1;
}

// Where the innermost loop is short, a unit of work takes several turns of a loop around it. The
// best such loop is one along which some input goes on where the innermost loop has left off
// (coefficient = extent): then a unit reads one long run.
int choose_group_loop(const KernelGraph& graph, const LoopNest& nest,
                      const std::vector<std::int64_t>& extents) {
  IndexSpace space;
  const Loops loops = add_loops(space, extents);
  const AccessCollector collector = collect_accesses(space, graph, nest, loops.position);
  const int next = static_cast<int>(extents.size()) - 2;
  for (int i = next; i >= 0; --i) {
    for (const Load& load : collector.loads()) {
      if (load.position.coefficient(loops.symbols.back()) == 1 &&
          load.position.coefficient(loops.symbols[at(i)]) == extents.back()) {
        return i;
      }
    }
  }
  return next;
}

}  // namespace plimsoll::jit
