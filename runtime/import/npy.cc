// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/npy.h"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/atomic_file.h"
#include "runtime/base/file.h"
#include "runtime/base/index.h"
#include "runtime/ir/narrow.h"
#include "runtime/ir/truths.h"

namespace plimsoll::import {
namespace {

using ir::Dims;
using ir::DType;
using ir::Literal;
using ir::Shape;

constexpr std::string_view kMagic = "\x93NUMPY";

struct TypeName {
  DType dtype;
  std::string_view code;
};
constexpr TypeName kTypes[] = {{DType::pred, "b1"}, {DType::s8, "i1"},   {DType::s16, "i2"},
                               {DType::s32, "i4"},  {DType::s64, "i8"},  {DType::u8, "u1"},
                               {DType::u16, "u2"},  {DType::u32, "u4"},  {DType::u64, "u8"},
                               {DType::f16, "f2"},  {DType::bf16, "V2"}, {DType::f32, "f4"},
                               {DType::f64, "f8"},  {DType::c64, "c8"},  {DType::c128, "c16"}};

struct Header {
  std::string_view descr;
  bool fortran_order = false;
  Dims dims;
};

// The value of `'key': ` in the Python dictionary `text`, up to the end.
std::optional<std::string_view> value_of(std::string_view text, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = quote + std::string(key) + quote;
    const auto at = text.find(quoted);
    if (at == std::string_view::npos) continue;
    std::string_view rest = text.substr(at + quoted.size());
    const auto value = rest.find_first_not_of(": ");
    if (value != std::string_view::npos) return rest.substr(value);
  }
  return std::nullopt;
}

std::optional<Header> parse_header(std::string_view text) {
  Header header;
  const auto descr = value_of(text, "descr");
  const auto order = value_of(text, "fortran_order");
  auto shape = value_of(text, "shape");
  if (!descr || !order || !shape || descr->size() < 2) return std::nullopt;
  const char quote = descr->front();
  const auto end = descr->find(quote, 1);
  if ((quote != '\'' && quote != '"') || end == std::string_view::npos) return std::nullopt;
  header.descr = descr->substr(1, end - 1);
  header.fortran_order = order->starts_with("True");
  if (!header.fortran_order && !order->starts_with("False")) return std::nullopt;
  if (!shape->starts_with("(")) return std::nullopt;
  shape->remove_prefix(1);
  for (;;) {
    const auto next = shape->find_first_not_of(" ,");
    if (next == std::string_view::npos) return std::nullopt;
    shape->remove_prefix(next);
    if (shape->front() == ')') return header;
    std::int64_t size = 0;
    const auto [stop, code] = std::from_chars(shape->data(), shape->data() + shape->size(), size);
    if (code != std::errc() || size < 0 || header.dims.size() == ir::kMaxRank) return std::nullopt;
    header.dims.push_back(size);
    shape->remove_prefix(static_cast<std::size_t>(stop - shape->data()));
  }
}

// Narrow dtypes have a byte for each element: integers as those of a byte, floats as their codes.
std::string type_code(DType dtype) {
  if (ir::is_narrow(dtype)) {
    if (ir::is_floating(dtype)) return "|V1";
    return ir::dtype_class(dtype) == ir::DTypeClass::signed_int ? "|i1" : "|u1";
  }
  std::string text;
  for (const TypeName& type : kTypes) {
    if (type.dtype != dtype) continue;
    text = ir::dtype_bytes(dtype) == 1 ? "|" : "<";
    text += type.code;
  }
  return text;
}

// Elements in column-major order to row-major order.
std::vector<std::byte> to_row_major(std::span<const std::byte> data, const Dims& dims,
                                    std::size_t element) {
  std::vector<std::byte> out(data.size());
  std::vector<std::int64_t> index(at(dims.size()), 0);
  std::vector<std::int64_t> strides(index.size(), 1);
  for (std::size_t i = 1; i < index.size(); ++i) {
    strides[i] = strides[i - 1] * dims[static_cast<int>(i) - 1];
  }
  for (std::size_t to = 0; to < out.size(); to += element) {
    std::int64_t from = 0;
    for (std::size_t i = 0; i < index.size(); ++i) from += index[i] * strides[i];
    std::memcpy(out.data() + to, data.data() + static_cast<std::size_t>(from) * element, element);
    for (std::size_t i = index.size(); i-- > 0;) {
      if (++index[i] < dims[static_cast<int>(i)]) break;
      index[i] = 0;
    }
  }
  return out;
}

}  // namespace

