// SPDX-License-Identifier: Apache-2.0
#include "jit/loops/nest_boxes.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using ir::Instruction;
using ir::Opcode;

// A kernel's code grows with them; without them every element is loaded from every operand.
constexpr std::size_t kMostBoxes = 64;
// Below so many elements a phase more costs as much as what it saves; that is of a few boxes, and
// of many each takes a share of it.
constexpr std::int64_t kFewElements = 4096, kFewInABox = kFewElements / 16;
// Rows below are short; a quarter of the elements may be in such.
constexpr std::int64_t kShortRow = 16;

struct Box {
  std::vector<std::int64_t> begin, end;
  std::int64_t elements() const {
    std::int64_t count = 1;
    for (std::size_t d = 0; d < begin.size(); ++d) count *= end[d] - begin[d];
    return count;
  }
};

bool is_plain_pad(const Instruction& pad) {
  const auto& padding = pad.attributes().padding;
  return std::all_of(padding.begin(), padding.end(),
                     [](const auto& p) { return p.low >= 0 && p.high >= 0 && p.interior == 0; });
}

// Concatenates and pads whose elements go into the elements of the same index of a root.
class ChoiceCollector {
 public:
  explicit ChoiceCollector(const KernelGraph& graph) : graph_(graph) {}

  void visit(const KernelNode& node) {
    if (node.is_input() || !seen_.insert(node.instruction).second) return;
    const Instruction& instruction = *node.instruction;
    if (instruction.opcode() == Opcode::concatenate ||
        (instruction.opcode() == Opcode::pad && is_plain_pad(instruction))) {
      found_.push_back(&instruction);
      return;
    }
    if (!ir::is_elementwise(instruction.opcode())) return;
    for (int i = 0; i < instruction.operand_count(); ++i) {
      const KernelNode operand = graph_.operand(instruction, i);
      if (operand.dims() == node.dims()) visit(operand);
    }
  }
  const std::vector<const Instruction*>& found() const { return found_; }

 private:
  const KernelGraph& graph_;
  std::unordered_set<const Instruction*> seen_;
  std::vector<const Instruction*> found_;
};

// A dim, and a place strictly inside the box, at which another operand of `choice` begins.
std::optional<std::pair<std::size_t, std::int64_t>> place_to_cut(const KernelGraph& graph,
                                                                 const Instruction& choice,
                                                                 const Box& box) {
  const auto is_inside = [&](std::size_t d, std::int64_t place) {
    return place > box.begin[d] && place < box.end[d];
  };
  if (choice.opcode() == Opcode::concatenate) {
    const auto axis = at(choice.attributes().dimensions[0]);
    std::int64_t offset = 0;
    for (int i = 0; i < choice.operand_count(); ++i) {
      if (is_inside(axis, offset)) return std::pair(axis, offset);
      offset += graph.operand(choice, i).dims()[static_cast<int>(axis)];
    }
    return std::nullopt;
  }
  const ir::Dims& inside = graph.operand(choice, 0).dims();
  const auto& padding = choice.attributes().padding;
  for (std::size_t d = 0; d < padding.size(); ++d) {
    const std::int64_t low = padding[d].low, high = low + inside[static_cast<int>(d)];
    if (box.end[d] <= low || box.begin[d] >= high) return std::nullopt;  // all of it is the border
  }
  for (std::size_t d = 0; d < padding.size(); ++d) {
    const std::int64_t low = padding[d].low, high = low + inside[static_cast<int>(d)];
    if (is_inside(d, low)) return std::pair(d, low);
    if (is_inside(d, high)) return std::pair(d, high);
  }
  return std::nullopt;
}

// False where there would be too many.
bool cut(const KernelGraph& graph, const std::vector<const Instruction*>& choices, Box box,
         std::vector<Box>& boxes) {
  for (const Instruction* choice : choices) {
    const auto place = place_to_cut(graph, *choice, box);
    if (!place.has_value()) continue;
    Box rest = box;
    box.end[place->first] = rest.begin[place->first] = place->second;
    return cut(graph, choices, std::move(box), boxes) &&
           cut(graph, choices, std::move(rest), boxes);
  }
  boxes.push_back(std::move(box));
  return boxes.size() <= kMostBoxes;
}

// Nothing where the nest is better left whole.
std::vector<Box> boxes_of(const KernelGraph& graph, const LoopNest& nest) {
  ChoiceCollector collector(graph);
  for (const Store& store : nest.stores) {
    if (store.placement != nullptr || !(store.value.dims() == nest.dims)) return {};
    collector.visit(store.value);
  }
  if (collector.found().empty()) return {};
  const std::int64_t row = nest.dims[nest.dims.size() - 1];
  Box whole{std::vector<std::int64_t>(at(nest.dims.size()), 0), nest.dims.to_vector()};
  const std::int64_t elements = whole.elements();
  if (elements < kFewElements) return {};
  // Loops are cut where reshapes of the whole result need it (choose_extents).
  for (const Instruction* instruction : graph.instructions()) {
    if ((instruction->opcode() == Opcode::reshape || instruction->opcode() == Opcode::bitcast) &&
        instruction->shape().element_count() == elements) {
      return {};
    }
  }
  std::vector<Box> boxes;
  if (!cut(graph, collector.found(), std::move(whole), boxes) || boxes.size() == 1) return {};
  if (elements < std::ssize(boxes) * kFewInABox) return {};
  std::int64_t in_short_rows = 0;
  for (const Box& box : boxes) {
    const std::int64_t length = box.end.back() - box.begin.back();
    if (length < kShortRow && length < row) in_short_rows += box.elements();
  }
  if (4 * in_short_rows > elements) return {};
  return boxes;
}

}  // namespace

std::vector<PhaseNest> cut_into_boxes(const KernelGraph& graph, std::vector<PhaseNest> phases) {
  std::vector<PhaseNest> result;
  for (PhaseNest& phase : phases) {
    const std::vector<Box> boxes = boxes_of(graph, phase.nest);
    if (boxes.empty()) {
      result.push_back(std::move(phase));
      continue;
    }
    for (const Box& box : boxes) {
      PhaseNest part = phase;
      for (int d = 0; d < part.nest.dims.size(); ++d) {
        part.nest.dims[d] = box.end[at(d)] - box.begin[at(d)];
      }
      part.nest.origin = box.begin;
      result.push_back(std::move(part));
    }
  }
  return result;
}

}  // namespace plimsoll::jit
