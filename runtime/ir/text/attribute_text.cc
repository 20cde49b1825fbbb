// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/text/attribute_text.h"

#include <algorithm>
#include <memory>

namespace plimsoll::ir {

Status AttributeReader::note(std::string_view name, std::size_t offset) {
  if (std::find(seen_.begin(), seen_.end(), name) != seen_.end()) {
    return cursor_.error_at(offset, "attribute '" + std::string(name) + "' is given twice");
  }
  seen_.push_back(name);
  return ok_status();
}

Status AttributeReader::read(std::string_view name, std::size_t offset) {
  if (name == "all_reduce_id") name = "channel_id";
  PLIMSOLL_RETURN_IF_ERROR(note(name, offset));
  for (const AttributeRule* rule : rules_of(instruction_.opcode)) {
    if (rule->name != name || !rule->applies(instruction_.opcode)) continue;
    return rule->read(*rule, cursor_, instruction_.attributes, groups_);
  }
  const std::string what = "the value of " + std::string(name);
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view value, cursor_.verbatim(what));
  instruction_.attributes.extra.emplace_back(name, value);
  if (name == "literal" && cursor_.peek_raw() == ' ') {
    // `s32[2]{0} {1, 2}`: a shape and, behind a blank, what it holds.
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view held, cursor_.verbatim(what));
    instruction_.attributes.extra.back().second += " " + std::string(held);
  }
  return ok_status();
}

Status AttributeReader::finish() {
  const Opcode opcode = instruction_.opcode;
  for (const AttributeRule* rule : rules_of(opcode)) {
    if (rule->printed != AttributeRule::Printed::and_required) continue;
    if (std::find(seen_.begin(), seen_.end(), rule->name) != seen_.end()) continue;
    return cursor_.error_at(instruction_.offset, "expected attribute '" + std::string(rule->name) +
                                                     "' of " + std::string(to_string(opcode)));
  }
  Attributes& attributes = instruction_.attributes;
  if (opcode == Opcode::iota && attributes.dimensions.empty()) attributes.dimensions.push_back(0);
  const auto complete = [&]<typename Group>(std::shared_ptr<const Group>& group, bool has) {
    if (has) group = std::make_shared<const Group>(std::get<Group>(groups_));
  };
  complete(attributes.dot,
           opcode == Opcode::dot || opcode == Opcode::ragged_dot || opcode == Opcode::scaled_dot);
  complete(attributes.convolution, opcode == Opcode::convolution);
  complete(attributes.gather, opcode == Opcode::gather);
  complete(attributes.scatter, opcode == Opcode::scatter);
  complete(attributes.collective, has_collective_attributes(opcode));
  return ok_status();
}

std::string attributes_text(const Instruction& instruction) {
  std::string text;
  for (const AttributeRule* rule : rules_of(instruction.opcode())) {
    rule->print(*rule, instruction.attributes(), text);
  }
  return text;
}

}  // namespace plimsoll::ir
