// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/vhlo/translator.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/ir/host_leaves.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/ir/shapes/implied_conversion.h"

namespace plimsoll::vhlo {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Shape;

// Calls within calls.
constexpr int kMostCallNesting = 256;

// Constants that regions make anew rather than have them passed: scalars and small lists, which
// passes look at.
constexpr std::int64_t kMostCopiedElements = 16;

// What a program says of how devices hold a value is said of the value itself, which is cast to
// another dialect's name for its type first.
const Value* without_constraints(const Value* value) {
  const auto says = [](const Operation& operation) {
    return operation.operands.size() == 1 &&
           (operation.name == "sdy.sharding_constraint" ||
            operation.name == "builtin.unrealized_conversion_cast");
  };
  while (value->maker != nullptr && says(*value->maker)) value = value->maker->operands[0];
  return value;
}

bool is_copied(const Value* constrained) {
  const Value* const value = without_constraints(constrained);
  return value->maker != nullptr && base_name(value->maker->name) == "constant" &&
         value->type->shape.is_array() && value->type->shape.element_count() <= kMostCopiedElements;
}

// Where each argument or result is, by its memory kind.
std::vector<ir::ArrayMemory> memories_of(const Attribute* list) {
  std::vector<ir::ArrayMemory> made;
  for (std::size_t i = 0; list != nullptr && i < list->elements.size(); ++i) {
    const Attribute* const kind = entry_of(*list->elements[i], "mhlo.memory_kind");
    const bool is_on_host = kind != nullptr && kind->text.ends_with("host");
    const bool is_unpinned = is_on_host && kind->text == "unpinned_host";
    made.push_back(is_unpinned  ? ir::ArrayMemory::unpinned_host
                   : is_on_host ? ir::ArrayMemory::pinned_host
                                : ir::ArrayMemory::device);
  }
  return made;
}

void collect_captures(const Block& block, std::unordered_set<const Value*>& known,
                      std::vector<const Value*>& out) {
  for (const auto& argument : block.arguments) known.insert(argument.get());
  for (const auto& operation : block.operations) {
    for (const Value* const value : operation->operands) {
      if (known.insert(value).second && !is_copied(value)) out.push_back(value);
    }
    for (const auto& result : operation->results) known.insert(result.get());
    for (const auto& region : operation->regions) {
      if (region != nullptr) collect_captures(*region, known, out);
    }
  }
}

}  // namespace

const Attribute* entry_of(const Attribute& dictionary, std::string_view name) {
  for (const auto& [key, value] : dictionary.entries) {
    if (key->kind == Attribute::Kind::text && key->text == name) return value;
  }
  return nullptr;
}

Status wrong(const Operation& operation, std::string_view what) {
  return invalid_argument("StableHLO: '" + std::string(operation.name) + "' " + std::string(what));
}

std::string_view base_name(std::string_view name) {
  if (name.starts_with("vhlo.")) name.remove_prefix(5);
  const std::size_t version = name.rfind("_v");
  return version == std::string_view::npos ? name : name.substr(0, version);
}

Result<std::int64_t> number_of(const Operation& operation, std::string_view name) {
  const Attribute* const found = operation.find(name);
  if (found == nullptr ||
      (found->kind != Attribute::Kind::number && found->kind != Attribute::Kind::boolean)) {
    return wrong(operation, "has no number '" + std::string(name) + "'");
  }
  return found->number;
}

Result<std::string_view> text_of(const Operation& operation, std::string_view name) {
  const Attribute* const found = operation.find(name);
  if (found == nullptr || found->kind != Attribute::Kind::text) {
    return wrong(operation, "has no text '" + std::string(name) + "'");
  }
  return found->text;
}

