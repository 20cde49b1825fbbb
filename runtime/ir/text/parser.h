// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/ir/text/attribute_text.h"
#include "runtime/ir/text/cursor.h"
#include "runtime/ir/text/syntax.h"

namespace plimsoll::ir {

// Reads HLO text into syntax, one function per rule of the grammar in docs/hlo_text.md.
class Parser {
 public:
  explicit Parser(Cursor& cursor) : cursor_(cursor) {}
  Result<ModuleSyntax> parse();

 private:
  Status header();
  Status header_attribute(std::string_view name);
  // Where newer texts keep the source places that metadata refers to; skipped.
  Status source_tables();
  Status input_output_alias();
  Status buffer_donor();
  Status computation();
  Status signature(ComputationSyntax& computation);
  // Instructions up to a `}` (or the end of the text, for a bare list).
  Status instructions(ComputationSyntax& computation, int depth);
  Status instruction(ComputationSyntax& computation, int depth);
  // `[shape] opcode(operands)[, attributes]`.
  Status right_side(ComputationSyntax& computation, InstructionSyntax& instruction, int depth);
  Status opcode(InstructionSyntax& instruction);
  Status operands(ComputationSyntax& computation, InstructionSyntax& instruction, int depth);
  Status attribute(InstructionSyntax& instruction, AttributeReader& reader, int depth);
  Status call(InstructionSyntax& instruction, CallRole role, std::string_view attribute, int depth);
  Status call_list(InstructionSyntax& instruction, std::string_view attribute, int depth);
  Status control_predecessors(InstructionSyntax& instruction);
  bool looks_like_definition();

  Cursor& cursor_;
  ModuleSyntax module_;
  std::int64_t splat_bytes_ = 0;
};

}  // namespace plimsoll::ir
