// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/text/parser.h"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/base/float_environment.h"
#include "runtime/base/index.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/constant_text.h"
#include "runtime/ir/text/shape_text.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::ir {
namespace {

// Of operands and computations written in place.
constexpr int kMaxDepth = 64;
constexpr std::int64_t kMaxSplatBytes = std::int64_t{256} << 20;
constexpr std::int64_t kMaxIndex = 1 << 30;

constexpr std::array<std::pair<std::string_view, CallRole>, 10> kCallAttributes = {{
    {"to_apply", CallRole::only},
    {"calls", CallRole::only},
    {"called_computations", CallRole::only},
    {"branch_computations", CallRole::only},
    {"condition", CallRole::condition},
    {"body", CallRole::body},
    {"select", CallRole::select},
    {"scatter", CallRole::scatter},
    {"true_computation", CallRole::true_branch},
    {"false_computation", CallRole::false_branch},
}};

std::string found_in(const Cursor& cursor, std::size_t offset, const std::string& message) {
  return cursor.error_at(offset, message).message();
}

}  // namespace

Result<ModuleSyntax> Parser::parse() {
  splat_bytes_ = kMaxSplatBytes;
  if (cursor_.take_keyword("HloModule")) PLIMSOLL_RETURN_IF_ERROR(header());
  PLIMSOLL_RETURN_IF_ERROR(source_tables());
  if (cursor_.at_end()) return cursor_.expected("a computation");
  const bool is_bare = looks_like_definition();
  if (is_bare) {
    ComputationSyntax entry;
    entry.offset = cursor_.position();
    entry.name = "main";
    entry.is_entry = true;
    PLIMSOLL_RETURN_IF_ERROR(instructions(entry, 0));
    if (!cursor_.at_end()) return cursor_.expected("an instruction");
    module_.computations.push_back(std::move(entry));
  }
  while (!cursor_.at_end()) PLIMSOLL_RETURN_IF_ERROR(computation());
  return std::move(module_);
}

Status Parser::header() {
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view name, cursor_.name("the module's name"));
  module_.name = name;
  cursor_.take(':');
  std::vector<std::string_view> seen;
  while (cursor_.take(',')) {
    const std::size_t start = cursor_.position();
    const std::string_view attribute = cursor_.take_word();
    if (attribute.empty()) return cursor_.expected("a module attribute");
    PLIMSOLL_RETURN_IF_ERROR(cursor_.expect('=', "after " + std::string(attribute)));
    for (const std::string_view other : seen) {
      if (other == attribute) {
        return cursor_.error_at(start, "attribute '" + std::string(attribute) + "' is given twice");
      }
    }
    seen.push_back(attribute);
    PLIMSOLL_RETURN_IF_ERROR(header_attribute(attribute));
  }
  return ok_status();
}

Status Parser::header_attribute(std::string_view name) {
  if (name == "is_scheduled") {
    PLIMSOLL_ASSIGN_OR_RETURN(module_.is_scheduled, cursor_.boolean("is_scheduled"));
  } else if (name == "replica_count") {
    PLIMSOLL_ASSIGN_OR_RETURN(module_.replica_count,
                              cursor_.integer("the replica count", 1, kMaxIndex));
  } else if (name == "num_partitions") {
    PLIMSOLL_ASSIGN_OR_RETURN(module_.num_partitions,
                              cursor_.integer("the partition count", 1, kMaxIndex));
  } else if (name == "input_output_alias") {
    return input_output_alias();
  } else if (name == "buffer_donor") {
    return buffer_donor();
  } else {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view value,
                              cursor_.verbatim("the value of " + std::string(name)));
    module_.extra.emplace_back(name, value);
  }
  return ok_status();
}

