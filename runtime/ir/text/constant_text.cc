// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/text/constant_text.h"

#include <fmt/core.h>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

namespace plimsoll::ir {
namespace {

// Arrays above this size whose elements are all equal print as the one element.
constexpr std::int64_t kMaxPrintedSplat = 64;

template <typename T>
constexpr bool kIsFloat =
    std::is_floating_point_v<T> || std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

template <typename T>
struct FloatFormat;
template <>
struct FloatFormat<Float16> {
  using Bits = std::uint16_t;
  static constexpr int mantissa_bits = 10;
};
template <>
struct FloatFormat<Bfloat16> {
  using Bits = std::uint16_t;
  static constexpr int mantissa_bits = 7;
};
template <>
struct FloatFormat<float> {
  using Bits = std::uint32_t;
  static constexpr int mantissa_bits = 23;
};
template <>
struct FloatFormat<double> {
  using Bits = std::uint64_t;
  static constexpr int mantissa_bits = 52;
};

template <typename T>
constexpr typename FloatFormat<T>::Bits mantissa_mask() {
  using Bits = typename FloatFormat<T>::Bits;
  return static_cast<Bits>((Bits{1} << FloatFormat<T>::mantissa_bits) - 1);
}
template <typename T>
constexpr typename FloatFormat<T>::Bits sign_mask() {
  using Bits = typename FloatFormat<T>::Bits;
  return static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
}
template <typename T>
constexpr typename FloatFormat<T>::Bits exponent_mask() {
  using Bits = typename FloatFormat<T>::Bits;
  return static_cast<Bits>(~(mantissa_mask<T>() | sign_mask<T>()));
}

// A decimal number as the nearest float or double; empty when it is none or too large.
template <typename Wide>
std::optional<Wide> read_decimal(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  Wide value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (stop != end || code == std::errc::invalid_argument) return std::nullopt;
  if (code == std::errc::result_out_of_range) {
    // Too small to represent is zero; too large is an error.
    const auto exponent = text.find_first_of("eE");
    const bool is_small = exponent != std::string_view::npos
                              ? text.substr(exponent + 1).starts_with('-')
                              : text.substr(text.front() == '-' ? 1 : 0).starts_with("0.");
    if (!is_small) return std::nullopt;
    value = text.front() == '-' ? -Wide{0} : Wide{0};
  }
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

template <typename T>
Status read_float(Cursor& cursor, T& out) {
  using Bits = typename FloatFormat<T>::Bits;
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const std::size_t start = cursor.position();
  const std::string_view text = cursor.take_number();
  std::string_view body = text;
  const bool negative = body.starts_with('-');
  if (negative) body.remove_prefix(1);
  Bits bits = negative ? sign_mask<T>() : Bits{0};
  if (body == "inf") {
    out = std::bit_cast<T>(static_cast<Bits>(bits | exponent_mask<T>()));
    return ok_status();
  }
  if (body == "nan") {
    Bits payload = static_cast<Bits>(Bits{1} << (FloatFormat<T>::mantissa_bits - 1));
    if (cursor.peek_raw() == '(') {
      cursor.take('(');
      const std::string_view hex = cursor.take_word();
      std::uint64_t value = 0;
      const char* const end = hex.data() + hex.size();
      if (!hex.starts_with("0x") || std::from_chars(hex.data() + 2, end, value, 16).ptr != end ||
          value == 0 || value > mantissa_mask<T>()) {
        return cursor.error_at(start, "expected a NaN payload such as nan(0x1) that fits " +
                                          std::string(to_string(DTypeOf<T>::value)));
      }
      payload = static_cast<Bits>(value);
      PLIMSOLL_RETURN_IF_ERROR(cursor.expect(')', "after the NaN payload"));
    }
    out = std::bit_cast<T>(static_cast<Bits>(bits | exponent_mask<T>() | payload));
    return ok_status();
  }
  const std::optional<Wide> value = read_decimal<Wide>(text);
  if (value.has_value()) {
    out = T(*value);
    if ((std::bit_cast<Bits>(out) & exponent_mask<T>()) != exponent_mask<T>()) return ok_status();
  }
  cursor.rewind(start);
  return cursor.expected("a number that fits " + std::string(to_string(DTypeOf<T>::value)));
}

template <typename T>
Status read_element(Cursor& cursor, T& out) {
  if constexpr (kIsFloat<T>) {
    return read_float(cursor, out);
  } else {
    const std::size_t start = cursor.position();
    const std::string_view text = cursor.take_number();
    if (text == "true" || text == "false") {
      out = static_cast<T>(text == "true");
      return ok_status();
    }
    using Number = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    Number value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, value);
    if (text.empty() || stop != end || code != std::errc() ||
        (std::is_same_v<T, bool> && value > 1)) {
      cursor.rewind(start);
      return cursor.expected("a value that fits " + std::string(to_string(DTypeOf<T>::value)));
    }
    out = static_cast<T>(value);
    return ok_status();
  }
}

// A complex number: its parts in brackets.
template <typename T>
struct Complex {
  T real, imaginary;
};

template <typename T>
Status read_element(Cursor& cursor, Complex<T>& out) {
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('(', "before the parts of a complex number"));
  PLIMSOLL_RETURN_IF_ERROR(read_float(cursor, out.real));
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect(',', "between the parts of a complex number"));
  PLIMSOLL_RETURN_IF_ERROR(read_float(cursor, out.imaginary));
  return cursor.expect(')', "after the parts of a complex number");
}