Result<Literal> parse_npy(std::span<const std::byte> bytes, std::string_view source) {
  const auto bad = [&](const std::string& what) {
    return invalid_argument(std::string(source) + ": " + what);
  };
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < 12) return bad("not an .npy file");
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(bytes[i]); };
  const std::size_t version = byte(6);
  if (version < 1 || version > 3) {
    return bad(fmt::format(".npy version {} (1, 2 and 3 are known)", version));
  }
  const std::size_t start = version == 1 ? 10 : 12;
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > text.size() - start) return bad("the .npy header is cut off");
  const std::optional<Header> header = parse_header(text.substr(start, length));
  if (!header) return bad("the .npy header cannot be understood");
  std::string_view code = header->descr;
  const bool swapped = code.starts_with('>');
  if (!code.empty() && std::string_view("<>|=").find(code.front()) != std::string_view::npos) {
    code.remove_prefix(1);
  }
  if (code == "?") code = "b1";
  if (code == "bfloat16") code = "V2";
  if (code == "V1") code = "u1";  // codes
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const TypeName& name) { return name.code == code; });
  if (type == std::end(kTypes)) {
    return bad("element type '" + std::string(header->descr) + "' is not supported");
  }
  if (!ir::fits_address_space(type->dtype, header->dims)) return bad("the array is too large");
  const Shape shape(type->dtype, header->dims);
  const auto data = bytes.subspan(start + length);
  if (data.size() != static_cast<std::size_t>(shape.byte_size())) {
    return bad(fmt::format("expected {} bytes of data for {}, found {}", shape.byte_size(),
                           shape.to_string(), data.size()));
  }
  const auto element = static_cast<std::size_t>(ir::dtype_bytes(type->dtype));
  Literal literal = Literal::from_bytes(
      shape, header->fortran_order && shape.rank() > 1
                 ? std::span<const std::byte>(to_row_major(data, header->dims, element))
                 : data);
  const auto out = literal.mutable_bytes();
  if (swapped) {  // of a complex number each part by itself
    const auto part = static_cast<std::size_t>(ir::dtype_bytes(ir::part_dtype(type->dtype)));
    for (std::size_t i = 0; i < out.size(); i += part) {
      std::reverse(out.begin() + static_cast<std::ptrdiff_t>(i),
                   out.begin() + static_cast<std::ptrdiff_t>(i + part));
    }
  }
  if (type->dtype == DType::pred) ir::make_truths(out);
  return literal;
}

Result<Literal> read_npy(const std::string& path) {
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  return parse_npy(std::as_bytes(std::span(text)), path);
}

std::string npy_bytes(const Literal& literal) {
  const Shape& shape = literal.shape();
  std::string header = "{'descr': '" + type_code(shape.dtype());
  header += "', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < shape.rank(); ++i) {
    header += std::to_string(shape.dim(i)) + (i + 1 < shape.rank() || shape.rank() == 1 ? "," : "");
    if (i + 1 < shape.rank()) header += " ";
  }
  header += "), }";
  // Data starts at a multiple of 64 bytes.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string text(kMagic);
  text += '\x01';
  text += '\x00';
  text += static_cast<char>(header.size() & 255u);
  text += static_cast<char>(header.size() >> 8);
  text += header;
  std::span<const std::byte> data = literal.bytes();
  std::vector<std::byte> codes;
  if (ir::is_narrow(shape.dtype())) {
    codes = ir::unpack_codes(shape.dtype(), data, shape.element_count());
    data = codes;
  }
  text.append(reinterpret_cast<const char*>(data.data()), data.size());
  return text;
}

Status write_npy(const std::string& path, const Literal& literal) {
  const std::string text = npy_bytes(literal);
  const std::span<const std::byte> all = std::as_bytes(std::span(text));
  return write_atomically(path, std::span(&all, 1));
}

}  // namespace plimsoll::import
