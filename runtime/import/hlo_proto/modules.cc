// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/hlo_proto/modules.h"

#include <fmt/core.h>
#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/import/hlo_proto/attributes.h"
#include "runtime/import/hlo_proto/fields.h"
#include "runtime/import/hlo_proto/shapes.h"
#include "runtime/ir/replica_groups.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/ir/shapes/implied_conversion.h"
#include "runtime/ir/text/cursor.h"
#include "runtime/ir/text/shape_text.h"

namespace plimsoll::hlo_proto {
namespace {

using ir::Computation;
using ir::Opcode;
using Numbers = std::vector<std::int64_t>;

// As in HLO text.
constexpr int kMaxCallDepth = 256;

// A name as HLO text has it.
std::string word_of(std::string_view name) {
  std::string word(name);
  std::replace_if(word.begin(), word.end(), [](char c) { return !ir::is_word_character(c); }, '_');
  return word;
}

bool calls_others(Opcode opcode) {
  switch (opcode) {
    case Opcode::call:
    case Opcode::map:
    case Opcode::reduce:
    case Opcode::reduce_window:
    case Opcode::sort:
    case Opcode::scatter:
    case Opcode::select_and_scatter:
    case Opcode::while_:
    case Opcode::conditional:
    case Opcode::fusion:
    case Opcode::custom_call:
    case Opcode::all_reduce:
    case Opcode::all_reduce_start:
    case Opcode::reduce_scatter:
    case Opcode::scan:
    case Opcode::async_start:
    case Opcode::async_update:
    case Opcode::async_done:
      return true;
    default:
      return false;
  }
}

// Shapes of operands are copied when a result's is inferred; a few bytes can name a large tuple
// many times over.
bool are_bounded(const std::vector<ir::Instruction*>& operands, std::size_t most) {
  std::size_t nodes = 0;
  for (const ir::Instruction* operand : operands) {
    if (operands.size() > 1 && operand->shape().is_tuple()) {
      nodes += at(ir::node_count(operand->shape()));
    }
    if (nodes > most) return false;
  }
  return true;
}

Result<Opcode> opcode_of(const Instruction& instruction) {
  const auto known = ir::parse_opcode(instruction.opcode);
  if (known.has_value()) return *known;
  return unimplemented("the operation '" + word_of(instruction.opcode) + "' is not supported");
}

Status check_parameters(const Computation& computation) {
  for (const ir::Instruction* parameter : computation.parameters()) {
    if (parameter == nullptr) return broken("a computation that lacks a parameter");
  }
  return ok_status();
}

}  // namespace

ModuleReader::ModuleReader(std::string_view message)
    : message_(message),
      participants_left_(ir::kMaxParticipants + static_cast<std::int64_t>(message.size())) {}

Result<std::vector<Computation*>> ModuleReader::called_by(const Numbers& ids, Opcode opcode) const {
  std::vector<Computation*> called;
  if (!calls_others(opcode) && !ids.empty()) {
    return broken("a computation called by " + std::string(to_string(opcode)));
  }
  for (const std::int64_t id : ids) {
    const auto found = computations_.find(id);
    if (found == computations_.end()) return broken("the id of a called computation");
    called.push_back(found->second);
  }
  // XLA has the body first.
  if (opcode == Opcode::while_) std::reverse(called.begin(), called.end());
  return called;
}

Status ModuleReader::read_instruction_of(std::string_view message, Computation& computation,
                                         Instructions& known) {
  PLIMSOLL_ASSIGN_OR_RETURN(const Instruction instruction, read_instruction(message));
  const auto read = [&]() -> Result<ir::Instruction*> {
    PLIMSOLL_ASSIGN_OR_RETURN(const Opcode opcode, opcode_of(instruction));
    PLIMSOLL_ASSIGN_OR_RETURN(const ir::Shape shape, read_shape(instruction.shape));
    std::vector<ir::Instruction*> operands;
    for (const std::int64_t id : instruction.operands) {
      const auto found = known.find(id);
      if (found == known.end()) return broken("the id of an operand");
      operands.push_back(found->second);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(std::vector<Computation*> called,
                              called_by(instruction.called, opcode));
    PLIMSOLL_ASSIGN_OR_RETURN(ir::Attributes attributes,
                              read_attributes(instruction, opcode, shape, participants_left_));
    const auto number = attributes.parameter_number;
    if (number < 0 || at(number) >= message_.size()) return broken("a parameter number");
    if (!are_bounded(operands, message_.size())) return broken("the operands");
    ir::add_implied_conversions(computation, opcode, shape, operands);
    for (const Computation* callee : called) {
      int& depth = depth_[&computation];
      depth = std::max(depth, depth_[callee] + 1);
      if (depth > kMaxCallDepth) return broken("calls nested more than 256 deep");
    }
    return ir::build(computation, opcode, std::move(operands), std::move(attributes),
                     std::move(called), &shape, word_of(instruction.name));
  };
  auto made = read();
  if (!made.ok()) {
    return made.status().with_context("instruction '" + word_of(instruction.name) + "'");
  }
  for (const std::int64_t id : instruction.control_predecessors) {
    const auto found = known.find(id);
    if (found == known.end()) return broken("the id of a control predecessor");
    (*made)->add_control_predecessor(found->second);
  }
  if (!known.emplace(instruction.id, *made).second) return broken("an id that is there twice");
  return ok_status();
}

Status ModuleReader::reorder(std::int64_t id, Computation& computation, const Instructions& known) {
  const auto sequence = sequences_.find(id);
  if (sequence == sequences_.end()) return ok_status();
  Numbers ids;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(sequence->second, "a schedule", {{1, &ids}}));
  std::unordered_set<const ir::Instruction*> added;  // what has no id of its own
  for (const auto& instruction : computation.instructions()) added.insert(instruction.get());
  for (const auto& [own_id, instruction] : known) added.erase(instruction);
  std::unordered_set<const ir::Instruction*> placed;
  std::vector<ir::Instruction*> order;
  for (const std::int64_t one : ids) {
    const auto found = known.find(one);
    if (found == known.end()) return broken("the id of a scheduled instruction");
    for (ir::Instruction* operand : found->second->operands()) {
      if (added.contains(operand) && placed.insert(operand).second) order.push_back(operand);
    }
    if (!placed.insert(found->second).second) return broken("a schedule");
    order.push_back(found->second);
  }
  if (order.size() != computation.instructions().size()) return broken("a schedule");
  computation.set_order(order);
  return ok_status();
}

Status ModuleReader::read_computation(std::string_view message) {
  std::string_view name;
  std::vector<std::string_view> instructions;
  std::int64_t id = 0, root = 0;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(message, "a computation",
                                       {{1, &name}, {2, &instructions}, {5, &id}, {6, &root}}));
  const std::string word = word_of(name);
  Computation& computation = *module_->add_computation(word.empty() ? "computation" : word);
  const auto read = [&]() -> Status {
    Instructions known;
    for (const std::string_view instruction : instructions) {
      PLIMSOLL_RETURN_IF_ERROR(read_instruction_of(instruction, computation, known));
    }
    const auto found = known.find(root);
    if (found == known.end()) return broken("the id of the root");
    PLIMSOLL_RETURN_IF_ERROR(check_parameters(computation));
    PLIMSOLL_RETURN_IF_ERROR(reorder(id, computation, known));
    computation.set_root(found->second);
    if (!computations_.emplace(id, &computation).second) {
      return broken("an id that is there twice");
    }
    return ok_status();
  };
  return read().with_context("computation '" + computation.name() + "'");
}

