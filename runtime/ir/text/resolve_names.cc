// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/text/resolve_names.h"

#include <fmt/core.h>
#include <algorithm>
#include <unordered_set>

#include "runtime/base/index.h"

namespace plimsoll::ir {
namespace {

constexpr int kMaxCallDepth = 256;

// Indices so that what `before(i)` lists comes before i, otherwise in ascending order; on a cycle,
// an index on it is put in `cyclic` and the order is incomplete.
template <typename Before>
std::vector<int> topological_order(std::size_t count, const Before& before, int& cyclic) {
  struct Frame {
    int index;
    std::vector<int> pending;
    std::size_t next;
  };
  std::vector<char> state(count, 0);  // 1: on the stack, 2: placed
  std::vector<int> order;
  order.reserve(count);
  std::vector<Frame> stack;
  cyclic = -1;
  for (std::size_t start = 0; start < count; ++start) {
    if (state[start] != 0) continue;
    state[start] = 1;
    stack.push_back({static_cast<int>(start), before(static_cast<int>(start)), 0});
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.pending.size()) {
        state[at(frame.index)] = 2;
        order.push_back(frame.index);
        stack.pop_back();
        continue;
      }
      const int next = frame.pending[frame.next++];
      char& mark = state[at(next)];
      if (mark == 1) {
        cyclic = next;
        return order;
      }
      if (mark == 0) {
        mark = 1;
        stack.push_back({next, before(next), 0});
      }
    }
  }
  return order;
}

bool is_ascending(const std::vector<int>& order) {
  return std::is_sorted(order.begin(), order.end());
}

}  // namespace

Result<CallGraph> resolve_calls(const ModuleSyntax& syntax, const Cursor& cursor) {
  CallGraph graph;
  for (std::size_t i = 0; i < syntax.computations.size(); ++i) {
    const ComputationSyntax& computation = syntax.computations[i];
    if (computation.is_inlined) continue;
    if (!graph.indices.emplace(computation.name, static_cast<int>(i)).second) {
      return cursor.error_at(computation.offset,
                             "computation '" + computation.name + "' is already defined");
    }
  }
  std::vector<std::vector<int>> callees(syntax.computations.size());
  for (std::size_t i = 0; i < syntax.computations.size(); ++i) {
    for (const InstructionSyntax& instruction : syntax.computations[i].instructions) {
      for (const CallSyntax& call : instruction.calls) {
        if (call.inlined < 0 && !graph.indices.contains(call.name.name)) {
          return cursor.error_at(
              call.name.offset, "computation '" + std::string(call.name.name) + "' is not defined");
        }
        callees[i].push_back(graph.index(call));
      }
    }
  }
  int cyclic = -1;
  graph.order = topological_order(callees.size(), [&](int i) { return callees[at(i)]; }, cyclic);
  if (cyclic >= 0) {
    const ComputationSyntax& computation = syntax.computations[at(cyclic)];
    return cursor.error_at(computation.offset,
                           "computation '" + computation.name + "' calls itself");
  }
  std::vector<int> depth(callees.size(), 0);
  for (const int i : graph.order) {
    int& own = depth[at(i)];
    for (const int callee : callees[at(i)]) {
      own = std::max(own, depth[at(callee)] + 1);
    }
    if (own > kMaxCallDepth) {
      return cursor.error_at(syntax.computations[at(i)].offset,
                             fmt::format("expected calls nested at most {} deep", kMaxCallDepth));
    }
  }
  return graph;
}

std::vector<std::vector<std::string>> unique_names(const ModuleSyntax& syntax, int entry,
                                                   const std::vector<int>& order) {
  // In text, names need only be unique within a computation; the entry's are kept as they are.
  std::unordered_set<std::string> wanted, taken;
  for (const ComputationSyntax& computation : syntax.computations) {
    for (const InstructionSyntax& instruction : computation.instructions) {
      wanted.emplace(instruction.name);
    }
  }
  std::unordered_map<std::string, std::int64_t> suffixes;
  std::vector<std::vector<std::string>> names(syntax.computations.size());
  std::vector<int> claims{entry};
  claims.insert(claims.end(), order.begin(), order.end());
  for (const int index : claims) {
    std::vector<std::string>& own = names[at(index)];
    if (!own.empty()) continue;
    for (const InstructionSyntax& instruction : syntax.computations[at(index)].instructions) {
      std::string name(instruction.name);
      if (!name.empty() && !taken.insert(name).second) {
        std::int64_t& suffix = suffixes[name];
        std::string candidate;
        do {
          candidate = fmt::format("{}.{}", name, ++suffix);
        } while (wanted.contains(candidate) || !taken.insert(candidate).second);
        name = candidate;
      }
      own.push_back(std::move(name));
    }
  }
  return names;
}

