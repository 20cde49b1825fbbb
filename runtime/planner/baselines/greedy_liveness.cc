// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/planner/baselines/greedy_pass.h"

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

using ir::Instruction;
using ir::Opcode;

void add_nodes(const ir::Shape& shape, std::int64_t tuple_entry_bytes,
               std::vector<std::int64_t>& sizes) {
  if (!shape.is_tuple()) {
    sizes.push_back(shape.byte_size());
    return;
  }
  sizes.push_back(tuple_entry_bytes * static_cast<std::int64_t>(shape.elements().size()));
  for (const ir::Shape& element : shape.elements()) {
    add_nodes(element, tuple_entry_bytes, sizes);
  }
}

int node_count(const ir::Shape& shape) {
  int count = 1;
  if (shape.is_tuple()) {
    for (const ir::Shape& element : shape.elements()) count += node_count(element);
  }
  return count;
}

}  // namespace

std::int64_t bytes_with_tables(const ir::Shape& shape, std::int64_t tuple_entry_bytes) {
  std::vector<std::int64_t> sizes;
  add_nodes(shape, tuple_entry_bytes, sizes);
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) sum += size;
  return sum;
}

GreedyLiveness::GreedyLiveness(const std::vector<Instruction*>& order, const Instruction* root,
                               std::int64_t tuple_entry_bytes) {
  const auto n = static_cast<int>(order.size());
  defined_.resize(order.size());
  used_.resize(order.size());
  // Buffers by the nodes of the shape, a tuple's table before its elements: of (a, (b, c)) they are
  // the table, a, the inner table, b, c. Node 0 is the value itself, and element e begins behind
  // all nodes of the elements before it. Views share their operands' nodes and define none.
  std::unordered_map<const Instruction*, std::vector<int>> nodes;
  nodes.reserve(order.size());
  const auto define = [&](int i, std::int64_t size) {
    const int id = static_cast<int>(buffers_.size());
    Buffer b;
    b.defined = i;
    b.size = order[at(i)]->opcode() == Opcode::parameter ? 0 : size;
    buffers_.push_back(std::move(b));
    defined_[at(i)].push_back(id);
    return id;
  };
  for (int i = 0; i < n; ++i) {
    const Instruction& instruction = *order[at(i)];
    auto& uses = used_[at(i)];
    for (const Instruction* operand : instruction.operands()) {
      const auto& from = nodes.at(operand);
      // A tuple element is found in the table; the elements themselves are not touched.
      const std::size_t count = instruction.opcode() == Opcode::get_tuple_element ? 1 : from.size();
      for (std::size_t k = 0; k < count; ++k) {
        Buffer& b = buffers_[at(from[k])];
        if (order[at(b.defined)] != operand && operand->opcode() != Opcode::bitcast &&
            operand->opcode() != Opcode::get_tuple_element) {
          b.indirect = true;
        }
        if (b.users.empty() || b.users.back() != i) {
          b.users.push_back(i);
          uses.push_back(from[k]);
        }
      }
    }
    std::vector<int> mine;
    switch (instruction.opcode()) {
      case Opcode::get_tuple_element: {
        const ir::Shape& shape = instruction.operand(0)->shape();
        const auto& from = nodes.at(instruction.operand(0));
        const auto element = at(instruction.attributes().tuple_index);
        int first = 1;
        for (std::size_t e = 0; e < element; ++e) first += node_count(shape.elements()[e]);
        mine.assign(from.begin() + first, from.begin() + first + node_count(instruction.shape()));
        break;
      }
      case Opcode::tuple:
        mine.push_back(define(i, tuple_entry_bytes * instruction.operand_count()));
        for (const Instruction* operand : instruction.operands()) {
          const auto& from = nodes.at(operand);
          mine.insert(mine.end(), from.begin(), from.end());
        }
        break;
      case Opcode::while_:
        mine = nodes.at(instruction.operand(0));
        for (const int b : mine) buffers_[at(b)].indirect = true;
        break;
      case Opcode::bitcast:
      case Opcode::domain:
      case Opcode::opt_barrier:
      case Opcode::add_dependency:
        mine = nodes.at(instruction.operand(0));
        break;
      default: {
        std::vector<std::int64_t> sizes;
        add_nodes(instruction.shape(), tuple_entry_bytes, sizes);
        for (const std::int64_t size : sizes) mine.push_back(define(i, size));
        break;
      }
    }
    nodes.emplace(&instruction, std::move(mine));
  }
  // Results belong to the caller: they cost nothing here, and nobody may give them up.
  for (const int b : nodes.at(root)) {
    Buffer& result = buffers_[at(b)];
    result.size = 0;
    result.indirect = true;
  }
  // What is alive while i runs is a running sum of what begins and ends, in time linear in buffers
  // and instructions. Example: sizes 8 and 4, alive over [0, 2] and [1, 1]: the differences are
  // +8, +4, -4, -8 and the sums 8, 12, 8.
  std::vector<std::int64_t> delta(order.size() + 1, 0);
  for (const Buffer& b : buffers_) {
    const int last = b.users.empty() ? b.defined : b.users.back();
    delta[at(b.defined)] += b.size;
    delta[at(last) + 1] -= b.size;
  }
  std::int64_t live = 0;
  for (int i = 0; i < n; ++i) {
    live += delta[at(i)];
    usage_.push_back(live);
  }
}

bool GreedyLiveness::used_by(int b, int i) const {
  const auto& users = buffer(b).users;
  return std::binary_search(users.begin(), users.end(), i);
}

}  // namespace plimsoll::planner
