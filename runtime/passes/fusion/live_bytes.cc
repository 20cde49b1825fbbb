// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/fusion/live_bytes.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/base/alignment.h"
#include "runtime/base/index.h"
#include "runtime/ir/dataflow/views.h"
#include "runtime/ir/fusions/in_place.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

void add_once(std::vector<int>& list, int value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

}  // namespace

// A rough copy of the planner's memory model, cheap enough to be asked for every pair of kernels:
// bytes alive in the order that is being built. Each array result is a buffer; views share their
// operand's; parameters and constants count nothing (they are there anyway), and so do results of
// the entry computation, which belong to the caller. A result may take the place of an operand of
// its size that is read for the last time (fresh_bytes).
//
// `pending_` counts, per buffer, reads that are still to come: a buffer dies with the last. Nothing
// else is kept, so that a step can be undone by counting its reads back up (undo): the grouping of
// fuse_horizontal.cc tries a launch and takes it back where it holds too much.
LiveBytes::LiveBytes(const ir::Computation& computation) {
  std::unordered_map<const Instruction*, std::vector<int>> leaves_of;
  leaves_of.reserve(computation.instructions().size());
  accesses_.resize(computation.instructions().size());
  for (std::size_t i = 0; i < accesses_.size(); ++i) {
    const Instruction& instruction = *computation.instructions()[i];
    std::vector<int>& own = leaves_of[&instruction];
    const auto leaves = ir::leaves(instruction.shape());
    switch (instruction.opcode()) {
      case Opcode::parameter:
      case Opcode::constant:
        own.assign(leaves.size(), -1);
        continue;
      case Opcode::tuple:
        for (const Instruction* operand : instruction.operands()) {
          const auto& part = leaves_of.at(operand);
          own.insert(own.end(), part.begin(), part.end());
        }
        continue;
      case Opcode::get_tuple_element: {
        const Instruction& tuple = *instruction.operand(0);
        const auto first =
            leaves_of.at(&tuple).begin() +
            ir::leaf_offset(tuple.shape(), static_cast<int>(instruction.attributes().tuple_index));
        own.assign(first, first + static_cast<std::ptrdiff_t>(leaves.size()));
        continue;
      }
      default:
        break;
    }
    if (ir::is_view(instruction)) {
      if (instruction.operand_count() > 0) own = leaves_of.at(instruction.operand(0));
      own.resize(leaves.size(), -1);
      continue;
    }
    Access& access = accesses_[i];
    std::vector<int> operands;
    for (const Instruction* operand : instruction.operands()) {
      const auto& part = leaves_of.at(operand);
      operands.insert(operands.end(), part.begin(), part.end());
    }
    for (const int buffer : operands) {
      if (buffer >= 0) add_once(access.reads, buffer);
    }
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      if (!leaves[leaf]->is_array()) {
        own.push_back(-1);
        continue;
      }
      const int buffer = static_cast<int>(bytes_.size());
      own.push_back(buffer);
      access.writes.push_back(buffer);
      bytes_.push_back(aligned_bytes(leaves[leaf]->byte_size()));
      constexpr int kMostQueries = 16;
      int queries = 0;
      for (std::size_t k = 0; k < operands.size() && queries < kMostQueries; ++k) {
        if (operands[k] < 0 || bytes_[at(operands[k])] != bytes_.back()) {
          continue;
        }
        ++queries;
        if (ir::may_reuse_operand(instruction, static_cast<int>(k), static_cast<int>(leaf))) {
          access.reuse.push_back({operands[k], buffer});
        }
      }
    }
  }
  pending_.assign(bytes_.size(), 0);
  for (const Access& access : accesses_) {
    for (const int buffer : access.reads) ++pending_[at(buffer)];
  }
  const bool is_entry = computation.module()->entry() == &computation;
  for (const int buffer : leaves_of.at(computation.root())) {
    if (buffer < 0) continue;
    ++pending_[at(buffer)];
    if (is_entry) bytes_[at(buffer)] = 0;
    kept_ += bytes_[at(buffer)];
  }
}

std::int64_t LiveBytes::fresh_bytes(const Access& access) const {
  std::int64_t sum = 0;
  std::vector<int> taken;
  for (const int buffer : access.writes) {
    bool reuses = false;
    for (const Reuse& reuse : access.reuse) {
      // The last read is this one.
      if (reuse.result != buffer || pending_[at(reuse.operand)] != 1 ||
          std::find(taken.begin(), taken.end(), reuse.operand) != taken.end()) {
        continue;
      }
      taken.push_back(reuse.operand);
      reuses = true;
      break;
    }
    if (!reuses) sum += bytes_[at(buffer)];
  }
  return sum;
}

LiveBytes::Needs LiveBytes::needs(int instruction) const {
  const Access& access = accesses_[at(instruction)];
  Needs needs;
  needs.results = fresh_bytes(access);
  for (const int buffer : access.reads) {
    needs.operands += bytes_[at(buffer)];
    if (pending_[at(buffer)] == 1) {
      needs.freed += bytes_[at(buffer)];
    }
  }
  return needs;
}

// Returns the peak while the instructions run as one launch: all results are there before any
// operand goes, except where a result takes the operand's place.
std::int64_t LiveBytes::run(std::span<const int> together) {
  std::int64_t during = live_;
  for (const int i : together) during += fresh_bytes(accesses_[at(i)]);
  for (const int i : together) {
    const Access& access = accesses_[at(i)];
    for (const int buffer : access.writes) {
      const auto b = at(buffer);
      if (pending_[b] > 0) live_ += bytes_[b];
    }
    for (const int buffer : access.reads) {
      const auto b = at(buffer);
      if (--pending_[b] == 0) live_ -= bytes_[b];
      reads_.push_back(buffer);
    }
  }
  return during;
}

void LiveBytes::undo(const Mark& to) {
  for (; reads_.size() > to.reads; reads_.pop_back()) {
    ++pending_[at(reads_.back())];
  }
  live_ = to.live;
}

}  // namespace plimsoll::passes