Status check_parameters(const ComputationSyntax& computation, const Cursor& cursor) {
  std::vector<const InstructionSyntax*> parameters;
  for (const InstructionSyntax& instruction : computation.instructions) {
    if (instruction.opcode == Opcode::parameter) parameters.push_back(&instruction);
  }
  std::vector<bool> seen(parameters.size(), false);
  for (const InstructionSyntax* parameter : parameters) {
    const auto number = at(parameter->attributes.parameter_number);
    if (number >= parameters.size()) {
      return cursor.error_at(
          parameter->offset,
          fmt::format("expected parameter numbers below {}, the number of parameters, found {}",
                      parameters.size(), number));
    }
    if (seen[number]) {
      return cursor.error_at(parameter->offset,
                             fmt::format("parameter {} is already defined", number));
    }
    seen[number] = true;
  }
  return ok_status();
}

Result<NameIndices> instruction_indices(const ComputationSyntax& computation,
                                        const Cursor& cursor) {
  NameIndices names;
  for (std::size_t i = 0; i < computation.instructions.size(); ++i) {
    const InstructionSyntax& instruction = computation.instructions[i];
    if (instruction.name.empty()) continue;
    if (!names.emplace(instruction.name, static_cast<int>(i)).second) {
      return cursor.error_at(instruction.offset, "instruction '" + std::string(instruction.name) +
                                                     "' is already defined");
    }
  }
  const auto undefined = [&](std::string_view name, std::size_t offset) {
    return cursor.error_at(offset, "instruction '" + std::string(name) +
                                       "' is not defined in computation '" + computation.name +
                                       "'");
  };
  for (const InstructionSyntax& instruction : computation.instructions) {
    for (const OperandSyntax& operand : instruction.operands) {
      if (operand.nested < 0 && !names.contains(operand.name)) {
        return undefined(operand.name, operand.offset);
      }
    }
    for (const NameSyntax& predecessor : instruction.control_predecessors) {
      if (!names.contains(predecessor.name)) return undefined(predecessor.name, predecessor.offset);
    }
  }
  return names;
}

Result<std::vector<int>> instruction_order(const ComputationSyntax& computation,
                                           const NameIndices& names, bool is_scheduled,
                                           const Cursor& cursor) {
  const auto& instructions = computation.instructions;
  const auto before = [&](int i) {
    const InstructionSyntax& instruction = instructions[at(i)];
    std::vector<int> indices;
    for (const OperandSyntax& operand : instruction.operands) {
      indices.push_back(operand.nested >= 0 ? operand.nested : names.at(operand.name));
    }
    for (const NameSyntax& predecessor : instruction.control_predecessors) {
      indices.push_back(names.at(predecessor.name));
    }
    return indices;
  };
  int cyclic = -1;
  std::vector<int> order = topological_order(instructions.size(), before, cyclic);
  if (cyclic >= 0) {
    const InstructionSyntax& instruction = instructions[at(cyclic)];
    return cursor.error_at(instruction.offset,
                           "instruction '" + std::string(instruction.name) + "' needs itself");
  }
  if (is_scheduled && !is_ascending(order)) {
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      for (const int needed : before(static_cast<int>(i))) {
        if (needed < static_cast<int>(i)) continue;
        return cursor.error_at(
            instructions[i].offset,
            "expected operands defined before their use in a scheduled module, found '" +
                std::string(instructions[at(needed)].name) + "'");
      }
    }
  }
  return order;
}

}  // namespace plimsoll::ir