Status ModuleReader::read_schedule(std::string_view message) {
  std::vector<std::string_view> entries;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(message, "the schedule", {{1, &entries}}));
  for (const std::string_view entry : entries) {
    std::int64_t id = 0;
    std::string_view sequence;
    PLIMSOLL_RETURN_IF_ERROR(read_fields(entry, "the schedule", {{1, &id}, {2, &sequence}}));
    sequences_[id] = sequence;
  }
  module_->is_scheduled = !sequences_.empty();
  return ok_status();
}

Status ModuleReader::read_aliases(std::string_view message) {
  constexpr std::int64_t kMustAlias = 2;
  std::vector<std::string_view> entries;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(message, "the aliases", {{1, &entries}}));
  for (const std::string_view entry : entries) {
    ir::InputOutputAlias alias;
    std::int64_t kind = 0;
    PLIMSOLL_RETURN_IF_ERROR(read_fields(entry, "an alias",
                                         {{1, &alias.output_index},
                                          {2, &alias.parameter_number},
                                          {3, &alias.parameter_index},
                                          {4, &kind}}));
    alias.must_alias = kind == kMustAlias;
    module_->input_output_alias.push_back(std::move(alias));
  }
  return ok_status();
}

Status ModuleReader::read_donors(std::string_view message) {
  std::vector<std::string_view> entries;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(message, "the donors", {{1, &entries}}));
  for (const std::string_view entry : entries) {
    ir::BufferDonor donor;
    PLIMSOLL_RETURN_IF_ERROR(
        read_fields(entry, "a donor", {{1, &donor.parameter_number}, {2, &donor.parameter_index}}));
    module_->buffer_donor.push_back(std::move(donor));
  }
  return ok_status();
}

Result<std::unique_ptr<ir::Module>> ModuleReader::read() {
  std::string_view name, entry_name, schedule, aliases, donors, frontend;
  std::vector<std::string_view> computations;
  std::int64_t entry = 0;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(message_, "the module",
                                       {{1, &name},
                                        {2, &entry_name},
                                        {3, &computations},
                                        {6, &entry},
                                        {7, &schedule},
                                        {8, &aliases},
                                        {18, &donors},
                                        {19, &frontend}}));
  if (computations.empty()) {
    return invalid_argument("HLO proto: there is no computation in this module");
  }
  const std::string word = word_of(name);
  module_ = std::make_unique<ir::Module>(word.empty() ? "module" : word);
  PLIMSOLL_RETURN_IF_ERROR(read_schedule(schedule));
  for (const std::string_view computation : computations) {
    PLIMSOLL_RETURN_IF_ERROR(read_computation(computation));
  }
  const auto found = computations_.find(entry);
  // The oldest writers gave no ids of computations.
  Computation* const by_name = module_->find(word_of(entry_name));
  module_->set_entry(found != computations_.end() ? found->second : by_name);
  if (module_->entry() == nullptr) return broken("the id of the entry computation");
  PLIMSOLL_RETURN_IF_ERROR(read_aliases(aliases));
  PLIMSOLL_RETURN_IF_ERROR(read_donors(donors));
  PLIMSOLL_ASSIGN_OR_RETURN(std::string texts, frontend_attributes_text(frontend));
  if (!texts.empty()) module_->extra.emplace_back("frontend_attributes", std::move(texts));
  return std::move(module_);
}

}  // namespace plimsoll::hlo_proto
