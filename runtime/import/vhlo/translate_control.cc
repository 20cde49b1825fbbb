// SPDX-License-Identifier: Apache-2.0
// Calls, loops, branches, tuples and what speaks to other devices; and the table of all handlers.
#include <fmt/core.h>
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/import/vhlo/translator.h"
#include "runtime/ir/hint.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::vhlo {

using ir::Attributes;
using ir::Instruction;
using ir::Shape;

namespace {

// Replaced by an operation of our own, whose name is the rest: composites, and the custom calls
// that JAX wrote before 0.9 in their place.
constexpr std::string_view kComposites = "chlo.", kCalls = "mhlo.";

// The name of an elementwise operation that `name` stands for; empty: none.
std::string own_operation(std::string_view name, std::string_view prefix,
                          const std::vector<Instruction*>& operands, std::size_t results) {
  if (!name.starts_with(prefix) || results != 1) return "";
  std::string opcode(name.substr(prefix.size()));
  std::replace(opcode.begin(), opcode.end(), '_', '-');
  const auto known = ir::parse_opcode(opcode);
  const bool is_complex = std::any_of(operands.begin(), operands.end(), [](const Instruction* one) {
    return one->shape().is_array() && ir::is_complex(one->shape().dtype());
  });
  return known.has_value() && ir::is_elementwise(*known) && !is_complex ? opcode : "";
}

Result<std::shared_ptr<const ir::CollectiveAttributes>> groups_of(const Operation& operation) {
  auto made = std::make_shared<ir::CollectiveAttributes>();
  if (operation.find("channel_id") != nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(made->channel_id, number_of(operation, "channel_id"));
  }
  if (operation.find("use_global_device_ids") != nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(const auto flag, number_of(operation, "use_global_device_ids"));
    made->use_global_device_ids = flag != 0;
  }
  if (const Attribute* const pairs = operation.find("source_target_pairs"); pairs != nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(const auto numbers, numbers_of(operation, "source_target_pairs"));
    for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
      made->source_target_pairs.emplace_back(numbers[i], numbers[i + 1]);
    }
    return std::shared_ptr<const ir::CollectiveAttributes>(std::move(made));
  }
  const Attribute* const groups = operation.find("replica_groups");
  if (groups == nullptr || groups->kind != Attribute::Kind::tensor) return wrong(operation);
  const Shape& shape = groups->type->shape;
  if (shape.rank() != 2) return wrong(operation);
  PLIMSOLL_ASSIGN_OR_RETURN(const auto numbers, numbers_of(operation, "replica_groups"));
  for (std::int64_t g = 0; g < shape.dim(0) && shape.dim(1) > 0; ++g) {
    std::vector<std::int64_t> group;
    for (std::int64_t i = 0; i < shape.dim(1); ++i) {
      const std::int64_t member = numbers[at(g * shape.dim(1) + i)];
      if (member >= 0) group.push_back(member);  // less: the group is shorter than others
    }
    made->replica_groups.push_back(std::move(group));
  }
  return std::shared_ptr<const ir::CollectiveAttributes>(std::move(made));
}

// Likewise of the custom call by which JAX writes a ragged-all-to-all.
Result<std::shared_ptr<const ir::CollectiveAttributes>> groups_of_call(const Operation& operation) {
  Operation options;
  options.name = operation.name;
  const Attribute* const config = operation.find("backend_config");
  if (config == nullptr) return wrong(operation);
  for (const auto& [key, value] : config->entries) {
    options.attributes.emplace_back(key->text, value);
  }
  return groups_of(options);
}

// The type behind a number, as MLIR writes it.
std::string type_text(const Attribute& value) {
  if (value.type == nullptr || value.type->kind != Type::Kind::element) return "i64";
  const ir::DType dtype = value.type->dtype;
  const bool is_unsigned = ir::dtype_class(dtype) == ir::DTypeClass::unsigned_int;
  return (is_unsigned ? "ui" : "i") + std::to_string(8 * ir::dtype_bytes(dtype));
}