// As visit_dtype, complex dtypes included.
template <typename F>
decltype(auto) visit_elements(DType dtype, F&& f) {
  if (dtype == DType::c64) return f(Complex<float>{});
  if (dtype == DType::c128) return f(Complex<double>{});
  return visit_dtype(dtype, f);
}

template <typename T>
Status read_elements(Cursor& cursor, const Dims& dims, int depth, T*& next) {
  if (depth == dims.size()) return read_element(cursor, *next++);
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('{', "before the values of a dimension"));
  for (std::int64_t i = 0; i < dims[depth]; ++i) {
    if (i > 0) {
      PLIMSOLL_RETURN_IF_ERROR(
          cursor.expect(',', fmt::format("between the {} values of a dimension", dims[depth])));
    }
    PLIMSOLL_RETURN_IF_ERROR(read_elements(cursor, dims, depth + 1, next));
  }
  return cursor.expect('}', fmt::format("after the {} values of a dimension", dims[depth]));
}

// The values of an array without elements: braces and commas of any form, kept balanced.
Status read_no_elements(Cursor& cursor) {
  std::int64_t depth = 0;
  do {
    if (cursor.take('{')) {
      ++depth;
    } else if (depth > 0 && cursor.take('}')) {
      --depth;
    } else if (depth == 0 || !cursor.take(',')) {
      return cursor.expected("braces around no values");
    }
  } while (depth > 0);
  return ok_status();
}

Result<Literal> read_array(Cursor& cursor, const Shape& shape, std::int64_t& splat_bytes) {
  const std::size_t start = cursor.position();
  const std::int64_t count = shape.element_count();
  if (count == 0) {
    PLIMSOLL_RETURN_IF_ERROR(read_no_elements(cursor));
    return Literal(shape);
  }
  const bool is_splat = shape.rank() > 0 && cursor.peek() != '{';
  if (is_splat) {
    if (shape.byte_size() > splat_bytes) {
      return cursor.error_at(start, fmt::format("expected at most {} more bytes of constants with "
                                                "one value, found {} (use broadcast)",
                                                splat_bytes, shape.to_string()));
    }
    splat_bytes -= shape.byte_size();
  } else if (static_cast<std::uint64_t>(count) > cursor.remaining()) {
    return cursor.error_at(
        start, fmt::format("expected {} values for {}, found a text shorter than that", count,
                           shape.to_string()));
  }
  Literal literal(shape);
  Status status = visit_elements(shape.dtype(), [&](auto tag) -> Status {
    using T = decltype(tag);
    T* next = literal.mutable_data<T>();
    if (!is_splat) return read_elements(cursor, shape.dims(), 0, next);
    PLIMSOLL_RETURN_IF_ERROR(read_element(cursor, *next));
    for (std::int64_t i = 1; i < count; ++i) next[i] = next[0];
    return ok_status();
  });
  if (!status.ok()) return status;
  return literal;
}

