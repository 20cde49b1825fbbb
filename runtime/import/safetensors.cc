// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/safetensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/ir/truths.h"

namespace plimsoll::import {
namespace {

using ir::DType;

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

struct ElementName {
  DType dtype;
  std::string_view name;
};
constexpr ElementName kElementNames[] = {{DType::pred, "BOOL"},
                                         {DType::u8, "U8"},
                                         {DType::s8, "I8"},
                                         {DType::f8e5m2, "F8_E5M2"},
                                         {DType::f8e4m3fn, "F8_E4M3"},
                                         {DType::f8e8m0fnu, "F8_E8M0"},
                                         {DType::s16, "I16"},
                                         {DType::u16, "U16"},
                                         {DType::f16, "F16"},
                                         {DType::bf16, "BF16"},
                                         {DType::s32, "I32"},
                                         {DType::u32, "U32"},
                                         {DType::f32, "F32"},
                                         {DType::c64, "C64"},
                                         {DType::f64, "F64"},
                                         {DType::s64, "I64"},
                                         {DType::u64, "U64"}};

struct Entry {
  std::string name, dtype;
  std::vector<std::uint64_t> shape, offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// Takes the events of the parser of the header, whose depth and keys are known: no tree, and no key
// that stands there twice goes unnoticed.
class HeaderReader {
 public:
  using Json = nlohmann::json;
  explicit HeaderReader(std::map<std::string, std::string>& metadata) : metadata_(metadata) {}

  const std::string& error() const { return error_; }
  std::vector<Entry>& entries() { return entries_; }

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool number_integer(std::int64_t) { return unexpected("a negative number"); }
  bool number_float(double, const std::string&) { return unexpected("a fraction"); }
  bool number_unsigned(std::uint64_t value) {
    if (where_ == Where::shape) {
      if (entry().shape.size() == static_cast<std::size_t>(ir::kMaxRank)) {
        return fail(fmt::format("'{}' has more than {} dims", entry().name, ir::kMaxRank));
      }
      entry().shape.push_back(value);
      return true;
    }
    if (where_ == Where::offsets) {
      if (entry().offsets.size() == 2)
        return fail("'" + entry().name + "' has more than two offsets");
      entry().offsets.push_back(value);
      return true;
    }
    return unexpected("a number");
  }
  bool string(std::string& value) {
    if (where_ == Where::metadata) {
      metadata_[key_] = value;
      return true;
    }
    if (where_ != Where::entry || key_ != "dtype") return unexpected("a string");
    if (std::exchange(entry().has_dtype, true)) return twice();
    entry().dtype = value;
    return true;
  }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(std::size_t) {
    if (where_ == Where::outside) {
      where_ = Where::header;
    } else if (where_ == Where::header && key_ == kMetadata) {
      where_ = Where::metadata;
      keys_.clear();
    } else if (where_ == Where::header) {
      where_ = Where::entry;
      entries_.emplace_back().name = key_;
    } else {
      return unexpected("an object");
    }
    return true;
  }
  bool key(std::string& name) {
    key_ = name;
    if (where_ == Where::header && !names_.insert(name).second) return twice();
    if (where_ == Where::metadata && !keys_.insert(name).second) return twice();
    if (where_ == Where::entry && name != "dtype" && name != "shape" && name != "data_offsets") {
      return fail("'" + entry().name + "' has a key '" + name + "'");
    }
    return true;
  }
  bool end_object() {
    where_ = where_ == Where::header ? Where::outside : Where::header;
    return true;
  }
  bool start_array(std::size_t) {
    if (where_ != Where::entry || key_ == "dtype") return unexpected("a list");
    const bool is_shape = key_ == "shape";
    if (std::exchange(is_shape ? entry().has_shape : entry().has_offsets, true)) return twice();
    where_ = is_shape ? Where::shape : Where::offsets;
    return true;
  }
  bool end_array() {
    where_ = Where::entry;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) {
    return fail(fmt::format("the header is no JSON at its byte {}", position));
  }

 private:
  enum class Where : std::uint8_t { outside, header, metadata, entry, shape, offsets };
  Entry& entry() { return entries_.back(); }
  bool fail(std::string what) {
    error_ = std::move(what);
    return false;
  }
  bool twice() { return fail("'" + key_ + "' stands in the header twice"); }
  bool unexpected(const char* what) {
    return fail(key_.empty() ? fmt::format("the header has {} where an object must be", what)
                             : fmt::format("the header has {} at '{}'", what, key_));
  }

