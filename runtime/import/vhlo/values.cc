// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/vhlo/values.h"

#include <bit>
#include <limits>
#include <optional>
#include <string>

#include "runtime/base/float16.h"
#include "runtime/ir/narrow.h"

namespace plimsoll::vhlo {
namespace {

using ir::DType;
using ir::Shape;

// Types and attributes hold each other no deeper than programs' do.
constexpr int kMostValueNesting = 32;

// The numbers of VHLO's encoding, which never change (StableHLO, VhloBytecode).
enum AttributeCode : int {
  kArray = 1,
  kBoolean = 2,
  kComparisonDirection = 3,
  kComparisonType = 4,
  kCustomCallApiVersion = 5,
  kDictionary = 6,
  kFftType = 7,
  kFloat = 8,
  kInteger = 9,
  kOutputOperandAlias = 10,
  kPrecision = 11,
  kRngAlgorithm = 12,
  kRngDistribution = 13,
  kString = 14,
  kTensor = 15,
  kTranspose = 16,
  kType = 17,
  kTypeExtensions = 18,
  kResultAccuracyMode = 19,
  kResultAccuracy = 20,
};

enum TypeCode : int {
  kComplex = 1,
  kFunction = 8,
  kRankedTensor = 20,
  kRankedTensorWithEncoding = 21,
  kToken = 22,
  kTuple = 23,
  kNone = 33,
};

struct ElementCode {
  int code;
  std::string_view name;  // HLO's
};
constexpr ElementCode kElements[] = {
    {0, "pred"},           {2, "bf16"},       {3, "f16"},  {4, "f32"},         {5, "f64"},
    {6, "f8e4m3fn"},       {7, "f8e5m2"},     {9, "s64"},  {10, "s4"},         {11, "s8"},
    {12, "s16"},           {13, "s32"},       {14, "s64"}, {15, "u4"},         {16, "u8"},
    {17, "u16"},           {18, "u32"},       {19, "u64"}, {27, "f8e4m3fnuz"}, {28, "f8e5m2fnuz"},
    {29, "f8e4m3b11fnuz"}, {31, "s2"},        {32, "u2"},  {35, "f8e4m3"},     {36, "f8e3m4"},
    {37, "f4e2m1fn"},      {40, "f8e8m0fnu"},
};

Status element_type(std::string_view name, Type& out) {
  const std::optional<DType> dtype = ir::parse_dtype(name);
  if (!dtype.has_value()) {
    return unimplemented("StableHLO: arrays of " + std::string(name) + " are not supported");
  }
  out.kind = Type::Kind::element;
  out.dtype = *dtype;
  return ok_status();
}

// The bits of a float as MLIR stores them: a byte as it is, wider ones as a signed number.
double float_of(DType dtype, std::int64_t bits) {
  switch (dtype) {
    case DType::f64:
      return std::bit_cast<double>(bits);
    case DType::f32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case DType::f16:
      return static_cast<float>(std::bit_cast<Float16>(static_cast<std::uint16_t>(bits)));
    case DType::bf16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits & 0xFFFF) << 16U);
    default:
      return ir::is_narrow(dtype) ? ir::narrow_number(dtype, static_cast<std::uint8_t>(bits))
                                  : std::numeric_limits<double>::quiet_NaN();
  }
}

}  // namespace

Values::Values(const Container& container)
    : container_(container),
      attributes_(container.attributes.size()),
      types_(container.types.size()) {}

// What refers to itself, over however many others, is too deep.
Result<const Attribute*> Values::attribute(std::size_t index) {
  if (index >= attributes_.size()) return broken("the number of an attribute");
  if (attributes_[index] == nullptr) {
    if (depth_ >= kMostValueNesting) return broken("an attribute that holds itself");
    ++depth_;
    auto made = std::make_unique<Attribute>();
    const Status status = read(container_.attributes[index], *made);
    --depth_;
    PLIMSOLL_RETURN_IF_ERROR(status);
    attributes_[index] = std::move(made);
  }
  return attributes_[index].get();
}

Result<const Type*> Values::type(std::size_t index) {
  if (index >= types_.size()) return broken("the number of a type");
  if (types_[index] == nullptr) {
    if (depth_ >= kMostValueNesting) return broken("a type that holds itself");
    ++depth_;
    auto made = std::make_unique<Type>();
    const Status status = read(container_.types[index], *made);
    --depth_;
    PLIMSOLL_RETURN_IF_ERROR(status);
    types_[index] = std::move(made);
  }
  return types_[index].get();
}