Status Parser::source_tables() {
  for (const std::string_view table :
       {"FileNames", "FunctionNames", "FileLocations", "StackFrames"}) {
    const std::size_t start = cursor_.position();
    if (!cursor_.take_keyword(table)) continue;
    // Could also be a computation's name.
    if (cursor_.peek() < '0' || cursor_.peek() > '9') {
      cursor_.rewind(start);
      continue;
    }
    while (cursor_.peek() >= '0' && cursor_.peek() <= '9') {
      PLIMSOLL_RETURN_IF_ERROR(cursor_.integer("a row's number", 0, kMaxInteger).status());
      PLIMSOLL_RETURN_IF_ERROR(cursor_.verbatim("a row").status());
    }
  }
  return ok_status();
}

Status Parser::input_output_alias() {
  PLIMSOLL_RETURN_IF_ERROR(cursor_.expect('{', "before the aliases"));
  if (cursor_.take('}')) return ok_status();
  do {
    InputOutputAlias alias;
    PLIMSOLL_ASSIGN_OR_RETURN(alias.output_index,
                              cursor_.integer_list("an output index", 0, kMaxIndex));
    PLIMSOLL_RETURN_IF_ERROR(cursor_.expect(':', "after the output index"));
    const bool has_path = cursor_.take('(');
    PLIMSOLL_ASSIGN_OR_RETURN(alias.parameter_number,
                              cursor_.integer("a parameter number", 0, kMaxIndex));
    if (has_path) {
      PLIMSOLL_RETURN_IF_ERROR(cursor_.expect(',', "after the parameter number"));
      PLIMSOLL_ASSIGN_OR_RETURN(alias.parameter_index,
                                cursor_.integer_list("a parameter index", 0, kMaxIndex));
      if (cursor_.take(',')) {
        alias.must_alias = cursor_.take_keyword("must-alias");
        if (!alias.must_alias && !cursor_.take_keyword("may-alias")) {
          return cursor_.expected("may-alias or must-alias");
        }
      }
      PLIMSOLL_RETURN_IF_ERROR(cursor_.expect(')', "after the alias"));
    }
    module_.input_output_alias.push_back(std::move(alias));
  } while (cursor_.take(','));
  return cursor_.expect('}', "after the aliases");
}

Status Parser::buffer_donor() {
  PLIMSOLL_RETURN_IF_ERROR(cursor_.expect('{', "before the donors"));
  if (cursor_.take('}')) return ok_status();
  do {
    BufferDonor donor;
    PLIMSOLL_RETURN_IF_ERROR(cursor_.expect('(', "before a donor"));
    PLIMSOLL_ASSIGN_OR_RETURN(donor.parameter_number,
                              cursor_.integer("a parameter number", 0, kMaxIndex));
    PLIMSOLL_RETURN_IF_ERROR(cursor_.expect(',', "after the parameter number"));
    PLIMSOLL_ASSIGN_OR_RETURN(donor.parameter_index,
                              cursor_.integer_list("a parameter index", 0, kMaxIndex));
    PLIMSOLL_RETURN_IF_ERROR(cursor_.expect(')', "after a donor"));
    module_.buffer_donor.push_back(std::move(donor));
  } while (cursor_.take(','));
  return cursor_.expect('}', "after the donors");
}

Status Parser::computation() {
  ComputationSyntax computation;
  computation.offset = cursor_.position();
  // ENTRY may also be a computation's name.
  if (cursor_.take_keyword("ENTRY")) {
    const char next = cursor_.peek();
    computation.is_entry = next == '%' || next == '{' || is_word_character(next);
    if (!computation.is_entry) cursor_.rewind(computation.offset);
  }
  if (computation.is_entry && cursor_.peek() == '{') {
    computation.name = "main";
  } else {
    computation.offset = cursor_.position();
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view name, cursor_.name("a computation's name"));
    computation.name = name;
  }
  if (cursor_.peek() == '(') PLIMSOLL_RETURN_IF_ERROR(signature(computation));
  PLIMSOLL_RETURN_IF_ERROR(cursor_.expect('{', "before the computation's instructions"));
  PLIMSOLL_RETURN_IF_ERROR(instructions(computation, 0));
  PLIMSOLL_RETURN_IF_ERROR(cursor_.expect('}', "after the computation's instructions"));
  // `execution_thread="..."` and the like: threads mean nothing here.
  while (cursor_.take(',')) {
    PLIMSOLL_RETURN_IF_ERROR(cursor_.name("a computation's attribute").status());
    PLIMSOLL_RETURN_IF_ERROR(cursor_.expect('=', "after the attribute's name"));
    PLIMSOLL_RETURN_IF_ERROR(cursor_.verbatim("the attribute's value").status());
  }
  module_.computations.push_back(std::move(computation));
  return ok_status();
}