Result<std::vector<std::int64_t>> numbers_of(const Operation& operation, std::string_view name) {
  const Attribute* const found = operation.find(name);
  std::vector<std::int64_t> numbers;
  if (found != nullptr && found->kind == Attribute::Kind::list) {
    for (const Attribute* const one : found->elements) numbers.push_back(one->number);
    return numbers;
  }
  if (found == nullptr || found->kind != Attribute::Kind::tensor) {
    return wrong(operation, "has no numbers '" + std::string(name) + "'");
  }
  const Shape& shape = found->type->shape;
  const auto count = at(shape.element_count());
  const std::string_view bytes = found->text;
  if (shape.dtype() == ir::DType::pred) {
    // A bit each, or a byte.
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_bytes = bytes.size() == count && count > 1;
      const std::size_t byte = is_bytes ? i : i / 8;
      if (byte >= bytes.size())
        return wrong(operation, "has a damaged '" + std::string(name) + "'");
      const auto bits = static_cast<unsigned char>(bytes[byte]);
      numbers.push_back(is_bytes ? (bits != 0 ? 1 : 0) : bits >> (i % 8) & 1U);
    }
    return numbers;
  }
  constexpr std::size_t kSize = sizeof(std::int64_t);
  const bool is_splat = bytes.size() == kSize;
  if (shape.dtype() != ir::DType::s64 || (!is_splat && bytes.size() != count * kSize)) {
    return wrong(operation, "has a damaged '" + std::string(name) + "'");
  }
  numbers.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(&numbers[i], bytes.data() + (is_splat ? 0 : i * kSize), kSize);
  }
  return numbers;
}

Result<std::unique_ptr<ir::Module>> Translator::translate() {
  const Operation* module = nullptr;
  for (const auto& operation : top_.operations) {
    if (operation->name == "builtin.module") module = operation.get();
  }
  if (module == nullptr || module->regions.empty() || module->regions[0] == nullptr) {
    return invalid_argument("MLIR bytecode: there is no module in it");
  }
  const Attribute* const name = module->find("sym_name");
  module_ = std::make_unique<ir::Module>(
      name != nullptr && name->kind == Attribute::Kind::text ? std::string(name->text) : "main");
  PLIMSOLL_RETURN_IF_ERROR(find_functions(*module->regions[0]));
  const std::string_view entry = function_index_.contains("main") || functions_.size() != 1
                                     ? "main"
                                     : function_index_.begin()->first;
  PLIMSOLL_ASSIGN_OR_RETURN(Computation* const computation, function(entry));
  module_->set_entry(computation);
  const Operation& operation = *functions_[function_index_.at(entry)].operation;
  PLIMSOLL_RETURN_IF_ERROR(
      read_arguments(operation, *module_, computation->root()->shape().is_tuple()));
  ir::set_host_leaves(*module_, memories_of(operation.find("arg_attrs")),
                      memories_of(operation.find("res_attrs")));
  PLIMSOLL_RETURN_IF_ERROR(read_participants(*module, operation));
  (void)module_->remove_unreachable();
  return std::move(module_);
}

Status Translator::find_functions(const Block& module) {
  for (const auto& operation : module.operations) {
    if (operation->name == "sdy.mesh") {
      PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view name, text_of(*operation, "sym_name"));
      meshes_[name] = operation->find("mesh");
    }
    if (!operation->name.starts_with("vhlo.")) continue;
    if (base_name(operation->name) != "func") {
      return wrong(*operation, "stands outside of functions");
    }
    if (operation->regions.empty() || operation->regions[0] == nullptr) {
      return wrong(*operation, "has no body");
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view name, text_of(*operation, "sym_name"));
    function_index_.emplace(name, functions_.size());
    functions_.push_back({operation.get(), nullptr, false});
  }
  return ok_status();
}

// JAX writes beside an argument which result takes its memory, or that some may.
Status Translator::read_arguments(const Operation& function, ir::Module& module, bool has_tuple) {
  const Attribute* const arguments = function.find("arg_attrs");
  if (arguments == nullptr || arguments->kind != Attribute::Kind::list) return ok_status();
  for (std::size_t i = 0; i < arguments->elements.size(); ++i) {
    const Attribute& one = *arguments->elements[i];
    const auto number = static_cast<std::int64_t>(i);
    if (const Attribute* const result = entry_of(one, "tf.aliasing_output"); result != nullptr) {
      ir::InputOutputAlias alias;
      if (has_tuple) alias.output_index = {result->number};
      alias.parameter_number = number;
      module.input_output_alias.push_back(std::move(alias));
    } else if (const Attribute* const donor = entry_of(one, "jax.buffer_donor");
               donor != nullptr && donor->number != 0) {
      module.buffer_donor.push_back({number, {}});
    }
  }
  return ok_status();
}

