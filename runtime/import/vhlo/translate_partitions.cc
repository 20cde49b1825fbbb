// SPDX-License-Identifier: Apache-2.0
// What programs say of several partitions: Shardy's meshes, shardings and manual regions, and
// shardings in HLO's words.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/import/vhlo/translator.h"

namespace plimsoll::vhlo {

using ir::Instruction;
using ir::MeshAxisPart;
using ir::Opcode;
using ir::Sharding;

namespace {

constexpr char kSharding[] = "sharding";

// A call of one of XLA's functions that mark where a value is whole and where it is a tile.
Instruction* add_mark(Instruction* value, ir::Shape shape, std::string_view target,
                      std::string sharding) {
  ir::Attributes attributes;
  attributes.custom_call_target = target;
  attributes.extra.emplace_back(kSharding, std::move(sharding));
  return value->parent()->add(Opcode::custom_call, std::move(shape), {value}, {},
                              std::move(attributes));
}

std::int64_t count_of(const Operation& module, std::string_view name) {
  const Attribute* const found = module.find(name);
  const bool is_count = found != nullptr && found->kind == Attribute::Kind::number &&
                        found->number >= 1 && found->number <= ir::kMaxParticipants;
  return is_count ? found->number : 1;
}

}  // namespace

Result<Sharding> Translator::sharding_of(const Attribute& sharding, const Attribute* axes) const {
  const auto unreadable = [] {
    return invalid_argument("StableHLO: a sharding that is malformed");
  };
  if (sharding.kind != Attribute::Kind::shardy || sharding.elements.empty()) return unreadable();
  const Attribute* mesh = sharding.elements[0];
  if (mesh->kind == Attribute::Kind::text) {
    const auto found = meshes_.find(mesh->text);
    if (found == meshes_.end()) {
      return invalid_argument("StableHLO: there is no mesh '" + std::string(mesh->text) + "'");
    }
    mesh = found->second;
  }
  if (mesh == nullptr || mesh->kind != Attribute::Kind::shardy) return unreadable();
  std::vector<std::int64_t> sizes;
  for (const Attribute* const axis : mesh->elements) sizes.push_back(axis->number);
  // Appends the part of the mesh that `axis` names, if it counts.
  const auto add_axis = [&](const Attribute& axis, std::vector<MeshAxisPart>& out) -> Status {
    const auto is_it = [&](const Attribute* other) { return other->text == axis.text; };
    const auto found = std::find_if(mesh->elements.begin(), mesh->elements.end(), is_it);
    if (found == mesh->elements.end()) return unreadable();
    if (axes != nullptr && std::none_of(axes->elements.begin(), axes->elements.end(), is_it)) {
      return ok_status();
    }
    MeshAxisPart part;
    part.axis = found - mesh->elements.begin();
    if (!axis.elements.empty()) {
      if (axis.elements[0]->numbers.size() != 2) return unreadable();
      part.before = axis.elements[0]->numbers[0];
      part.size = axis.elements[0]->numbers[1];
    }
    out.push_back(part);
    return ok_status();
  };
  const std::size_t all = sharding.elements.size();
  if (sharding.number < 0 || at(sharding.number) >= all) return unreadable();
  const std::size_t first_unreduced = all - at(sharding.number);
  std::vector<std::vector<MeshAxisPart>> dimensions;
  for (std::size_t d = 1; d < first_unreduced; ++d) {
    auto& dimension = dimensions.emplace_back();
    for (const Attribute* const axis : sharding.elements[d]->elements) {
      PLIMSOLL_RETURN_IF_ERROR(add_axis(*axis, dimension));
    }
  }
  std::vector<MeshAxisPart> unreduced;
  for (std::size_t i = first_unreduced; i < all; ++i) {
    PLIMSOLL_RETURN_IF_ERROR(add_axis(*sharding.elements[i], unreduced));
  }
  return ir::mesh_sharding(sizes, dimensions, mesh->numbers, unreduced);
}

Result<Translator::Instructions> Translator::manual_computation(const Operation& operation,
                                                                Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions values, operands(operation, scope));
  const Attribute* const axes = operation.find("manual_axes");
  const Attribute* const entering = operation.find("in_shardings");
  const Attribute* const leaving = operation.find("out_shardings");
  if (axes == nullptr || entering == nullptr || leaving == nullptr ||
      operation.regions.size() != 1 || operation.regions[0] == nullptr ||
      operation.regions[0]->arguments.size() != values.size() ||
      entering->elements.size() != values.size() ||
      leaving->elements.size() != operation.results.size()) {
    return wrong(operation);
  }
  // The region's own types are of a dialect that is not read here.
  std::vector<ir::Shape> tiles;
  for (std::size_t i = 0; i < values.size(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(const Sharding sharding, sharding_of(*entering->elements[i], axes));
    PLIMSOLL_ASSIGN_OR_RETURN(ir::Shape tile, ir::tile_shape(values[i]->shape(), sharding));
    for (int d = 0; d < tile.rank(); ++d) {
      if (ir::is_even(values[i]->shape().dim(d), sharding, d)) continue;
      return invalid_argument("a manual region takes " + values[i]->shape().to_string() +
                              " in tiles of " + ir::to_string(sharding) + ": dimension " +
                              std::to_string(d) + " is no multiple of them (pad it)");
    }
    Instruction* const marked =
        add_mark(values[i], values[i]->shape(), "Sharding", ir::to_string(sharding));
    values[i] = add_mark(marked, tile, "SPMDFullToShardShape", "{manual}");
    tiles.push_back(std::move(tile));
  }
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const body, region(operation, 0, tiles));
  Instruction* const call =
      scope.computation->add(Opcode::call, body->root()->shape(), std::move(values));
  call->set_called_computations({body});
  Instructions results = unpack(*scope.computation, call, operation.results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(const Sharding sharding, sharding_of(*leaving->elements[i], axes));
    PLIMSOLL_ASSIGN_OR_RETURN(ir::Shape whole, ir::whole_shape(results[i]->shape(), sharding));
    results[i] =
        add_mark(results[i], std::move(whole), "SPMDShardToFullShape", ir::to_string(sharding));
  }
  return results;
}

