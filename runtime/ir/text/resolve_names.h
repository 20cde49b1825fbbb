// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/text/cursor.h"
#include "runtime/ir/text/syntax.h"

// Names of HLO text to indices, and the orders that follow. Errors name the place in the text.
namespace plimsoll::ir {

using NameIndices = std::unordered_map<std::string_view, int>;

struct CallGraph {
  NameIndices indices;     // of the computations that have a name
  std::vector<int> order;  // callees first, otherwise that of the text
  int index(const CallSyntax& call) const {
    return call.inlined >= 0 ? call.inlined : indices.at(call.name.name);
  }
};
Result<CallGraph> resolve_calls(const ModuleSyntax& syntax, const Cursor& cursor);

// The final name of every instruction by computation and position; empty for instructions without
// one. In text, names need only be unique within a computation; the entry's are kept as they are.
std::vector<std::vector<std::string>> unique_names(const ModuleSyntax& syntax, int entry,
                                                   const std::vector<int>& order);

// Parameter numbers are 0 to n-1, and the signature, if there is one, agrees.
Status check_parameters(const ComputationSyntax& computation, const Cursor& cursor);

// Every operand and control predecessor is defined, nothing twice.
Result<NameIndices> instruction_indices(const ComputationSyntax& computation, const Cursor& cursor);

// Operands and control predecessors first, otherwise the order of the text; an error on a cycle,
// and when the text of a scheduled module has another order.
Result<std::vector<int>> instruction_order(const ComputationSyntax& computation,
                                           const NameIndices& names, bool is_scheduled,
                                           const Cursor& cursor);

}  // namespace plimsoll::ir