// What a custom call is given beside its operands, in HLO's form: `{uplo = 76 : ui8}` of typed
// calls, a quoted text of others; empty: nothing.
// A value that goes to the host's memory is there where it must give way.
void mark_placement(const Operation& operation, ir::Instruction& value) {
  const Attribute* const said = operation.find("mhlo.frontend_attributes");
  const Attribute* const place =
      said == nullptr ? nullptr : entry_of(*said, "_xla_buffer_placement");
  const bool is_made = value.opcode() != ir::Opcode::parameter &&
                       value.opcode() != ir::Opcode::constant && value.shape().is_array();
  if (place == nullptr || !place->text.ends_with("host") || !is_made) return;
  ir::set_hint(value.attributes(), ir::Hint::swap);
}

std::string options_text(const Operation& operation) {
  const Attribute* options = operation.find("mhlo.backend_config");
  if (options == nullptr) options = operation.find("backend_config");
  if (options == nullptr) return {};
  if (options->kind == Attribute::Kind::text && !options->text.empty()) {
    std::string quoted = "\"";
    for (const char c : options->text) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    return quoted + "\"";
  }
  std::string text;
  for (const auto& [key, value] : options->entries) {
    using Kind = Attribute::Kind;
    text += (text.empty() ? "{" : ", ") + std::string(key->text) + " = ";
    if (value->kind == Kind::boolean) {
      text += value->number != 0 ? "true" : "false";
    } else if (value->kind == Kind::number) {
      text += std::to_string(value->number) + " : " + type_text(*value);
    } else {
      text += "\"" + std::string(value->text) + "\"";
    }
  }
  return text.empty() ? text : text + "}";
}

}  // namespace

Result<Translator::Instructions> Translator::tuple(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  return one(operation, scope, "tuple", std::move(list));
}

Result<Translator::Instructions> Translator::get_tuple_element(const Operation& operation,
                                                               Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  Attributes attributes;
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.tuple_index, number_of(operation, "index"));
  return one(operation, scope, "get-tuple-element", std::move(list), std::move(attributes));
}

Result<Translator::Instructions> Translator::optimization_barrier(const Operation& operation,
                                                                  Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(const Instructions list, operands(operation, scope));
  return several(operation, scope, "opt-barrier", {pack(*scope.computation, list)});
}

Result<Translator::Instructions> Translator::call(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view callee, text_of(operation, "callee"));
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const computation, function(callee));
  return several(operation, scope, "call", std::move(list), {}, {computation});
}

// Of what has an operation of its own here, that; of others what they are made of.
Result<Translator::Instructions> Translator::composite(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(std::string_view name, text_of(operation, "name"));
  const std::string opcode = own_operation(name, kComposites, list, operation.results.size());
  if (!opcode.empty()) return one(operation, scope, opcode, std::move(list));
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view callee, text_of(operation, "decomposition"));
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const computation, function(callee));
  return several(operation, scope, "call", std::move(list), {}, {computation});
}

Result<Translator::Instructions> Translator::custom_call(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string_view target, text_of(operation, "call_target_name"));
  Attributes attributes;
  if (target == "ragged_all_to_all") {
    PLIMSOLL_ASSIGN_OR_RETURN(attributes.collective, groups_of_call(operation));
    return one(operation, scope, "ragged-all-to-all", std::move(list), std::move(attributes));
  }
  if (target == "annotate_device_placement" && list.size() == 1) {
    mark_placement(operation, *list[0]);
    return list;
  }
  const std::string opcode = own_operation(target, kCalls, list, operation.results.size());
  if (!opcode.empty()) return one(operation, scope, opcode, std::move(list));
  if (target == "mhlo.topk" && list.size() == 1 && operation.results.size() == 2) {
    const Attribute* const given = operation.find("mhlo.attributes");
    const Attribute* const k = given == nullptr ? nullptr : entry_of(*given, "k");
    const Attribute* const largest = given == nullptr ? nullptr : entry_of(*given, "largest");
    if (k == nullptr || k->kind != Attribute::Kind::number) return wrong(operation, "has no k");
    attributes.extra = {{"k", std::to_string(k->number)},
                        {"largest", largest == nullptr || largest->number != 0 ? "true" : "false"}};
    return several(operation, scope, "topk", std::move(list), std::move(attributes));
  }
  attributes.custom_call_target = target;
  PLIMSOLL_ASSIGN_OR_RETURN(const auto has_side_effect, number_of(operation, "has_side_effect"));
  attributes.custom_call_has_side_effect = has_side_effect != 0;
  std::string config = options_text(operation);
  if (!config.empty()) attributes.extra.emplace_back("backend_config", std::move(config));
  return several(operation, scope, "custom-call", std::move(list), std::move(attributes));
}

