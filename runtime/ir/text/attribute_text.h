// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/text/attribute_rules.h"
#include "runtime/ir/text/cursor.h"
#include "runtime/ir/text/syntax.h"

namespace plimsoll::ir {

// Reads the `name=value` attributes of one instruction into its Attributes, but for those that name
// computations or instructions.
class AttributeReader {
 public:
  AttributeReader(Cursor& cursor, InstructionSyntax& instruction)
      : cursor_(cursor), instruction_(instruction) {}

  // Reads the value behind `name=`. What the opcode gives no meaning is kept verbatim.
  Status read(std::string_view name, std::size_t offset);
  // Call at the end: checks that what the opcode needs is there, and completes the attributes.
  Status finish();

  // Notes that `name` was given; an error when it was before.
  Status note(std::string_view name, std::size_t offset);

 private:
  Cursor& cursor_;
  InstructionSyntax& instruction_;
  std::vector<std::string_view> seen_;
  AttributeGroups groups_;
};

// The attributes as text, each behind `, `; those that name computations or instructions and the
// verbatim ones are not among them.
std::string attributes_text(const Instruction& instruction);

}  // namespace plimsoll::ir
