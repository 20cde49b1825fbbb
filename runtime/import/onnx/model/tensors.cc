// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/onnx/model/tensors.h"

#include <charconv>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/import/onnx/model/model.h"
#include "runtime/import/wire/wire.h"
#include "runtime/ir/truths.h"

namespace plimsoll::onnx {
namespace {

using ir::DType;
using ir::Literal;
using ir::Shape;

struct ElementType {
  const char* name;
  std::optional<DType> dtype;
};

// By the standard's numbers (TensorProto.DataType).
const ElementType kElementTypes[] = {
    {"UNDEFINED", {}},
    {"FLOAT", DType::f32},
    {"UINT8", DType::u8},
    {"INT8", DType::s8},
    {"UINT16", DType::u16},
    {"INT16", DType::s16},
    {"INT32", DType::s32},
    {"INT64", DType::s64},
    {"STRING", {}},
    {"BOOL", DType::pred},
    {"FLOAT16", DType::f16},
    {"DOUBLE", DType::f64},
    {"UINT32", DType::u32},
    {"UINT64", DType::u64},
    {"COMPLEX64", DType::c64},
    {"COMPLEX128", DType::c128},
    {"BFLOAT16", DType::bf16},
    {"FLOAT8E4M3FN", DType::f8e4m3fn},
    {"FLOAT8E4M3FNUZ", DType::f8e4m3fnuz},
    {"FLOAT8E5M2", DType::f8e5m2},
    {"FLOAT8E5M2FNUZ", DType::f8e5m2fnuz},
    {"UINT4", DType::u4},
    {"INT4", DType::s4},
    {"FLOAT4E2M1", DType::f4e2m1fn},
    {"FLOAT8E8M0", DType::f8e8m0fnu},
    {"UINT2", DType::u2},
    {"INT2", DType::s2},
};

bool add_numbers(const wire::Field& field, std::vector<std::uint64_t>& numbers) {
  if (field.kind == wire::Field::Kind::number) {
    numbers.push_back(field.number);
    return true;
  }
  std::string_view left = field.bytes;
  for (std::uint64_t value = 0; !left.empty();) {
    if (!wire::take_varint(left, value)) return false;
    numbers.push_back(value);
  }
  return true;
}

// The field that holds the values of a dtype where they are not raw, by the standard: float_data,
// int32_data, int64_data, double_data or uint64_data.
std::uint64_t field_of_values(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::c64:
      return 4;
    case DType::s64:
      return 7;
    case DType::f64:
    case DType::c128:
      return 10;
    case DType::u32:
    case DType::u64:
      return 11;
    default:
      return 5;
  }
}

// The bytes of floating numbers, packed or one by one, in the order of the wire, which is memory's.
void add_bytes(const wire::Field& field, std::string& bytes) {
  if (field.kind == wire::Field::Kind::bytes) {
    bytes.append(field.bytes);
    return;
  }
  for (int i = 0; i < field.width; ++i) {
    bytes.push_back(static_cast<char>(field.number >> (8 * i)));
  }
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

bool lies_well(const Shape& shape, std::string_view bytes) {
  const auto size = static_cast<std::uintptr_t>(ir::dtype_bytes(ir::part_dtype(shape.dtype())));
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % size == 0;
}

// What a mapped file has, read from there; copied while somebody reads it where it does not lie as
// its elements want it.
Literal in_file(const Shape& shape, std::shared_ptr<const void> file, std::string_view bytes) {
  if (lies_well(shape, bytes)) return Literal::borrowed(shape, std::move(file), as_bytes(bytes));
  return Literal::deferred(shape, [file = std::move(file), bytes](std::span<std::byte> to) {
    std::memcpy(to.data(), bytes.data(), to.size());
  });
}

Literal from_numbers(const Shape& shape, const std::vector<std::uint64_t>& numbers) {
  Literal literal(shape);
  const auto bytes = literal.mutable_bytes();
  if (ir::dtype_bits(shape.dtype()) < 8) {  // int32_data holds a byte of packed codes each
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(numbers[i]);
    return literal;
  }
  const auto width = at(ir::dtype_bytes(shape.dtype()));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint64_t number =
        shape.dtype() == DType::pred ? static_cast<std::uint64_t>(numbers[i] != 0) : numbers[i];
    std::memcpy(bytes.data() + i * width, &number, width);
  }
  return literal;
}

}  // namespace

Result<DType> dtype_of(std::int64_t element) {
  if (element <= 0 || element >= std::ssize(kElementTypes)) {
    return invalid_argument("element type " + std::to_string(element) + " is not of the standard");
  }
  const ElementType& type = kElementTypes[element];
  if (type.dtype.has_value()) return *type.dtype;
  return unimplemented(std::string("elements of type ") + type.name +
                       " (programs hold numbers only)");
}

std::int64_t element_of(DType dtype) {
  for (std::int64_t i = 0; i < std::ssize(kElementTypes); ++i) {
    if (kElementTypes[i].dtype == dtype) return i;
  }
  return 0;
}