Result<Computation*> Translator::function(std::string_view name) {
  const auto found = function_index_.find(name);
  if (found == function_index_.end()) {
    return invalid_argument("StableHLO: there is no function '" + std::string(name) + "'");
  }
  Function& function = functions_[found->second];
  if (function.computation != nullptr) return function.computation;
  if (function.is_open) {
    return invalid_argument("StableHLO: the function '" + std::string(name) + "' calls itself");
  }
  if (depth_ >= kMostCallNesting) return invalid_argument("StableHLO: functions call too deep");
  function.is_open = true;
  ++depth_;
  Scope scope;
  scope.computation = module_->add_computation(name);
  const Block& body = *function.operation->regions[0];
  for (const auto& argument : body.arguments) {
    scope.values[argument.get()] =
        scope.computation->add_parameter(argument->index, argument->type->shape);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const Instructions results, translate_block(body, scope));
  scope.computation->set_root(pack(*scope.computation, results));
  --depth_;
  functions_[found->second].computation = scope.computation;
  return scope.computation;
}

Instruction* Translator::pack(Computation& computation, const Instructions& values) {
  return values.size() == 1 ? values[0] : computation.add_tuple(values);
}

Translator::Instructions Translator::unpack(Computation& computation, Instruction* packed,
                                            std::size_t count) {
  if (count == 1) return {packed};
  Instructions values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(computation.add_get_tuple_element(packed, static_cast<std::int64_t>(i)));
  }
  return values;
}

Result<Translator::Instructions> Translator::translate_block(const Block& block, Scope& scope) {
  for (const auto& operation : block.operations) {
    if (base_name(operation->name) == "return" || operation->name == "sdy.return") {
      return operands(*operation, scope);
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const Instructions results, translate_operation(*operation, scope));
    if (results.size() != operation->results.size()) {
      return wrong(*operation, "has another number of results than it must have");
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      scope.values[operation->results[i].get()] = results[i];
    }
  }
  return invalid_argument("StableHLO: a block does not end in a return");
}

Result<Translator::Instructions> Translator::translate_operation(const Operation& operation,
                                                                 Scope& scope) {
  if (operation.name == "sdy.manual_computation") return manual_computation(operation, scope);
  if (operation.name == "sdy.sharding_constraint") return constrained(operation, scope);
  if (operation.name.starts_with("sdy.") ||
      operation.name == "builtin.unrealized_conversion_cast") {
    // How to lay values out over devices, which changes no value. And casts between dialects' names
    // of the same type.
    if (operation.operands.size() == operation.results.size() && operation.regions.empty()) {
      return operands(operation, scope);
    }
    if (operation.results.empty() && operation.regions.empty()) return Instructions();
    return unimplemented("StableHLO: '" + std::string(operation.name) +
                         "' (a program for several devices)");
  }
  if (!operation.name.starts_with("vhlo.")) {
    return unimplemented("StableHLO: the operation '" + std::string(operation.name) +
                         "' is of a dialect that is not known");
  }
  const Row* const row = find_row(base_name(operation.name));
  const Handler handler = row == nullptr ? &Translator::by_name : row->handler;
  return (this->*handler)(operation, scope);
}

Result<Instruction*> Translator::use(const Value* value, Scope& scope) {
  const auto found = scope.values.find(value);
  if (found != scope.values.end()) return found->second;
  if (!is_copied(value)) {
    return unimplemented(
        "StableHLO: a region that uses a value from outside of it, other than a "
        "small constant, where only loops and branches may");
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const Instructions made,
                            constant(*without_constraints(value)->maker, scope));
  scope.values[value] = made[0];
  return made[0];
}

