// SPDX-License-Identifier: Apache-2.0
// Constants, and operations whose results' elements each come from a few of their operands'.
#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/import/vhlo/translator.h"
#include "runtime/ir/narrow.h"
#include "runtime/ir/truths.h"

namespace plimsoll::vhlo {

using ir::Attributes;
using ir::Instruction;
using ir::Shape;

namespace {

// HLO's spelling of most operations.
std::string hyphenated(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

// What lies as it does here; of narrow dtypes there is a byte for each element, and of truths one
// that is not 0.
ir::Literal literal_of(const Shape& shape, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  if (ir::is_narrow(shape.dtype())) {
    return ir::Literal::from_bytes(shape, ir::pack_codes(shape.dtype(), bytes));
  }
  ir::Literal literal = ir::Literal::from_bytes(shape, bytes);
  if (shape.dtype() == ir::DType::pred) ir::make_truths(literal.mutable_bytes());
  return literal;
}

// The value of a constant whose elements are not all one. Truths are bits, or bytes.
Result<ir::Literal> dense_literal(const Operation& operation, const Shape& shape,
                                  std::string_view bytes) {
  const auto count = at(shape.element_count());
  if (bytes.size() == count * at(ir::dtype_bytes(shape.dtype()))) return literal_of(shape, bytes);
  if (shape.dtype() != ir::DType::pred || bytes.size() != (count + 7) / 8) {
    return wrong(operation);
  }
  ir::Literal literal(shape);
  const std::span<std::byte> out = literal.mutable_bytes();
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<std::byte>(static_cast<unsigned char>(bytes[i / 8]) >> (i % 8) & 1U);
  }
  return literal;
}

}  // namespace

Result<Translator::Instructions> Translator::by_name(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  if (!operation.regions.empty()) {
    return unimplemented("StableHLO: the operation '" + std::string(base_name(operation.name)) +
                         "' is not supported");
  }
  return one(operation, scope, hyphenated(base_name(operation.name)), std::move(list));
}

// One element for all is a scalar that is broadcast: nothing as large as the result is kept. Of
// truths a byte of zeros or ones says so, too.
Result<Translator::Instructions> Translator::constant(const Operation& operation, Scope& scope) {
  const Attribute* const value = operation.find("value");
  if (value == nullptr || value->kind != Attribute::Kind::tensor || operation.results.size() != 1 ||
      !(value->type->shape == operation.results[0]->type->shape)) {
    return wrong(operation);
  }
  const Shape& shape = value->type->shape;
  const std::string_view bytes = value->text;
  const bool is_pred = shape.dtype() == ir::DType::pred;
  const bool is_same_truth = is_pred && bytes.size() == 1 &&
                             (bytes[0] == 0 || static_cast<unsigned char>(bytes[0]) == 255);
  const bool is_one = bytes.size() == at(ir::dtype_bytes(shape.dtype())) &&
                      (!is_pred || is_same_truth || shape.element_count() > 8);
  if (shape.element_count() != 1 && is_one) {
    const Shape scalar(shape.dtype(), {});
    ir::Literal literal = literal_of(scalar, bytes);
    Instruction* const element = scope.computation->add_constant(std::move(literal));
    return one(operation, scope, "broadcast", {element});
  }
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Literal literal, dense_literal(operation, shape, bytes));
  return Instructions{scope.computation->add_constant(std::move(literal))};
}

// HLO's broadcast leaves dims as they are: those of one that grow go first.
Result<Translator::Instructions> Translator::broadcast_in_dim(const Operation& operation,
                                                              Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction * from, operand(operation, 0, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto given, numbers_of(operation, "broadcast_dimensions"));
  if (operation.results.size() != 1) return wrong(operation);
  const Shape& shape = from->shape();
  const Shape& result = operation.results[0]->type->shape;
  if (!result.is_array() || !shape.is_array() || at(shape.rank()) != given.size())
    return wrong(operation);
  Attributes attributes;
  std::vector<std::int64_t> kept;
  for (int i = 0; i < shape.rank(); ++i) {
    const std::int64_t dim = given[at(i)];
    if (dim < 0 || dim >= result.rank()) return wrong(operation);
    if (shape.dim(i) == 1 && result.dim(static_cast<int>(dim)) != 1) continue;
    kept.push_back(shape.dim(i));
    attributes.dimensions.push_back(dim);
  }
  if (kept.size() < given.size()) {
    const Shape smaller(shape.dtype(), kept);
    from = scope.computation->add(ir::Opcode::reshape, smaller, {from});
  }
  return one(operation, scope, "broadcast", {from}, std::move(attributes));
}

Result<Translator::Instructions> Translator::broadcast(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const from, operand(operation, 0, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto sizes, numbers_of(operation, "broadcast_sizes"));
  if (!from->shape().is_array()) return wrong(operation);
  Attributes attributes;
  for (int i = 0; i < from->shape().rank(); ++i) {
    attributes.dimensions.push_back(static_cast<std::int64_t>(sizes.size()) + i);
  }
  return one(operation, scope, "broadcast", {from}, std::move(attributes));
}

