// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/tensor_types.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>

namespace plimsoll::examples::serve {
namespace {

constexpr TensorType kTypes[] = {
    {"BOOL", PLM_PRED, 1, true},  {"INT8", PLM_S8, 1, true},    {"INT16", PLM_S16, 2, true},
    {"INT32", PLM_S32, 4, true},  {"INT64", PLM_S64, 8, true},  {"UINT8", PLM_U8, 1, true},
    {"UINT16", PLM_U16, 2, true}, {"UINT32", PLM_U32, 4, true}, {"UINT64", PLM_U64, 8, true},
    {"FP16", PLM_F16, 2, false},  {"BF16", PLM_BF16, 2, false}, {"FP32", PLM_F32, 4, true},
    {"FP64", PLM_F64, 8, true},
};

// Calls `body` with a value of the C++ type of the elements. Precondition: in_json.
template <typename Body>
auto with_type(plm_dtype dtype, Body&& body) {
  switch (dtype) {
    case PLM_PRED:
      return body(bool());
    case PLM_S8:
      return body(std::int8_t());
    case PLM_S16:
      return body(std::int16_t());
    case PLM_S32:
      return body(std::int32_t());
    case PLM_S64:
      return body(std::int64_t());
    case PLM_U8:
      return body(std::uint8_t());
    case PLM_U16:
      return body(std::uint16_t());
    case PLM_U32:
      return body(std::uint32_t());
    case PLM_U64:
      return body(std::uint64_t());
    case PLM_F64:
      return body(double());
    default:
      return body(float());
  }
}

template <typename T>
bool convert(const JsonNumber& number, T& value) {
  using Kind = JsonNumber::Kind;
  if constexpr (std::is_same_v<T, bool>) {
    const bool fits = number.kind == Kind::boolean || number.kind == Kind::natural;
    value = number.natural != 0;
    return fits && number.natural <= 1;
  } else if (number.kind == Kind::boolean) {
    return false;
  } else if constexpr (std::is_integral_v<T>) {
    if (number.kind == Kind::real) return false;
    if (number.kind == Kind::negative) {
      value = static_cast<T>(number.negative);
      return std::is_signed_v<T> &&
             number.negative >= static_cast<std::int64_t>(std::numeric_limits<T>::min());
    }
    value = static_cast<T>(number.natural);
    return number.natural <= static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  } else {
    switch (number.kind) {
      case Kind::negative:
        value = number.negative == 0 ? -T(0) : static_cast<T>(number.negative);
        return true;
      case Kind::natural:
        value = static_cast<T>(number.natural);
        return true;
      default: {
        // From the text: what was rounded to a double first could round to another float.
        const auto [end, code] =
            std::from_chars(number.text.data(), number.text.data() + number.text.size(), value);
        if (code != std::errc::result_out_of_range) return code == std::errc();
        if (std::abs(number.real) > 1) return false;
        value = static_cast<T>(number.real);  // too small to be told from zero
        return true;
      }
    }
  }
}

template <typename T>
bool append(std::span<const std::byte> elements, std::string& out) {
  std::array<char, 32> digits;
  for (std::size_t at = 0; at + sizeof(T) <= elements.size(); at += sizeof(T)) {
    T value;
    if (at != 0) out += ',';
    if constexpr (std::is_same_v<T, bool>) {
      out += elements[at] == std::byte{0} ? "false" : "true";
    } else {
      std::memcpy(&value, elements.data() + at, sizeof value);
      if constexpr (std::is_floating_point_v<T>) {
        if (!std::isfinite(value)) return false;
        // Many readers would take -0 for an integer, which has no sign.
        if (value == 0 && std::signbit(value)) {
          out += "-0.0";
          continue;
        }
      }
      const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value);
      out.append(digits.data(), written.ptr);
    }
  }
  return true;
}

}  // namespace

const TensorType* find_type(std::string_view name) {
  for (const TensorType& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

const TensorType* find_type(plm_dtype dtype) {
  for (const TensorType& type : kTypes) {
    if (type.dtype == dtype) return &type;
  }
  return nullptr;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t dim : shape) text += (text.size() == 1 ? "" : ",") + std::to_string(dim);
  return text + "]";
}

bool store(const TensorType& type, const JsonNumber& number, std::byte* to) {
  return with_type(type.dtype, [&](auto value) {
    if (!convert(number, value)) return false;
    std::memcpy(to, &value, sizeof value);
    return true;
  });
}

std::size_t most_json_bytes(const TensorType& type, std::size_t elements) {
  const std::size_t most = with_type(type.dtype, [](auto value) -> std::size_t {
    using T = decltype(value);
    if constexpr (std::is_same_v<T, bool>) return std::size("false") - 1;
    // Sign, point, 'e', sign and three digits of the exponent beside those of the number.
    if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::max_digits10 + 7;
    return std::numeric_limits<T>::digits10 + 2;
  });
  return elements * (most + 1);  // a comma
}

bool append_json(const TensorType& type, std::span<const std::byte> elements, std::string& out) {
  return with_type(type.dtype, [&](auto value) { return append<decltype(value)>(elements, out); });
}

}  // namespace plimsoll::examples::serve