Result<const Attribute*> Values::attribute_of(Cursor& cursor) {
  return attribute(static_cast<std::size_t>(cursor.varint()));
}

Result<const Type*> Values::type_of(Cursor& cursor) {
  return type(static_cast<std::size_t>(cursor.varint()));
}

Status Values::read(const Container::Entry& entry, Attribute& out) {
  const std::string_view dialect = container_.dialects[entry.dialect];
  Cursor cursor(entry.bytes);
  out.kind = Attribute::Kind::unknown;
  if (!entry.is_encoded) return ok_status();
  if (dialect == "builtin") return read_builtin(cursor, out);
  if (dialect != "vhlo" && dialect != "sdy") return ok_status();
  PLIMSOLL_RETURN_IF_ERROR(dialect == "vhlo" ? read_vhlo(cursor, out) : read_shardy(cursor, out));
  return cursor.is_bad() ? broken("an attribute") : ok_status();
}

Status Values::read_text(Cursor& cursor, Attribute& out) {
  const std::size_t index = cursor.index(container_.strings.size());
  if (cursor.is_bad()) return broken("a string");
  out.text = container_.strings[index];
  return ok_status();
}

Status Values::read_elements(Cursor& cursor, std::vector<const Attribute*>& out) {
  const std::size_t count = cursor.count();
  for (std::size_t i = 0; i < count && !cursor.is_bad(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(const Attribute* const element, attribute_of(cursor));
    out.push_back(element);
  }
  return ok_status();
}

// Shardy's attributes by their numbers, which never change (Shardy, bytecode.td): names are texts,
// sizes numbers, and what holds others has them as elements. A sharding has its mesh, or the mesh's
// name, as the first element and its dimensions behind that, and last the axes along which
// partitions hold summands, of which its number says how many there are; a dimension has the number
// 1 where it is left open. Which axes hold copies, and priorities, mean nothing here.
Status Values::read_shardy(Cursor& cursor, Attribute& out) {
  enum : std::uint64_t {
    kManualAxes = 0,
    kMeshAxis = 1,
    kMesh = 2,
    kSubAxis = 3,
    kAxisRef = 4,
    kDimension = 5,
    kTensor = 6,
    kPerValue = 7,
    kTensorUnreduced = 15,
    kPerValueUnreduced = 16,
    kTensorUnreducedBy = 17,
  };
  const std::uint64_t code = cursor.varint();
  out.kind = Attribute::Kind::shardy;
  switch (code) {
    case kManualAxes:
    case kPerValue:
    case kPerValueUnreduced:
      return read_elements(cursor, out.elements);
    case kDimension:
      PLIMSOLL_RETURN_IF_ERROR(read_elements(cursor, out.elements));
      out.number = cursor.byte() == 0 ? 1 : 0;
      return ok_status();
    case kMeshAxis:
      PLIMSOLL_RETURN_IF_ERROR(read_text(cursor, out));
      out.number = cursor.signed_varint();
      return ok_status();
    case kMesh: {
      PLIMSOLL_RETURN_IF_ERROR(read_elements(cursor, out.elements));
      const std::size_t count = cursor.count();
      for (std::size_t i = 0; i < count && !cursor.is_bad(); ++i) {
        out.numbers.push_back(cursor.signed_varint());
      }
      return ok_status();
    }
    case kSubAxis:
      out.numbers = {cursor.signed_varint(), cursor.signed_varint()};
      return ok_status();
    case kAxisRef: {
      PLIMSOLL_RETURN_IF_ERROR(read_text(cursor, out));
      // With the lowest bit set there is a part of the axis.
      const std::uint64_t coded = cursor.varint();
      if ((coded & 1U) == 0) return ok_status();
      PLIMSOLL_ASSIGN_OR_RETURN(const Attribute* const part,
                                attribute(static_cast<std::size_t>(coded >> 1U)));
      out.elements.push_back(part);
      return ok_status();
    }
    case kTensor:
    case kTensorUnreduced:
    case kTensorUnreducedBy: {
      PLIMSOLL_ASSIGN_OR_RETURN(const Attribute* const mesh, attribute_of(cursor));
      out.elements.push_back(mesh);
      PLIMSOLL_RETURN_IF_ERROR(read_elements(cursor, out.elements));
      if (code == kTensor) return ok_status();
      std::vector<const Attribute*> copies, unreduced;
      PLIMSOLL_RETURN_IF_ERROR(read_elements(cursor, copies));
      PLIMSOLL_RETURN_IF_ERROR(read_elements(cursor, unreduced));
      out.number = static_cast<std::int64_t>(unreduced.size());
      out.elements.insert(out.elements.end(), unreduced.begin(), unreduced.end());
      return ok_status();
    }
    default:
      out.kind = Attribute::Kind::unknown;
      return ok_status();
  }
}

// Of MLIR's own attributes those that the module around VHLO's functions has, and what operations
// have beside their properties.
Status Values::read_builtin(Cursor& cursor, Attribute& out) {
  constexpr std::uint64_t kBuiltinDictionary = 1, kBuiltinString = 2, kBuiltinSymbol = 4,
                          kBuiltinInteger = 8;
  const std::uint64_t code = cursor.varint();
  if (code == kBuiltinDictionary) return read_dictionary(cursor, out);
  if (code == kBuiltinSymbol) {
    PLIMSOLL_ASSIGN_OR_RETURN(const Attribute* const name, attribute_of(cursor));
    out.kind = Attribute::Kind::text;
    out.text = name->text;
    return ok_status();
  }
  if (code == kBuiltinInteger) {
    // Its type, and a number of more than a byte, as counts are.
    (void)cursor.varint();
    out.kind = Attribute::Kind::number;
    out.number = cursor.signed_varint();
    return ok_status();
  }
  if (code != kBuiltinString) return ok_status();
  out.kind = Attribute::Kind::text;
  return read_text(cursor, out);
}

Status Values::read_dictionary(Cursor& cursor, Attribute& out) {
  out.kind = Attribute::Kind::dictionary;
  const std::size_t count = cursor.count();
  for (std::size_t i = 0; i < count && !cursor.is_bad(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(const Attribute* const key, attribute_of(cursor));
    PLIMSOLL_ASSIGN_OR_RETURN(const Attribute* const value, attribute_of(cursor));
    out.entries.emplace_back(key, value);
  }
  return cursor.is_bad() ? broken("a dictionary") : ok_status();
}

// A type, and then perhaps a value of it: a byte as it is, wider numbers as signed ones.
Status Values::read_typed(int code, Cursor& cursor, Attribute& out) {
  using Kind = Attribute::Kind;
  PLIMSOLL_ASSIGN_OR_RETURN(out.type, type_of(cursor));
  if (code == kType) {
    out.kind = Kind::type;
    return ok_status();
  }
  if (code == kTensor) {
    if (out.type->kind != Type::Kind::array) return broken("a constant");
    out.kind = Kind::tensor;
    out.text = cursor.take(cursor.count());
    return ok_status();
  }
  const bool is_byte =
      out.type->kind == Type::Kind::element && ir::dtype_bytes(out.type->dtype) == 1;
  out.kind = code == kFloat ? Kind::floating : Kind::number;
  out.number = is_byte ? cursor.byte() : cursor.signed_varint();
  if (code == kFloat) out.real = float_of(out.type->dtype, out.number);
  return ok_status();
}

Status Values::read_vhlo(Cursor& cursor, Attribute& out) {
  using Kind = Attribute::Kind;
  const std::uint64_t code = cursor.varint();
  switch (code) {
    case kArray: {
      out.kind = Kind::list;
      const std::size_t count = cursor.count();
      for (std::size_t i = 0; i < count && !cursor.is_bad(); ++i) {
        PLIMSOLL_ASSIGN_OR_RETURN(const Attribute* const element, attribute_of(cursor));
        out.elements.push_back(element);
      }
      return ok_status();
    }
    case kDictionary:
      return read_dictionary(cursor, out);
    case kBoolean:
      out.kind = Kind::boolean;
      out.number = cursor.varint() != 0 ? 1 : 0;
      return ok_status();
    case kComparisonDirection:
    case kComparisonType:
    case kCustomCallApiVersion:
    case kFftType:
    case kPrecision:
    case kRngAlgorithm:
    case kRngDistribution:
    case kTranspose:
    case kResultAccuracyMode:
      out.kind = Kind::number;
      out.number = static_cast<std::int64_t>(cursor.varint());
      return ok_status();
    case kFloat:
    case kInteger:
    case kTensor:
    case kType:
      return read_typed(static_cast<int>(code), cursor, out);
    case kString: {
      out.kind = Kind::text;
      const std::size_t index = cursor.index(container_.strings.size());
      if (!cursor.is_bad()) out.text = container_.strings[index];
      return ok_status();
    }
    case kOutputOperandAlias:
    case kTypeExtensions:
    case kResultAccuracy:
      out.kind = Kind::unknown;
      return ok_status();
    default:
      return unimplemented("StableHLO: attributes of kind " + std::to_string(code) +
                           " (the file is newer than this reader, " +
                           std::string(container_.producer) + ")");
  }
}

Status Values::read(const Container::Entry& entry, Type& out) {
  const std::string_view dialect = container_.dialects[entry.dialect];
  out.kind = Type::Kind::unknown;
  if (!entry.is_encoded || dialect != "vhlo") return ok_status();
  Cursor cursor(entry.bytes);
  PLIMSOLL_RETURN_IF_ERROR(read_vhlo(cursor, out));
  return cursor.is_bad() ? broken("a type") : ok_status();
}

Status Values::read_list(Cursor& cursor, std::vector<const Type*>& out) {
  const std::size_t count = cursor.count();
  for (std::size_t i = 0; i < count && !cursor.is_bad(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(const Type* const one, type_of(cursor));
    out.push_back(one);
  }
  return ok_status();
}

// An encoding says how much of a dim may be there: it bounds dims of no fixed size, which there
// are none of here.
Status Values::read_array(Cursor& cursor, bool has_encoding, Type& out) {
  if (has_encoding) (void)cursor.varint();
  const std::size_t rank = cursor.count();
  if (rank > static_cast<std::size_t>(ir::kMaxRank)) {
    return unimplemented("StableHLO: an array of rank " + std::to_string(rank) + " (at most " +
                         std::to_string(ir::kMaxRank) + ")");
  }
  std::vector<std::int64_t> dims(rank);
  for (std::int64_t& dim : dims) {
    dim = cursor.signed_varint();
    if (dim < 0) {
      return unimplemented(
          "StableHLO: an array with a dim of no fixed size (export with concrete shapes)");
    }
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const Type* const element, type_of(cursor));
  if (cursor.is_bad() || element->kind != Type::Kind::element) return broken("an array type");
  out.kind = Type::Kind::array;
  out.dtype = element->dtype;
  if (!ir::fits_address_space(element->dtype, dims)) {
    return invalid_argument("StableHLO: an array too large for any memory");
  }
  out.shape = Shape(element->dtype, dims);
  return ok_status();
}

Status Values::read_tuple(Cursor& cursor, Type& out) {
  constexpr std::int64_t kMostParts = 1 << 16;
  out.kind = Type::Kind::tuple;
  PLIMSOLL_RETURN_IF_ERROR(read_list(cursor, out.elements));
  std::vector<Shape> elements;
  for (const Type* const element : out.elements) {
    out.parts += element->parts;
    if (out.parts > kMostParts) return broken("a tuple type");
    elements.push_back(element->shape);
  }
  out.shape = Shape::tuple(std::move(elements));
  return ok_status();
}

Status Values::read_complex(Cursor& cursor, Type& out) {
  PLIMSOLL_ASSIGN_OR_RETURN(const Type* const part, type_of(cursor));
  return element_type(part->dtype == DType::f64 ? "c128" : "c64", out);
}

Status Values::read_vhlo(Cursor& cursor, Type& out) {
  using Kind = Type::Kind;
  const std::uint64_t code = cursor.varint();
  for (const ElementCode& element : kElements) {
    if (static_cast<std::uint64_t>(element.code) == code) return element_type(element.name, out);
  }
  switch (code) {
    case kComplex:
      return read_complex(cursor, out);
    case kFunction:
      out.kind = Kind::function;
      PLIMSOLL_RETURN_IF_ERROR(read_list(cursor, out.elements));
      return read_list(cursor, out.results);
    case kRankedTensor:
      return read_array(cursor, false, out);
    case kRankedTensorWithEncoding:
      return read_array(cursor, true, out);
    case kToken:
      out.kind = Kind::token;
      out.shape = Shape::token();
      return ok_status();
    case kTuple:
      return read_tuple(cursor, out);
    case kNone:
      out.kind = Kind::none;
      return ok_status();
    default:
      out.kind = Kind::unknown;  // an error for who needs it
      return ok_status();
  }
}

}  // namespace plimsoll::vhlo