  std::map<std::string, std::string>& metadata_;
  std::vector<Entry> entries_;
  std::set<std::string> names_, keys_;
  std::string key_, error_;
  Where where_ = Where::outside;
};

std::string_view name_of(DType dtype) {
  for (const ElementName& type : kElementNames) {
    if (type.dtype == dtype) return type.name;
  }
  return {};
}

// The entry's array within `data`.
Result<NamedArray> array_of(const Entry& entry, std::span<const std::byte> data) {
  const auto bad = [&](const std::string& what) {
    return invalid_argument("'" + entry.name + "' " + what);
  };
  if (!entry.has_dtype || !entry.has_shape || entry.offsets.size() != 2) {
    return bad("lacks dtype, shape or data_offsets");
  }
  const auto* type = std::find_if(std::begin(kElementNames), std::end(kElementNames),
                                  [&](const ElementName& one) { return one.name == entry.dtype; });
  if (type == std::end(kElementNames))
    return bad("has elements of " + entry.dtype + ", which are not known here");
  ir::Dims dims;
  for (const std::uint64_t dim : entry.shape) {
    if (dim > static_cast<std::uint64_t>(INT64_MAX)) return bad("is too large");
    dims.push_back(static_cast<std::int64_t>(dim));
  }
  if (!ir::fits_address_space(type->dtype, dims)) return bad("is too large");
  NamedArray array{entry.name, ir::Shape(type->dtype, dims), {}};
  const std::uint64_t first = entry.offsets[0], end = entry.offsets[1];
  if (first > end || end > data.size()) {
    return bad(fmt::format("lies at bytes {} to {} of {}", first, end, data.size()));
  }
  const auto bytes = static_cast<std::uint64_t>(array.shape.byte_size());
  if (end - first != bytes) {
    return bad(
        fmt::format("has {} bytes, {} takes {}", end - first, array.shape.to_string(), bytes));
  }
  array.bytes = data.subspan(first, bytes);
  if (type->dtype == DType::pred && !ir::are_truths(array.bytes)) {
    return bad("is BOOL and holds more than 0 and 1");
  }
  return array;
}

}  // namespace

Status parse_safetensors(std::span<const std::byte> bytes, std::string_view source,
                         NamedArrays& out) {
  const auto bad = [&](const std::string& what) {
    return invalid_argument(std::string(source) + ": " + what);
  };
  if (bytes.size() < kLengthBytes) return bad("not a safetensors file (shorter than 8 bytes)");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  if (length > kLongestHeader || length > bytes.size() - kLengthBytes) {
    return bad(
        fmt::format("not a safetensors file, or cut off: its header would have {} bytes, the "
                    "file has {}",
                    length, bytes.size()));
  }
  const char* const text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  if (length == 0 || *text != '{') return bad("the header does not begin with '{'");
  std::map<std::string, std::string> metadata;
  HeaderReader reader(metadata);
  if (!nlohmann::json::sax_parse(text, text + length, &reader)) {
    return bad(reader.error().empty() ? "the header cannot be understood" : reader.error());
  }
  const auto data = bytes.subspan(kLengthBytes + length);
  std::vector<NamedArray> arrays;
  for (const Entry& entry : reader.entries()) {
    auto array = array_of(entry, data);
    if (!array.ok()) return bad(array.status().message());
    arrays.push_back(*std::move(array));
  }
  // One after the other, without holes, as the format asks for: nothing hides between them.
  std::vector<const Entry*> order;
  for (const Entry& entry : reader.entries()) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(),
                   [](const Entry* a, const Entry* b) { return a->offsets < b->offsets; });
  std::uint64_t end = 0;
  for (const Entry* entry : order) {
    if (entry->offsets[0] != end) {
      return bad(fmt::format("'{}' begins at byte {}, the array before it ends at {}", entry->name,
                             entry->offsets[0], end));
    }
    end = entry->offsets[1];
  }
  if (end != data.size()) {
    return bad(fmt::format("{} bytes behind the last array", data.size() - end));
  }
  out.arrays = std::move(arrays);
  out.metadata = std::move(metadata);
  return ok_status();
}

Status lay_out_safetensors(std::span<const NamedArray> arrays,
                           const std::map<std::string, std::string>& metadata,
                           std::string_view path, std::deque<std::string>& made,
                           std::vector<std::span<const std::byte>>& pieces) {
  std::vector<const NamedArray*> order;
  for (const NamedArray& array : arrays) {
    const std::string where = std::string(path) + ": '" + array.name + "'";
    if (array.name == kMetadata) return invalid_argument(where + " is no name of an array");
    if (name_of(array.shape.dtype()).empty()) {
      return invalid_argument(where + " is " + array.shape.to_string() +
                              ", which safetensors has no name for");
    }
    order.push_back(&array);
  }
  std::sort(order.begin(), order.end(), [](const NamedArray* a, const NamedArray* b) {
    const int width_a = ir::dtype_bytes(a->shape.dtype()),
              width_b = ir::dtype_bytes(b->shape.dtype());
    return width_a != width_b ? width_a > width_b : a->name < b->name;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::uint64_t at = 0;
  for (const NamedArray* array : order) {
    const std::uint64_t end = at + array->bytes.size();
    header[array->name] = {{"dtype", name_of(array->shape.dtype())},
                           {"shape", array->shape.dims().to_vector()},
                           {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    return invalid_argument(std::string(path) + ": a name or a metadata value is no UTF-8");
  }
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  std::string length(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(text.size() >> (8 * i) & 255U);
  }
  made.push_back(length + text);
  pieces.push_back(std::as_bytes(std::span(made.back())));
  for (const NamedArray* array : order) pieces.push_back(array->bytes);
  return ok_status();
}

}  // namespace plimsoll::import