template <typename T>
void print_element(std::string& out, T value) {
  char digits[64];
  if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (kIsFloat<T>) {
    using Bits = typename FloatFormat<T>::Bits;
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const Bits bits = std::bit_cast<Bits>(value);
    if ((bits & exponent_mask<T>()) == exponent_mask<T>()) {
      if ((bits & sign_mask<T>()) != 0) out += "-";
      const Bits payload = bits & mantissa_mask<T>();
      out += payload == 0 ? "inf" : "nan";
      if (payload != 0 && payload != Bits{1} << (FloatFormat<T>::mantissa_bits - 1)) {
        out += "(0x";
        out.append(digits, std::to_chars(digits, digits + sizeof digits,
                                         static_cast<std::uint64_t>(payload), 16)
                               .ptr);
        out += ")";
      }
      return;
    }
    out.append(digits, std::to_chars(digits, digits + sizeof digits, static_cast<Wide>(value)).ptr);
  } else {
    out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }
}

template <typename T>
void print_element(std::string& out, Complex<T> value) {
  out += "(";
  print_element(out, value.real);
  out += ", ";
  print_element(out, value.imaginary);
  out += ")";
}

template <typename T>
void print_elements(std::string& out, const Dims& dims, int depth, const T*& next) {
  if (depth == dims.size()) return print_element(out, *next++);
  out += "{";
  for (std::int64_t i = 0; i < dims[depth]; ++i) {
    if (i > 0) out += ", ";
    print_elements(out, dims, depth + 1, next);
  }
  out += "}";
}

void print_literal(std::string& out, const Literal& literal, std::int64_t most_elements) {
  const Shape& shape = literal.shape();
  if (literal.is_elided()) {
    out += "{...}";
    return;
  }
  if (shape.is_tuple()) {
    out += "(";
    for (std::size_t i = 0; i < literal.elements().size(); ++i) {
      if (i > 0) out += ", ";
      print_literal(out, literal.elements()[i], most_elements);
    }
    out += ")";
    return;
  }
  if (!shape.is_array()) return;
  const std::int64_t count = shape.element_count();
  if (count > most_elements) {
    out += "{...}";
  } else if (count == 0) {
    out += "{}";
  } else {
    visit_elements(shape.dtype(), [&](auto tag) {
      using T = decltype(tag);
      const T* next = literal.data<T>();
      if (count > kMaxPrintedSplat && literal.is_splat()) return print_element(out, *next);
      print_elements(out, shape.dims(), 0, next);
    });
  }
}

}  // namespace

Result<Literal> read_literal(Cursor& cursor, const Shape& shape, std::int64_t& splat_bytes) {
  const std::size_t start = cursor.position();
  if (cursor.take('{') && cursor.take("...")) {
    PLIMSOLL_RETURN_IF_ERROR(cursor.expect('}', "after '...'"));
    return Literal::elided(shape);
  }
  cursor.rewind(start);
  if (shape.is_array()) return read_array(cursor, shape, splat_bytes);
  if (!shape.is_tuple()) return cursor.expected("a constant of an array or tuple shape");
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('(', "before the elements of a tuple constant"));
  std::vector<Literal> elements;
  for (const Shape& element : shape.elements()) {
    if (!elements.empty()) {
      PLIMSOLL_RETURN_IF_ERROR(cursor.expect(',', "between the elements of a tuple constant"));
    }
    PLIMSOLL_ASSIGN_OR_RETURN(Literal literal, read_literal(cursor, element, splat_bytes));
    elements.push_back(std::move(literal));
  }
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect(')', "after the elements of a tuple constant"));
  Literal literal = Literal::tuple(std::move(elements));
  return literal;
}

std::string literal_text(const Literal& literal, std::int64_t most_elements) {
  std::string text;
  print_literal(text, literal, most_elements);
  return text;
}

}  // namespace plimsoll::ir