Result<Translator::Instructions> Translator::batch_norm(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto feature, number_of(operation, "feature_index"));
  const Attribute* const epsilon = operation.find("epsilon");
  if (epsilon == nullptr || epsilon->kind != Attribute::Kind::floating) return wrong(operation);
  Attributes attributes;
  attributes.extra = {{"epsilon", fmt::format("{}", epsilon->real)},
                      {"feature_index", std::to_string(feature)}};
  std::string opcode(operation.name.substr(5));  // without "vhlo."
  opcode.resize(opcode.rfind("_v"));
  std::replace(opcode.begin(), opcode.end(), '_', '-');
  return several(operation, scope, opcode, std::move(list), std::move(attributes));
}

Result<Translator::Instructions> Translator::token(const Operation& operation, Scope& scope) {
  return one(operation, scope, "after-all", {});
}

Result<Translator::Instructions> Translator::fft(const Operation& operation, Scope& scope) {
  constexpr std::string_view kTypes[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto type, number_of(operation, "fft_type"));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto lengths, numbers_of(operation, "fft_length"));
  if (type < 0 || type >= static_cast<std::int64_t>(std::size(kTypes))) return wrong(operation);
  std::string length;
  for (const std::int64_t one : lengths)
    length += (length.empty() ? "" : ",") + std::to_string(one);
  Attributes attributes;
  attributes.extra = {{"fft_type", std::string(kTypes[type])}, {"fft_length", "{" + length + "}"}};
  return one(operation, scope, "fft", std::move(list), std::move(attributes));
}

Result<Translator::Instructions> Translator::triangular(const Operation& operation, Scope& scope) {
  constexpr std::string_view kTransposes[] = {"", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  const auto flag = [&](const char* name, Attributes& attributes) -> Status {
    PLIMSOLL_ASSIGN_OR_RETURN(const auto value, number_of(operation, name));
    attributes.extra.emplace_back(name, value != 0 ? "true" : "false");
    return ok_status();
  };
  Attributes attributes;
  PLIMSOLL_RETURN_IF_ERROR(flag("lower", attributes));
  if (operation.find("transpose_a") == nullptr) {
    return one(operation, scope, "cholesky", std::move(list), std::move(attributes));
  }
  PLIMSOLL_RETURN_IF_ERROR(flag("left_side", attributes));
  PLIMSOLL_RETURN_IF_ERROR(flag("unit_diagonal", attributes));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto transpose, number_of(operation, "transpose_a"));
  if (transpose < 1 || transpose >= static_cast<std::int64_t>(std::size(kTransposes))) {
    return wrong(operation);
  }
  attributes.extra.emplace_back("transpose_a", std::string(kTransposes[transpose]));
  return one(operation, scope, "triangular-solve", std::move(list), std::move(attributes));
}