// Of which HLO knows the dims by another name.
Result<Translator::Instructions> Translator::dimensions(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  const std::string_view name = base_name(operation.name);
  Attributes attributes;
  if (name == "transpose") {
    PLIMSOLL_ASSIGN_OR_RETURN(attributes.dimensions, numbers_of(operation, "permutation"));
  } else if (name == "reverse") {
    PLIMSOLL_ASSIGN_OR_RETURN(attributes.dimensions, numbers_of(operation, "dimensions"));
  } else {
    PLIMSOLL_ASSIGN_OR_RETURN(
        const std::int64_t dim,
        number_of(operation, name == "iota" ? "iota_dimension" : "dimension"));
    attributes.dimensions = {dim};
  }
  return one(operation, scope, name, std::move(list), std::move(attributes));
}

Result<Translator::Instructions> Translator::slice(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  Attributes attributes;
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.slice_starts, numbers_of(operation, "start_indices"));
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.slice_limits, numbers_of(operation, "limit_indices"));
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.slice_strides, numbers_of(operation, "strides"));
  return one(operation, scope, "slice", std::move(list), std::move(attributes));
}

Result<Translator::Instructions> Translator::dynamic_slice(const Operation& operation,
                                                           Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  Attributes attributes;
  PLIMSOLL_ASSIGN_OR_RETURN(attributes.slice_sizes, numbers_of(operation, "slice_sizes"));
  return one(operation, scope, "dynamic-slice", std::move(list), std::move(attributes));
}

Result<Translator::Instructions> Translator::pad(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto low, numbers_of(operation, "edge_padding_low"));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto high, numbers_of(operation, "edge_padding_high"));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto interior, numbers_of(operation, "interior_padding"));
  if (low.size() != high.size() || low.size() != interior.size()) return wrong(operation);
  Attributes attributes;
  for (std::size_t i = 0; i < low.size(); ++i) {
    attributes.padding.push_back({low[i], high[i], interior[i]});
  }
  return one(operation, scope, "pad", std::move(list), std::move(attributes));
}

Result<Translator::Instructions> Translator::compare(const Operation& operation, Scope& scope) {
  constexpr ir::ComparisonDirection kDirections[] = {
      ir::ComparisonDirection::eq, ir::ComparisonDirection::ne, ir::ComparisonDirection::ge,
      ir::ComparisonDirection::gt, ir::ComparisonDirection::le, ir::ComparisonDirection::lt};
  constexpr std::int64_t kTotalOrder = 2;
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto direction, number_of(operation, "comparison_direction"));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto type, number_of(operation, "compare_type"));
  if (direction < 0 || direction >= static_cast<std::int64_t>(std::size(kDirections))) {
    return wrong(operation);
  }
  Attributes attributes;
  attributes.comparison_direction = kDirections[direction];
  if (type == kTotalOrder) attributes.comparison_order = ir::ComparisonOrder::total;
  return one(operation, scope, "compare", std::move(list), std::move(attributes));
}

// A scalar predicate chooses for all elements.
Result<Translator::Instructions> Translator::select(const Operation& operation, Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  if (operation.results.size() != 1) return wrong(operation);
  const Shape& result = operation.results[0]->type->shape;
  if (!list.empty() && list[0]->shape().is_scalar() && result.is_array() && !result.is_scalar()) {
    list[0] = scope.computation->add(ir::Opcode::broadcast,
                                     Shape(list[0]->shape().dtype(), result.dims()), {list[0]});
  }
  return one(operation, scope, "select", std::move(list));
}

Result<Translator::Instructions> Translator::reduce_precision(const Operation& operation,
                                                              Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instructions list, operands(operation, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto exponent, number_of(operation, "exponent_bits"));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto mantissa, number_of(operation, "mantissa_bits"));
  if (exponent < 1 || exponent > 64 || mantissa < 0 || mantissa > 64) return wrong(operation);
  Attributes attributes;
  attributes.exponent_bits = static_cast<int>(exponent);
  attributes.mantissa_bits = static_cast<int>(mantissa);
  return one(operation, scope, "reduce-precision", std::move(list), std::move(attributes));
}

// All sizes are known.
Result<Translator::Instructions> Translator::get_dimension_size(const Operation& operation,
                                                                Scope& scope) {
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const from, operand(operation, 0, scope));
  PLIMSOLL_ASSIGN_OR_RETURN(const auto dim, number_of(operation, "dimension"));
  if (!from->shape().is_array() || dim < 0 || dim >= from->shape().rank()) {
    return wrong(operation);
  }
  const auto size = static_cast<std::int32_t>(from->shape().dim(static_cast<int>(dim)));
  return Instructions{scope.computation->add_constant(ir::Literal::scalar(size))};
}

}  // namespace plimsoll::vhlo
