// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/attributes.h"
#include "runtime/ir/module.h"
#include "runtime/ir/opcode.h"
#include "runtime/ir/shape.h"
#include "runtime/ir/text/cursor.h"

// HLO text after reading and before names are resolved: what parser.cc produces and
// module_from_syntax.cc turns into a Module. Offsets are byte offsets in the text; views point
// into it.
namespace plimsoll::ir {

struct NameSyntax {
  std::string_view name;
  std::size_t offset = 0;
};

struct OperandSyntax {
  std::size_t offset = 0;
  std::optional<Shape> shape;
  std::string_view name;
  std::int64_t tuple_index = -1;  // `name#index`
  int nested = -1;                // index of an instruction written in place, instead of a name
};

// What an attribute that names computations is for; the order is that of
// Instruction::called_computations where an instruction has two of them.
enum class CallRole : std::uint8_t {
  condition,
  body,
  select,
  scatter,
  true_branch,
  false_branch,
  only
};

struct CallSyntax {
  CallRole role = CallRole::only;
  NameSyntax name;
  int inlined = -1;  // index of a computation written in place, instead of a name
};

struct InstructionSyntax {
  std::size_t offset = 0;
  std::string_view name;  // empty for an instruction written as an operand
  bool is_root = false;
  std::optional<Shape> shape;
  Opcode opcode = Opcode::parameter;
  // `custom-call-start` and its like: an async-start of a computation that holds `opcode`.
  bool is_wrapped = false;
  std::vector<OperandSyntax> operands;
  Attributes attributes;
  std::vector<CallSyntax> calls;
  std::vector<NameSyntax> control_predecessors;
};

struct ComputationSyntax {
  std::size_t offset = 0;
  std::string name;
  bool is_entry = false;
  bool is_inlined = false;
  bool has_signature = false;
  std::vector<Shape> parameters;  // of the signature
  Shape result;
  std::vector<InstructionSyntax> instructions;  // nested ones before their user
};

struct ModuleSyntax {
  std::string name = "module";
  bool is_scheduled = false;
  std::vector<InputOutputAlias> input_output_alias;
  std::vector<BufferDonor> buffer_donor;
  std::int64_t replica_count = 1;
  std::int64_t num_partitions = 1;
  std::vector<std::pair<std::string, std::string>> extra;
  std::vector<ComputationSyntax> computations;  // inlined ones before what contains them
};

// The names resolved, instructions in a valid order, missing shapes inferred; not yet verified.
// `locations` gets the offset of each instruction by its final name.
Result<std::unique_ptr<Module>> module_from_syntax(
    ModuleSyntax syntax, const Cursor& cursor,
    std::unordered_map<std::string, std::size_t>& locations);

}  // namespace plimsoll::ir