// The state of HLO's loop is one value, and its regions see nothing else: what they use from
// outside goes through the state, unchanged.
Result<Translator::Instructions> Translator::while_loop(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions state, operands(operation, scope));
  if (operation.regions.size() != 2 || operation.regions[0] == nullptr ||
      operation.regions[1] == nullptr) {
    return wrong(operation);
  }
  const std::vector<const Value*> captured = captures(operation);
  for (const Value* const value : captured) {
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const one, use(value, scope));
    state.push_back(one);
  }
  Instruction* const packed = pack(*scope.computation, state);
  const auto region_of = [&](std::size_t i) -> Result<ir::Computation*> {
    const Block& block = *operation.regions[i];
    std::vector<const Value*> arguments;
    for (const auto& argument : block.arguments) arguments.push_back(argument.get());
    if (arguments.size() != operation.operands.size()) return wrong(operation);
    return packed_region(block, packed->shape(), arguments, captured, i == 1);
  };
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const condition, region_of(0));
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const body, region_of(1));
  auto loop = ir::build(*scope.computation, ir::Opcode::while_, {packed}, {}, {condition, body});
  if (!loop.ok()) return loop.status().with_context("StableHLO: while");
  Instructions results = unpack(*scope.computation, *loop, state.size());
  results.resize(operation.results.size());
  return results;
}

// Each branch is given what the branches use, as one value.
Result<Translator::Instructions> Translator::conditional(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const selector, operand(operation, 0, scope));
  const std::vector<const Value*> captured = captures(operation);
  Instructions given;
  for (const Value* const value : captured) {
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const one, use(value, scope));
    given.push_back(one);
  }
  Instruction* const packed = pack(*scope.computation, given);
  Instructions list{selector};
  Computations branches;
  for (const auto& block : operation.regions) {
    if (block == nullptr) return wrong(operation);
    PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const branch,
                              packed_region(*block, packed->shape(), {}, captured, false));
    list.push_back(packed);
    branches.push_back(branch);
  }
  return several(operation, scope, "conditional", std::move(list), {}, std::move(branches));
}

// An all-to-all that splits one dimension and joins another: along the one, cut into pieces and
// what is in them, and then the pieces go before the other. Example of two pieces: f32[4,3] split
// along dim 0 and joined along dim 1 is f32[2,2,3], its dims in the order 1, 0, 2, and f32[2,6] of
// that.
Result<Translator::Instructions> Translator::moved_pieces(const Operation& operation,
                                                          const Instructions& values,
                                                          Attributes attributes, std::int64_t from,
                                                          std::int64_t to, std::int64_t pieces) {
  Instructions made;
  attributes.dimensions = {from};
  for (Instruction* const value : values) {
    const std::int64_t rank = value->shape().is_array() ? value->shape().rank() : 0;
    if (from < 0 || from >= rank || to < 0 || to >= rank || pieces < 1 ||
        value->shape().dim(static_cast<int>(from)) % pieces != 0) {
      return wrong(operation, "splits what can't be split so");
    }
    const ir::DType dtype = value->shape().dtype();
    std::vector<std::int64_t> cut, order, joined;
    for (std::int64_t d = 0; d < rank; ++d) {
      const std::int64_t size = value->shape().dim(static_cast<int>(d));
      if (d == from) cut.push_back(pieces);
      cut.push_back(d == from ? size / pieces : size);
      joined.push_back(d == from ? size / pieces : d == to ? size * pieces : size);
      if (d == to) order.push_back(from);
      order.push_back(d < from ? d : d + 1);
    }
    ir::Computation& computation = *value->parent();
    Instruction* const apart = computation.add(ir::Opcode::reshape, ir::Shape(dtype, cut), {value});
    Instruction* const moved =
        computation.add(ir::Opcode::all_to_all, apart->shape(), {apart}, {}, attributes);
    std::vector<std::int64_t> dims;
    for (const std::int64_t d : order) dims.push_back(cut[at(d)]);
    Attributes transposes;
    transposes.dimensions = order;
    Instruction* const turned = computation.add(ir::Opcode::transpose, ir::Shape(dtype, dims),
                                                {moved}, {}, std::move(transposes));
    made.push_back(computation.add(ir::Opcode::reshape, ir::Shape(dtype, joined), {turned}));
  }
  return made;
}