Status Parser::signature(ComputationSyntax& computation) {
  computation.has_signature = true;
  cursor_.take('(');
  if (cursor_.peek() != ')') {
    do {
      PLIMSOLL_RETURN_IF_ERROR(cursor_.name("a parameter's name").status());
      cursor_.take(':');
      PLIMSOLL_ASSIGN_OR_RETURN(Shape shape, read_shape(cursor_));
      computation.parameters.push_back(std::move(shape));
    } while (cursor_.take(','));
  }
  PLIMSOLL_RETURN_IF_ERROR(cursor_.expect(')', "after the parameters"));
  if (!cursor_.take("->")) return cursor_.expected("'->' before the result's shape");
  PLIMSOLL_ASSIGN_OR_RETURN(computation.result, read_shape(cursor_));
  return ok_status();
}

bool Parser::looks_like_definition() {
  const std::size_t start = cursor_.position();
  if (cursor_.take_keyword("ROOT") && cursor_.peek() == '=') cursor_.rewind(start);
  cursor_.take('%');
  const bool found = !cursor_.take_word().empty() && cursor_.peek() == '=';
  cursor_.rewind(start);
  return found;
}

Status Parser::instructions(ComputationSyntax& computation, int depth) {
  while (!cursor_.at_end() && cursor_.peek() != '}') {
    PLIMSOLL_RETURN_IF_ERROR(instruction(computation, depth));
  }
  if (computation.instructions.empty()) return cursor_.expected("an instruction");
  return ok_status();
}

Status Parser::instruction(ComputationSyntax& computation, int depth) {
  InstructionSyntax instruction;
  instruction.offset = cursor_.position();
  if (cursor_.take_keyword("ROOT")) {
    instruction.is_root = cursor_.peek() != '=';
    if (!instruction.is_root) cursor_.rewind(instruction.offset);
  }
  instruction.offset = cursor_.position();
  PLIMSOLL_ASSIGN_OR_RETURN(instruction.name, cursor_.name("an instruction's name"));
  PLIMSOLL_RETURN_IF_ERROR(cursor_.expect('=', "after the instruction's name"));
  PLIMSOLL_RETURN_IF_ERROR(right_side(computation, instruction, depth));
  computation.instructions.push_back(std::move(instruction));
  return ok_status();
}

Status Parser::right_side(ComputationSyntax& computation, InstructionSyntax& instruction,
                          int depth) {
  if (looks_like_shape(cursor_)) {
    PLIMSOLL_ASSIGN_OR_RETURN(instruction.shape, read_shape(cursor_));
  }
  PLIMSOLL_RETURN_IF_ERROR(opcode(instruction));
  AttributeReader reader(cursor_, instruction);
  PLIMSOLL_RETURN_IF_ERROR(cursor_.expect('(', "before the operands"));
  if (instruction.opcode == Opcode::parameter) {
    PLIMSOLL_ASSIGN_OR_RETURN(instruction.attributes.parameter_number,
                              cursor_.integer("a parameter number", 0, kMaxIndex));
    if (!instruction.shape.has_value() && computation.has_signature &&
        static_cast<std::size_t>(instruction.attributes.parameter_number) <
            computation.parameters.size()) {
      instruction.shape = computation.parameters[at(instruction.attributes.parameter_number)];
    }
  } else if (instruction.opcode == Opcode::constant) {
    if (!instruction.shape.has_value()) {
      return cursor_.error_at(instruction.offset, "expected the shape of this constant");
    }
    PLIMSOLL_ASSIGN_OR_RETURN(Literal literal,
                              read_literal(cursor_, *instruction.shape, splat_bytes_));
    instruction.attributes.literal = std::make_shared<const Literal>(std::move(literal));
  } else if (cursor_.peek() != ')') {
    PLIMSOLL_RETURN_IF_ERROR(operands(computation, instruction, depth));
  }
  PLIMSOLL_RETURN_IF_ERROR(cursor_.expect(')', "or ',' after an operand"));
  for (;;) {
    // Among operands, a comma may also lead to the next operand.
    const std::size_t comma = cursor_.position();
    if (!cursor_.take(',')) break;
    if (instruction.name.empty() && !looks_like_definition()) {
      cursor_.rewind(comma);
      break;
    }
    PLIMSOLL_RETURN_IF_ERROR(attribute(instruction, reader, depth));
  }
  return reader.finish();
}

