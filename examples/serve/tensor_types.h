// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/plimsoll.h"

namespace plimsoll::examples::serve {

// A datatype of the Open Inference Protocol and the dtype that it stands for.
struct TensorType {
  std::string_view name;  // "FP32"
  plm_dtype dtype;
  std::size_t bytes;  // of an element
  bool in_json;       // else elements travel as bytes alone
};

// Null for a name, or a dtype, that has none. Static.
const TensorType* find_type(std::string_view name);
const TensorType* find_type(plm_dtype dtype);

// `[2,3]`
std::string shape_text(std::span<const std::int64_t> shape);

// A number as JSON has it.
struct JsonNumber {
  enum class Kind : std::uint8_t { boolean, negative, natural, real } kind = Kind::natural;
  std::int64_t negative = 0;  // at most zero, and zero stands for -0
  std::uint64_t natural = 0;  // also of booleans
  double real = 0;
  std::string_view text;  // of a real number, as it was written
};

// Writes it as an element to `to`, which need not be aligned. False where the type can't say it.
bool store(const TensorType& type, const JsonNumber& number, std::byte* to);

// The most bytes that append_json makes of that many elements.
std::size_t most_json_bytes(const TensorType& type, std::size_t elements);

// Appends the elements, with commas between, so that the same bits come back where they are read
// as this type. False where there is NaN or infinity, which JSON has not.
bool append_json(const TensorType& type, std::span<const std::byte> elements, std::string& out);

}  // namespace plimsoll::examples::serve
