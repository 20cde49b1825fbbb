// SPDX-License-Identifier: Apache-2.0
#include "jit/loops/placed_roots.h"

#include <algorithm>
#include <utility>

#include "jit/emit/strided_vectors.h"
#include "runtime/ir/fusions/in_place.h"

namespace plimsoll::jit {
namespace {

using ir::Opcode;

constexpr std::size_t kMaxPlacedOperands = 16;

// Pieces of one element along the minor dimension, which lie next to each other in the result.
bool takes_turns(const KernelGraph& graph, const ir::Instruction& concatenate) {
  const int minor = concatenate.shape().rank() - 1;
  if (concatenate.attributes().dimensions[0] != minor || concatenate.operand_count() > kMostApart) {
    return false;
  }
  for (int i = 0; i < concatenate.operand_count(); ++i) {
    if (graph.operand(concatenate, i).dims()[minor] != 1) return false;
  }
  return true;
}

// A root that is stored operand by operand rather than chosen element by element.
bool is_placed(const KernelGraph& graph, const KernelNode& root) {
  if (root.is_input()) return false;
  const ir::Instruction& instruction = *root.instruction;
  switch (instruction.opcode()) {
    case Opcode::dynamic_update_slice:
      return true;
    case Opcode::concatenate:
      return graph.roots().size() == 1 && instruction.operands().size() <= kMaxPlacedOperands;
    case Opcode::pad:
      return graph.roots().size() == 1 &&
             std::all_of(instruction.attributes().padding.begin(),
                         instruction.attributes().padding.end(),
                         [](const auto& p) { return p.low >= 0 && p.high >= 0; });
    default:
      return false;
  }
}

// The nests that put a pad's value where its operand does not come: everywhere when elements come
// apart, else on the borders, cut so that none meet.
std::vector<LoopNest> fill_nests(const KernelGraph& graph, const KernelNode& root, int output) {
  const ir::Instruction& pad = *root.instruction;
  const KernelNode value = graph.operand(pad, 1);
  const auto& padding = pad.attributes().padding;
  std::vector<LoopNest> nests;
  const auto fill = [&](ir::Dims dims, std::vector<std::int64_t> begin) {
    LoopNest nest;
    nest.dims = std::move(dims);
    nest.stores.push_back({value, output, &pad, 1, std::move(begin)});
    nests.push_back(std::move(nest));
  };
  std::vector<std::int64_t> begin(padding.size(), 0);
  const ir::Dims& inside = graph.operand(pad, 0).dims();
  if (std::any_of(padding.begin(), padding.end(), [](const auto& p) { return p.interior > 0; }) ||
      std::any_of(inside.begin(), inside.end(), [](std::int64_t size) { return size == 0; })) {
    fill(root.dims(), begin);
    return nests;
  }
  ir::Dims dims = root.dims();
  for (std::size_t d = 0; d < padding.size(); ++d) {
    const int dimension = static_cast<int>(d);
    const std::int64_t whole = dims[dimension];
    if (padding[d].low > 0) {
      dims[dimension] = padding[d].low;
      fill(dims, begin);
    }
    if (padding[d].high > 0) {
      dims[dimension] = padding[d].high;
      begin[d] = whole - padding[d].high;
      fill(dims, begin);
    }
    dims[dimension] = inside[dimension];
    begin[d] = padding[d].low;
  }
  return nests;
}

}  // namespace

std::vector<PhaseNest> plan_nests(const KernelGraph& graph) {
  std::vector<PhaseNest> nests;
  PhaseNest plain;
  std::vector<PhaseNest> placed;
  // Several updates read what others replace, each element before it is stored: one nest.
  const bool in_one_sweep = graph.roots().size() > 1 &&
                            graph.instruction().opcode() == Opcode::fusion &&
                            ir::updates_at_one_place(*graph.instruction().to_apply());
  for (std::size_t r = 0; r < graph.roots().size(); ++r) {
    const KernelNode& root = graph.roots()[r];
    const int output = static_cast<int>(r);
    if (!is_placed(graph, root)) {
      if (plain.nest.stores.empty()) plain.nest.dims = root.dims();
      plain.nest.stores.push_back({root, output, nullptr, 0});
      continue;
    }
    const ir::Instruction& instruction = *root.instruction;
    const auto place = [&](int operand) {
      PhaseNest phase;
      const KernelNode value = graph.operand(instruction, operand);
      phase.nest.dims = value.dims();
      phase.nest.stores.push_back({value, output, &instruction, operand});
      placed.push_back(std::move(phase));
    };
    if (instruction.opcode() == Opcode::concatenate && takes_turns(graph, instruction)) {
      place(0);
      placed.back().nest.takes_turns = true;
      for (int i = 1; i < instruction.operand_count(); ++i) {
        placed.back().nest.stores.push_back(
            {graph.operand(instruction, i), output, &instruction, i});
      }
    } else if (instruction.opcode() == Opcode::concatenate) {
      for (int i = 0; i < instruction.operand_count(); ++i) place(i);
    } else if (instruction.opcode() == Opcode::pad) {
      for (LoopNest& nest : fill_nests(graph, root, output)) {
        placed.push_back({std::move(nest), -1, -1});
      }
      place(0);
    } else {
      PhaseNest copy;
      const KernelNode whole = graph.operand(instruction, 0);
      copy.nest.dims = whole.dims();
      copy.nest.stores.push_back({whole, output, nullptr, 0});
      if (whole.is_input()) {
        copy.unless_input = whole.input;
        copy.unless_output = output;
      }
      placed.push_back(std::move(copy));
      if (!in_one_sweep) {
        place(1);
        continue;
      }
      const KernelNode value = graph.operand(instruction, 1);
      plain.nest.dims = value.dims();
      plain.nest.stores.push_back({value, output, &instruction, 1});
    }
  }
  if (in_one_sweep) std::swap(nests, placed);  // copies come first
  if (!plain.nest.stores.empty()) nests.push_back(std::move(plain));
  for (PhaseNest& phase : placed) nests.push_back(std::move(phase));
  return nests;
}

}  // namespace plimsoll::jit