// Opcodes of HLO that there is nothing for here: sizes that are known when a program runs.
constexpr std::array<std::string_view, 3> kNotSupported = {"dynamic-reshape", "get-dimension-size",
                                                           "set-dimension-size"};

Status Parser::opcode(InstructionSyntax& instruction) {
  const std::size_t start = cursor_.position();
  const std::string_view word = cursor_.take_word();
  if (std::find(kNotSupported.begin(), kNotSupported.end(), word) != kNotSupported.end()) {
    return unimplemented(
        cursor_.error_at(start, fmt::format("'{}' is not supported", word)).message());
  }
  std::optional<Opcode> opcode = parse_opcode(word);
  if (!opcode.has_value() && word.ends_with("-start")) {
    opcode = parse_opcode(word.substr(0, word.size() - 6));
    instruction.is_wrapped = opcode.has_value();
  } else if (!opcode.has_value() && word.ends_with("-update")) {
    if (parse_opcode(word.substr(0, word.size() - 7))) opcode = Opcode::async_update;
  } else if (!opcode.has_value() && word.ends_with("-done")) {
    if (parse_opcode(word.substr(0, word.size() - 5))) opcode = Opcode::async_done;
  }
  if (!opcode.has_value() ||
      (instruction.is_wrapped && (*opcode == Opcode::parameter || *opcode == Opcode::constant))) {
    cursor_.rewind(start);
    return cursor_.expected(instruction.shape.has_value() ? "an opcode" : "a shape or an opcode");
  }
  instruction.opcode = *opcode;
  return ok_status();
}

Status Parser::operands(ComputationSyntax& computation, InstructionSyntax& instruction, int depth) {
  do {
    OperandSyntax operand;
    operand.offset = cursor_.position();
    if (looks_like_shape(cursor_)) {
      PLIMSOLL_ASSIGN_OR_RETURN(operand.shape, read_shape(cursor_));
    }
    const std::size_t start = cursor_.position();
    PLIMSOLL_ASSIGN_OR_RETURN(operand.name, cursor_.name("an operand"));
    if (cursor_.peek() == '(') {
      if (depth == kMaxDepth) return cursor_.expected("operands nested less deeply");
      cursor_.rewind(start);
      InstructionSyntax nested;
      nested.offset = start;
      nested.shape = std::move(operand.shape);
      operand.shape.reset();
      operand.name = {};
      PLIMSOLL_RETURN_IF_ERROR(right_side(computation, nested, depth + 1));
      operand.nested = static_cast<int>(computation.instructions.size());
      computation.instructions.push_back(std::move(nested));
    } else if (cursor_.take('#')) {
      PLIMSOLL_ASSIGN_OR_RETURN(operand.tuple_index,
                                cursor_.integer("a tuple index", 0, kMaxIndex));
    }
    instruction.operands.push_back(std::move(operand));
  } while (cursor_.take(','));
  return ok_status();
}