Result<Literal> TensorFiles::read(std::string_view message) {
  std::string_view name, raw;
  std::vector<std::int64_t> dims;
  std::int64_t element = 0, location = 0;
  std::vector<std::string_view> external_entries;
  std::vector<std::uint64_t> numbers;  // of int32_data, int64_data and uint64_data
  std::string floating;                // of float_data and double_data, as memory has it
  std::vector<std::uint64_t> holding;  // the fields that these were in
  bool is_good = true;
  wire::Message fields(message);
  for (wire::Field field; is_good && fields.next(field);) {
    switch (field.id) {
      case 1: {
        std::vector<std::uint64_t> sizes;
        is_good = add_numbers(field, sizes);
        for (const std::uint64_t n : sizes) dims.push_back(static_cast<std::int64_t>(n));
        break;
      }
      case 2:
        element = static_cast<std::int64_t>(field.number);
        break;
      case 4:
      case 10:
        holding.push_back(field.id);
        add_bytes(field, floating);
        break;
      case 5:
      case 7:
      case 11:
        holding.push_back(field.id);
        is_good = add_numbers(field, numbers);
        break;
      case 8:
        name = field.bytes;
        break;
      case 9:
        raw = field.bytes;
        break;
      case 13:
        external_entries.push_back(field.bytes);
        break;
      case 14:
        location = static_cast<std::int64_t>(field.number);
        break;
      default:
        break;
    }
  }
  const std::string what = "tensor '" + std::string(name) + "'";
  if (!is_good || fields.is_bad()) return broken(what);
  auto dtype = dtype_of(element);
  if (!dtype.ok()) return dtype.status().with_context(what);
  if (dims.size() > at(ir::kMaxRank)) {
    return unimplemented(what + ": " + std::to_string(dims.size()) + " dimensions (at most " +
                         std::to_string(ir::kMaxRank) + ")");
  }
  if (!ir::fits_address_space(*dtype, ir::Dims(dims))) return broken("the shape of " + what);
  const Shape shape(*dtype, dims);
  const auto size = at(shape.byte_size());
  if (location == 1) {
    Place place;
    for (const std::string_view entry : external_entries) {
      std::string_view key, value;
      if (!wire::read_fields(entry, {{1, &key}, {2, &value}})) return broken(what);
      if (key == "location") place.location = value;
      if (key == "offset") place.offset = value;
      if (key == "length") place.length = value;
    }
    return external(shape, place, what);
  }
  const auto held = [&](std::size_t bytes) {
    return invalid_argument(what + ": holds " + std::to_string(bytes) + " bytes, " +
                            shape.to_string() + " has " + std::to_string(size));
  };
  if (raw.data() != nullptr && (!raw.empty() || size == 0)) {
    if (raw.size() != size) return held(raw.size());
    if (*dtype == DType::pred && !ir::are_truths(as_bytes(raw)))
      return broken("the values of " + what);
    if (owner_ != nullptr && size > 0) return in_file(shape, owner_, raw);
    return Literal::from_bytes(shape, as_bytes(raw));
  }
  for (const std::uint64_t field : holding) {
    if (field == field_of_values(*dtype)) continue;
    return invalid_argument(what + ": its values stand in field " + std::to_string(field) +
                            " (must be raw, or in field " +
                            std::to_string(field_of_values(*dtype)) + " for " +
                            std::string(ir::to_string(*dtype)) + ")");
  }
  if (!floating.empty()) {
    if (floating.size() != size) return held(floating.size());
    return Literal::from_bytes(shape, as_bytes(floating));
  }
  const std::size_t wanted = ir::dtype_bits(*dtype) < 8 ? size : at(shape.element_count());
  if (ir::is_complex(*dtype) || numbers.size() != wanted) {
    return invalid_argument(what + ": holds " + std::to_string(numbers.size()) + " numbers, " +
                            shape.to_string() + " has " + std::to_string(wanted));
  }
  return from_numbers(shape, numbers);
}

Result<Literal> TensorFiles::external(const Shape& shape, const Place& place,
                                      const std::string& what) {
  const std::filesystem::path location{std::string(place.location)};
  const auto number = [](std::string_view text, std::uint64_t missing, std::uint64_t& value) {
    value = missing;
    if (text.empty()) return true;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && stop == text.data() + text.size();
  };
  if (!folder_.has_value()) {
    return invalid_argument(what + ": its values are in the file '" + location.string() +
                            "' beside the model (load the model by its path)");
  }
  const auto leaves = [](const std::filesystem::path& path) {
    if (path.empty() || path.is_absolute()) return true;
    for (const auto& part : path) {
      if (part == "..") return true;
    }
    return false;
  };
  if (leaves(location)) {
    return invalid_argument(what + ": external data at '" + location.string() +
                            "' (must be a relative path within the model's folder)");
  }
  const std::filesystem::path folder(folder_->empty() ? std::string(".") : *folder_);
  const std::string path = (folder / location).string();
  // Not by a link out of the folder either.
  std::error_code error;
  const auto real = std::filesystem::weakly_canonical(path, error);
  const auto home = std::filesystem::weakly_canonical(folder, error);
  if (!error && leaves(real.lexically_relative(home))) {
    return invalid_argument(what + ": external data at '" + location.string() +
                            "' is a link that leaves the model's folder");
  }
  auto& file = files_[path];
  if (file == nullptr) {
    auto opened = MappedFile::open(path);
    if (!opened.ok()) return opened.status().with_context(what);
    file = std::move(*opened);
  }
  const std::string_view bytes = file->bytes();
  std::uint64_t offset = 0, length = 0;
  if (!number(place.offset, 0, offset) || !number(place.length, at(shape.byte_size()), length)) {
    return broken("the place of " + what + " in its file");
  }
  if (length != at(shape.byte_size()) || offset > bytes.size() || length > bytes.size() - offset) {
    return invalid_argument(what + ": " + shape.to_string() + " at offset " +
                            std::to_string(offset) + ", length " + std::to_string(length) + " of " +
                            path + ", which has " + std::to_string(bytes.size()) + " bytes");
  }
  const std::string_view values = bytes.substr(offset, length);
  if (shape.dtype() == DType::pred && !ir::are_truths(as_bytes(values))) {
    return broken("the values of " + what);
  }
  if (!values.empty()) return in_file(shape, file, values);
  return Literal::from_bytes(shape, as_bytes(values));
}

}  // namespace plimsoll::onnx
