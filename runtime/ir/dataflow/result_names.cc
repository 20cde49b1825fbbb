// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/dataflow/result_names.h"

#include <fmt/core.h>

#include <set>

namespace plimsoll::ir {

std::vector<std::string> result_names(const Computation& entry) {
  const Instruction& root = *entry.root();
  std::vector<std::string> names;
  const auto add = [&](const Instruction& instruction) {
    const int count = leaf_count(instruction.shape());
    for (int leaf = 0; leaf < count; ++leaf) {
      names.push_back(instruction.name() +
                      (instruction.shape().is_tuple() ? fmt::format("#{}", leaf) : ""));
    }
  };
  if (root.opcode() == Opcode::tuple) {
    for (const Instruction* element : root.operands()) add(*element);
  } else {
    add(root);
  }
  std::set<std::string> taken;
  for (std::string& name : names) {
    std::string unique = name;
    for (int i = 1; !taken.insert(unique).second; ++i) unique = fmt::format("{}.{}", name, i);
    name = unique;
  }
  return names;
}

}  // namespace plimsoll::ir
