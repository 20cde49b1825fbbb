// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "runtime/base/index.h"
#include "runtime/ir/dataflow/views.h"
#include "runtime/planner/check/check_packing.h"
#include "runtime/planner/check/plan_checker.h"

namespace plimsoll::planner {

using ir::Instruction;
using ir::Opcode;

// For every instruction, which leaves of which instructions its own leaves really are. Views make
// no bytes, so a buffer never holds "the second element of t": it holds the value that went into
// t. Operands come before their users, so one pass in order does.
//
// Example: `t = tuple(a, b); g = get-tuple-element(t), index=1; c = copy(g)`. The leaves of t are
// {a.0, b.0}, the one of g is b.0, and so the copy must read a buffer that holds b.0; its own leaf
// is c.0, as a copy makes bytes.
void PlanChecker::resolve_views() {
  leaves_.reserve(at(plan_.computation->instruction_count()));
  for (const auto& owned : plan_.computation->instructions()) {
    const Instruction& instruction = *owned;
    std::vector<Leaf> leaves;
    if (instruction.opcode() == Opcode::parameter || !is_view(instruction)) {
      const int count = ir::leaf_count(instruction.shape());
      for (int leaf = 0; leaf < count; ++leaf) {
        if (passes_through(instruction, leaf)) {
          leaves.push_back(leaves_of(*instruction.operand(0))[at(leaf)]);
        } else {
          leaves.emplace_back(&instruction, leaf);
        }
      }
    } else if (instruction.opcode() == Opcode::after_all) {
      leaves.emplace_back(&instruction, 0);
    } else if (instruction.opcode() == Opcode::tuple) {
      for (const Instruction* operand : instruction.operands()) {
        const auto& part = leaves_of(*operand);
        leaves.insert(leaves.end(), part.begin(), part.end());
      }
    } else if (instruction.opcode() == Opcode::get_tuple_element) {
      const auto& all = leaves_of(*instruction.operand(0));
      const int first = ir::leaf_offset(instruction.operand(0)->shape(),
                                        static_cast<int>(instruction.attributes().tuple_index));
      const int count = ir::leaf_count(instruction.shape());
      leaves.assign(all.begin() + first, all.begin() + first + count);
    } else {
      leaves = leaves_of(*instruction.operand(0));
    }
    leaves_.emplace(&instruction, std::move(leaves));
  }
}

// Each buffer by itself, and what those hold that hold something before the first step: parameters
// and constants.
Status PlanChecker::check_buffers() {
  std::vector<const ir::Shape*> parameter_leaves;
  for (const Instruction* parameter : plan_.computation->parameters()) {
    if (parameter == nullptr) continue;
    int leaf = 0;
    for (const ir::Shape* shape : ir::leaves(parameter->shape())) {
      parameter_leaves.push_back(shape);
      parameter_contents_.emplace_back(parameter, leaf++);
    }
  }
  contents_.assign(plan_.buffers.size(), {});
  in_transfer_.assign(plan_.buffers.size(), StepId());
  needs_pin_.assign(plan_.buffers.size(), 0);
  const std::vector<const ir::Shape*> result_leaves =
      ir::leaves(plan_.computation->root()->shape());
  for (const BufferId id : plan_.buffers.ids()) {
    const Buffer& b = buffer(id);
    const std::string name = fmt::format("buffer {}", id.value());
    const auto index = at(b.index);
    if (b.bytes < 0 || b.bytes != aligned_bytes(b.bytes)) return fail(name + " has odd bytes");
    switch (b.placement) {
      case Placement::arena:
        if (b.offset < 0 || b.offset % kBufferAlignment != 0 ||
            b.offset + b.bytes > plan_.arena_bytes) {
          return fail(name + " lies outside the arena or is not aligned");
        }
        break;
      case Placement::parameter:
        if (index >= parameter_leaves.size() ||
            b.bytes != aligned_bytes(parameter_leaves[index]->byte_size())) {
          return fail(fmt::format("{} does not match parameter leaf {}", name, index));
        }
        // A callee's parameters are its caller's values; a loop body's are the state, and so are
        // those of a branch that its results take the place of (check_results).
        if (kind_ != Kind::entry && kind_ != Kind::branch && b.donated != loop_body_) {
          return fail(name + ": only a loop body's parameters are its own to write");
        }
        content(id).value = parameter_contents_[index];
        break;
      case Placement::output:
        if (index >= result_leaves.size() ||
            b.bytes != aligned_bytes(result_leaves[index]->byte_size())) {
          return fail(fmt::format("{} does not match result leaf {}", name, index));
        }
        break;
      case Placement::lent:
        if (kind_ != Kind::entry) return fail(name + ": only the entry's results lend their bytes");
        if (index >= result_leaves.size() || b.offset < 0 || b.offset % kBufferAlignment != 0 ||
            b.offset + b.bytes > aligned_bytes(result_leaves[index]->byte_size())) {
          return fail(fmt::format("{} lies outside result leaf {} or is not aligned", name, index));
        }
        break;
      case Placement::constant:
        if (b.source == nullptr || b.source->opcode() != Opcode::constant) {
          return fail(name + " is a constant without source");
        }
        // A callee may run often, and its constants are those of every run.
        if (b.host && kind_ != Kind::entry) {
          return fail(name + ": only the entry's constants may be in host memory");
        }
        content(id).value = {b.source, b.leaf};
        break;
      default:  // a tier
        if (b.offset < 0 || b.offset % kBufferAlignment != 0 ||
            b.offset + b.bytes > plan_.tier_bytes[space_of(b.placement)]) {
          return fail(name + " lies outside its tier's block or is not aligned");
        }
        break;
    }
  }
  return ok_status();
}

// No two buffers of one space that live at the same step share a byte. A tier's block ends right
// behind the last of its buffers, as runs are admitted by its bytes.
Status PlanChecker::check_addresses() {
  auto arena = check_overlaps(plan_, Placement::arena);
  if (!arena.ok()) return fail(arena.status().message());
  live_arena_ = arena->live;
  if (Status lent = check_lent(plan_); !lent.ok()) return fail(lent.message());
  for (const MemorySpace tier : kTiers) {
    auto placed = check_overlaps(plan_, placement_on(tier));
    if (!placed.ok()) return fail(placed.status().message());
    if (placed->end != plan_.tier_bytes[tier]) {
      return fail("the bytes of a tier are not what it says");
    }
  }
  return ok_status();
}

}  // namespace plimsoll::planner