Result<Translator::Instructions> Translator::collective(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  Attributes attributes;
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.collective, groups_of(operation));
  const std::string_view name = base_name(operation.name);
  for (const std::string_view dim : {"all_gather_dim", "scatter_dimension", "split_dimension"}) {
    if (operation.find(dim) == nullptr) continue;
    PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t number, number_of(operation, dim));
    attributes.dimensions = {number};
  }
  if (name == "all_to_all") {
    PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t from, number_of(operation, "split_dimension"));
    PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t to, number_of(operation, "concat_dimension"));
    PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t pieces, number_of(operation, "split_count"));
    if (from != to) return moved_pieces(operation, list, std::move(attributes), from, to, pieces);
  }
  Computations called;
  if (!operation.regions.empty()) {
    PLIMSOLL_ASSIGN_OR_RETURN(ir::Computation* const combiner, region(operation, 0));
    called = {combiner};
  }
  std::string opcode(name);
  std::replace(opcode.begin(), opcode.end(), '_', '-');
  return several(operation, scope, opcode, std::move(list), std::move(attributes),
                 std::move(called));
}

// HLO's are 32-bit words.
Result<Translator::Instructions> Translator::partition(const Operation& operation, Scope& scope) {
  return one(operation, scope,
             base_name(operation.name) == "partition_id" ? "partition-id" : "replica-id", {});
}

// Operations that are not here have the same name in HLO, and no attributes.
const Translator::Row* Translator::find_row(std::string_view name) {
  using T = Translator;
  static const std::unordered_map<std::string_view, Row> rows = [] {
    std::unordered_map<std::string_view, Row> made;
    for (const Row& row : {
             Row{"constant", &T::constant},
             {"broadcast_in_dim", &T::broadcast_in_dim},
             {"broadcast", &T::broadcast},
             {"transpose", &T::dimensions},
             {"reverse", &T::dimensions},
             {"concatenate", &T::dimensions},
             {"iota", &T::dimensions},
             {"slice", &T::slice},
             {"dynamic_slice", &T::dynamic_slice},
             {"pad", &T::pad},
             {"compare", &T::compare},
             {"select", &T::select},
             {"reduce_precision", &T::reduce_precision},
             {"get_dimension_size", &T::get_dimension_size},
             {"gather", &T::gather},
             {"scatter", &T::scatter},
             {"dot", &T::dot},
             {"dot_general", &T::dot_general},
             {"convolution", &T::convolution},
             {"reduce", &T::reduce},
             {"reduce_window", &T::reduce_window},
             {"select_and_scatter", &T::select_and_scatter},
             {"sort", &T::sort},
             {"map", &T::map},
             {"rng", &T::rng},
             {"rng_bit_generator", &T::rng_bit_generator},
             {"tuple", &T::tuple},
             {"get_tuple_element", &T::get_tuple_element},
             {"optimization_barrier", &T::optimization_barrier},
             {"call", &T::call},
             {"composite", &T::composite},
             {"custom_call", &T::custom_call},
             {"batch_norm_training", &T::batch_norm},
             {"batch_norm_inference", &T::batch_norm},
             {"batch_norm_grad", &T::batch_norm},
             {"create_token", &T::token},
             {"fft", &T::fft},
             {"cholesky", &T::triangular},
             {"triangular_solve", &T::triangular},
             {"while", &T::while_loop},
             {"if", &T::conditional},
             {"case", &T::conditional},
             {"all_reduce", &T::collective},
             {"all_gather", &T::collective},
             {"all_to_all", &T::collective},
             {"reduce_scatter", &T::collective},
             {"collective_permute", &T::collective},
             {"collective_broadcast", &T::collective},
             {"partition_id", &T::partition},
             {"replica_id", &T::partition},
         }) {
      made.emplace(row.name, row);
    }
    return made;
  }();
  const auto found = rows.find(name);
  return found == rows.end() ? nullptr : &found->second;
}

}  // namespace plimsoll::vhlo