Status Parser::attribute(InstructionSyntax& instruction, AttributeReader& reader, int depth) {
  const std::size_t start = cursor_.position();
  const std::string_view name = cursor_.take_word();
  if (name.empty()) return cursor_.expected("an attribute");
  PLIMSOLL_RETURN_IF_ERROR(cursor_.expect('=', "after the attribute's name"));
  if (name == "control-predecessors") {
    PLIMSOLL_RETURN_IF_ERROR(reader.note(name, start));
    return control_predecessors(instruction);
  }
  for (const auto& [attribute, role] : kCallAttributes) {
    if (attribute != name) continue;
    PLIMSOLL_RETURN_IF_ERROR(reader.note(name, start));
    if (name == "called_computations" || name == "branch_computations") {
      return call_list(instruction, name, depth);
    }
    return call(instruction, role, name, depth);
  }
  return reader.read(name, start);
}

Status Parser::call(InstructionSyntax& instruction, CallRole role, std::string_view attribute,
                    int depth) {
  CallSyntax call;
  call.role = role;
  call.name.offset = cursor_.position();
  if (cursor_.peek() != '{') {
    PLIMSOLL_ASSIGN_OR_RETURN(call.name.name, cursor_.name("a computation's name or '{'"));
    instruction.calls.push_back(call);
    return ok_status();
  }
  cursor_.take('{');
  if (!looks_like_definition()) {
    cursor_.rewind(call.name.offset);
    return call_list(instruction, attribute, depth);
  }
  if (depth == kMaxDepth) return cursor_.expected("computations nested less deeply");
  ComputationSyntax inlined;
  inlined.offset = call.name.offset;
  inlined.name = attribute;
  inlined.is_inlined = true;
  PLIMSOLL_RETURN_IF_ERROR(instructions(inlined, depth + 1));
  PLIMSOLL_RETURN_IF_ERROR(cursor_.expect('}', "after the computation's instructions"));
  call.inlined = static_cast<int>(module_.computations.size());
  module_.computations.push_back(std::move(inlined));
  instruction.calls.push_back(call);
  return ok_status();
}

Status Parser::call_list(InstructionSyntax& instruction, std::string_view attribute, int depth) {
  PLIMSOLL_RETURN_IF_ERROR(cursor_.expect('{', "before the computations"));
  if (cursor_.take('}')) return ok_status();
  if (depth == kMaxDepth) return cursor_.expected("computations nested less deeply");
  do {
    PLIMSOLL_RETURN_IF_ERROR(call(instruction, CallRole::only, attribute, depth + 1));
  } while (cursor_.take(','));
  return cursor_.expect('}', "after the computations");
}

Status Parser::control_predecessors(InstructionSyntax& instruction) {
  PLIMSOLL_RETURN_IF_ERROR(cursor_.expect('{', "before the control predecessors"));
  if (cursor_.take('}')) return ok_status();
  do {
    const std::size_t start = cursor_.position();
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view name,
                              cursor_.name("a control predecessor's name"));
    instruction.control_predecessors.push_back({name, start});
  } while (cursor_.take(','));
  return cursor_.expect('}', "after the control predecessors");
}

Result<std::unique_ptr<Module>> parse_module(std::string_view text, std::string_view source_name) {
  const FloatEnvironment floats;  // in which numbers are read
  Cursor cursor(text, source_name);
  PLIMSOLL_ASSIGN_OR_RETURN(ModuleSyntax syntax, Parser(cursor).parse());
  std::unordered_map<std::string, std::size_t> locations;
  PLIMSOLL_ASSIGN_OR_RETURN(auto module, module_from_syntax(std::move(syntax), cursor, locations));
  const Status status = verify(*module);
  if (status.ok()) return module;
  // The first word of the message that names an instruction says where.
  const std::string& message = status.message();
  for (std::size_t i = 0; i < message.size();) {
    std::size_t end = i;
    while (end < message.size() && is_word_character(message[end])) ++end;
    const auto found = locations.find(message.substr(i, end - i));
    if (found != locations.end()) {
      return Status(status.code(), found_in(cursor, found->second, message));
    }
    i = end + 1;
  }
  return Status(status.code(), found_in(cursor, 0, message));
}

}  // namespace plimsoll::ir
