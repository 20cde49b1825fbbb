// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/hlo_proto/literals.h"

#include <fmt/core.h>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/import/hlo_proto/fields.h"
#include "runtime/import/hlo_proto/shapes.h"
#include "runtime/ir/narrow.h"

namespace plimsoll::hlo_proto {
namespace {

using ir::DType;
using ir::Literal;
using ir::Shape;

static_assert(std::endian::native == std::endian::little, "values are copied as they are");

// Where the values of a dtype stand, and how.
struct Values {
  std::uint64_t field = 0;
  bool are_varints = false;  // else as in memory
};

Values values_of(DType dtype) {
  switch (dtype) {
    case DType::pred:
      return {2, true};
    case DType::u8:
      return {3};
    case DType::s32:
      return {4, true};
    case DType::s64:
      return {5, true};
    case DType::u32:
      return {6, true};
    case DType::u64:
      return {7, true};
    case DType::f32:
      return {8};
    case DType::f64:
      return {9};
    case DType::f16:
      return {11};
    case DType::c64:
      return {12};
    case DType::bf16:
      return {13};
    case DType::s8:
      return {15};
    case DType::u16:
      return {16};
    case DType::s16:
      return {17};
    case DType::c128:
      return {18};
    case DType::f8e5m2:
      return {19};
    case DType::f8e4m3fn:
      return {20};
    case DType::s4:
      return {21};
    case DType::u4:
      return {22};
    case DType::f8e4m3b11fnuz:
      return {23};
    case DType::f8e5m2fnuz:
      return {24};
    case DType::f8e4m3fnuz:
      return {25};
    case DType::s2:
      return {26};
    case DType::u2:
      return {27};
    case DType::f8e4m3:
      return {28};
    case DType::f8e3m4:
      return {29};
    case DType::f4e2m1fn:
      return {32};
    case DType::f8e8m0fnu:
      return {33};
  }
  return {};
}

// Fills an array piece by piece, and not beyond its end.
class Filler {
 public:
  Filler(std::span<std::byte> out, std::size_t width) : out_(out), width_(width) {}

  bool number(std::uint64_t value) { return bytes(&value, width_); }
  bool bytes(const void* from, std::size_t size) {
    if (size > out_.size()) return false;
    std::memcpy(out_.data(), from, size);
    out_ = out_.subspan(size);
    return true;
  }
  bool is_full() const { return out_.empty(); }

 private:
  std::span<std::byte> out_;
  std::size_t width_;
};

bool fill(const Field& field, Values values, bool is_truth, Filler& filler) {
  const auto number = [&](std::uint64_t value) {
    return filler.number(is_truth ? std::uint64_t{value != 0} : value);
  };
  if (field.kind == Field::Kind::number) {
    if (values.are_varints) return number(field.number);
    // A single f32 or f64, or a part of a complex one.
    return filler.bytes(&field.number, at(field.width));
  }
  if (!values.are_varints) return filler.bytes(field.bytes.data(), field.bytes.size());
  std::string_view left = field.bytes;
  while (!left.empty()) {
    std::uint64_t value = 0;
    if (!take_varint(left, value) || !number(value)) return false;
  }
  return true;
}

Result<Literal> read_array(std::string_view message, const Shape& shape) {
  const Values values = values_of(shape.dtype());
  const auto wrong = [&] {
    return invalid_argument("HLO proto: a constant's values are not as many as " +
                            shape.to_string() + " has");
  };
  if (ir::dtype_bits(shape.dtype()) < 8) {  // a byte for each, packed in memory
    std::string_view codes;
    PLIMSOLL_RETURN_IF_ERROR(read_fields(message, "a constant", {{values.field, &codes}}));
    if (codes.size() != at(shape.element_count())) return wrong();
    return Literal::from_bytes(shape,
                               ir::pack_codes(shape.dtype(), std::as_bytes(std::span(codes))));
  }
  const auto size = at(shape.byte_size());
  // The values in one piece, as they come unless a writer was unusual, are copied once.
  Message whole(message);
  for (Field field; !values.are_varints && whole.next(field);) {
    if (field.id != values.field || field.bytes.size() != size || size == 0) continue;
    return Literal::from_bytes(shape, std::as_bytes(std::span(field.bytes)));
  }
  // Each element takes a byte or more: no memory for what can't be there.
  if (at(shape.element_count()) > message.size()) return wrong();
  Literal literal(shape);
  Filler filler(literal.mutable_bytes(), at(ir::dtype_bytes(shape.dtype())));
  Message fields(message);
  for (Field field; fields.next(field);) {
    if (field.id != values.field) continue;
    if (!fill(field, values, shape.dtype() == DType::pred, filler)) return wrong();
  }
  if (fields.is_bad()) return broken("a constant");
  if (!filler.is_full()) return wrong();
  return literal;
}

}  // namespace

// As deep as the shape, which is bounded.
Result<Literal> read_literal(std::string_view message, const Shape& shape) {
  std::string_view own_shape;
  std::vector<std::string_view> parts;
  PLIMSOLL_RETURN_IF_ERROR(read_fields(message, "a constant", {{1, &own_shape}, {10, &parts}}));
  if (!own_shape.empty()) {
    PLIMSOLL_ASSIGN_OR_RETURN(const Shape own, read_shape(own_shape));
    if (!(own == shape)) {
      return invalid_argument("HLO proto: a constant of " + shape.to_string() + " holds " +
                              own.to_string());
    }
  }
  if (shape.is_array()) return read_array(message, shape);
  if (!shape.is_tuple()) return broken("a constant that is no array");
  if (parts.size() != shape.elements().size()) {
    return invalid_argument(fmt::format("HLO proto: a constant of {} has {} elements",
                                        shape.to_string(), parts.size()));
  }
  std::vector<Literal> elements;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(Literal element, read_literal(parts[i], shape.elements()[i]));
    elements.push_back(std::move(element));
  }
  return Literal::tuple(std::move(elements));
}

}  // namespace plimsoll::hlo_proto