// Dimensions that are left open stay as they are held.
Result<Translator::Instructions> Translator::constrained(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(const Instructions values, operands(operation, scope));
  const Attribute* const sharding = operation.find("sharding");
  if (values.size() != 1 || sharding == nullptr) return wrong(operation);
  if (scope.of_elements) return values;
  const bool is_open =
      std::any_of(sharding->elements.begin(), sharding->elements.end(), [](const Attribute* one) {
        return one->kind == Attribute::Kind::shardy && one->number != 0;
      });
  if (!values[0]->shape().is_array()) return values;
  PLIMSOLL_ASSIGN_OR_RETURN(const Sharding read, sharding_of(*sharding, nullptr));
  if (is_open && read.is_replicated()) return values;
  Instruction* const mark =
      add_mark(values[0], values[0]->shape(), "Sharding", ir::to_string(read));
  if (is_open) mark->attributes().extra.emplace_back("open", "true");
  return Instructions{mark};
}

Status Translator::read_participants(const Operation& module, const Operation& function) {
  module_->replica_count = count_of(module, "mhlo.num_replicas");
  module_->num_partitions = count_of(module, "mhlo.num_partitions");
  if (module_->num_partitions == 1) return ok_status();
  module_->extra.emplace_back("whole_shapes", "true");
  // The text of a value's sharding, by Shardy or in HLO's words; empty: none.
  const auto text_of_value = [&](const Attribute& one) -> Result<std::string> {
    if (const Attribute* const sharding = entry_of(one, "sdy.sharding")) {
      PLIMSOLL_ASSIGN_OR_RETURN(const Sharding read, sharding_of(*sharding, nullptr));
      return ir::to_string(read);
    }
    const Attribute* const text = entry_of(one, "mhlo.sharding");
    return text == nullptr ? std::string() : std::string(text->text);
  };
  ir::Computation& entry = *module_->entry();
  const Attribute* const arguments = function.find("arg_attrs");
  for (std::size_t i = 0;
       arguments != nullptr && i < arguments->elements.size() && i < entry.parameters().size();
       ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(std::string text, text_of_value(*arguments->elements[i]));
    if (text.empty()) continue;
    entry.parameters()[i]->attributes().extra.emplace_back(kSharding, std::move(text));
  }
  const Attribute* const results = function.find("res_attrs");
  if (results == nullptr || results->elements.empty()) return ok_status();
  std::string all;
  bool is_said = false;
  for (const Attribute* const one : results->elements) {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::string text, text_of_value(*one));
    is_said = is_said || !text.empty();
    all += (all.empty() ? "" : ",") + (text.empty() ? "{unknown}" : text);
  }
  if (!is_said) return ok_status();
  // A parameter's sharding is that of the argument, a mark's its own.
  const bool has_own =
      entry.root()->opcode() == Opcode::parameter || entry.root()->opcode() == Opcode::custom_call;
  if (has_own && entry.root()->shape().is_array()) {
    entry.add(Opcode::copy, entry.root()->shape(), {entry.root()});
  }
  if (entry.root()->shape().is_tuple()) all = "{" + all + "}";
  entry.root()->attributes().extra.emplace_back(kSharding, std::move(all));
  return ok_status();
}

}  // namespace plimsoll::vhlo