Result<Instruction*> Translator::operand(const Operation& operation, std::size_t i, Scope& scope) {
  if (i >= operation.operands.size()) return wrong(operation, "lacks an operand");
  return use(operation.operands[i], scope);
}

Result<Translator::Instructions> Translator::operands(const Operation& operation, Scope& scope) {
  Instructions list;
  for (std::size_t i = 0; i < operation.operands.size(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const one, operand(operation, i, scope));
    list.push_back(one);
  }
  return list;
}

Result<Computation*> Translator::region(const Operation& operation, std::size_t i,
                                        std::span<const Shape> shapes) {
  if (i >= operation.regions.size() || operation.regions[i] == nullptr) {
    return wrong(operation, "lacks a region");
  }
  Scope scope;
  scope.computation = module_->add_computation("region");
  scope.of_elements = shapes.empty();
  const Block& block = *operation.regions[i];
  for (const auto& argument : block.arguments) {
    const Shape& shape = shapes.empty() ? argument->type->shape : shapes[at(argument->index)];
    scope.values[argument.get()] = scope.computation->add_parameter(argument->index, shape);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const Instructions results, translate_block(block, scope));
  scope.computation->set_root(pack(*scope.computation, results));
  return scope.computation;
}

std::vector<const Value*> Translator::captures(const Operation& operation) {
  std::unordered_set<const Value*> known;
  std::vector<const Value*> found;
  for (const auto& region : operation.regions) {
    if (region != nullptr) collect_captures(*region, known, found);
  }
  return found;
}

Result<Computation*> Translator::packed_region(const Block& block, const Shape& parameter,
                                               const std::vector<const Value*>& arguments,
                                               const std::vector<const Value*>& captured,
                                               bool passes_on) {
  Scope scope;
  scope.computation = module_->add_computation("region");
  Instruction* const packed = scope.computation->add_parameter(0, parameter);
  std::vector<const Value*> values = arguments;
  values.insert(values.end(), captured.begin(), captured.end());
  const Instructions parts = unpack(*scope.computation, packed, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) scope.values[values[i]] = parts[i];
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions results, translate_block(block, scope));
  if (passes_on) {
    results.insert(results.end(), parts.begin() + static_cast<std::ptrdiff_t>(arguments.size()),
                   parts.end());
  }
  scope.computation->set_root(pack(*scope.computation, results));
  return scope.computation;
}

Result<Translator::Instructions> Translator::one(const Operation& operation, Scope& scope,
                                                 std::string_view opcode, Instructions operands,
                                                 ir::Attributes attributes, Computations called) {
  if (operation.results.size() != 1) return wrong(operation, "must have one result");
  return several(operation, scope, opcode, std::move(operands), std::move(attributes),
                 std::move(called));
}

Result<Translator::Instructions> Translator::several(const Operation& operation, Scope& scope,
                                                     std::string_view opcode, Instructions operands,
                                                     ir::Attributes attributes,
                                                     Computations called) {
  const auto known = ir::parse_opcode(opcode);
  if (!known.has_value()) {
    return unimplemented("StableHLO: the operation '" + std::string(base_name(operation.name)) +
                         "' is not supported");
  }
  std::vector<Shape> shapes;
  for (const auto& result : operation.results) {
    if (result->type->kind == Type::Kind::unknown) {
      return unimplemented("StableHLO: a result of '" + std::string(operation.name) +
                           "' has a type that is not supported");
    }
    shapes.push_back(result->type->shape);
  }
  const Shape shape = shapes.size() == 1 ? shapes[0] : Shape::tuple(std::move(shapes));
  ir::add_implied_conversions(*scope.computation, *known, shape, operands);
  auto made = ir::build(*scope.computation, *known, std::move(operands), std::move(attributes),
                        std::move(called), &shape);
  if (!made.ok()) return made.status().with_context("StableHLO: " + std::string(operation.name));
  return unpack(*scope.computation, *made, operation.results.size());
}

}  // namespace plimsoll::vhlo
