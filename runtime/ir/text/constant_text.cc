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
#include <utility>

#include "runtime/base/index.h"
#include "runtime/ir/narrow.h"

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

// The payload behind `nan`, in brackets, if there is one.
Status read_payload(Cursor& cursor, std::size_t start, DType dtype, std::uint64_t most,
                    std::uint64_t& payload) {
  if (cursor.peek_raw() != '(') return ok_status();
  cursor.take('(');
  const std::string_view hex = cursor.take_word();
  const char* const end = hex.data() + hex.size();
  if (!hex.starts_with("0x") || std::from_chars(hex.data() + 2, end, payload, 16).ptr != end ||
      payload == 0 || payload > most) {
    return cursor.error_at(start, "expected a NaN payload such as nan(0x1) that fits " +
                                      std::string(to_string(dtype)));
  }
  return cursor.expect(')', "after the NaN payload");
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
    std::uint64_t payload = Bits{1} << (FloatFormat<T>::mantissa_bits - 1);
    PLIMSOLL_RETURN_IF_ERROR(
        read_payload(cursor, start, DTypeOf<T>::value, mantissa_mask<T>(), payload));
    out =
        std::bit_cast<T>(static_cast<Bits>(bits | exponent_mask<T>() | static_cast<Bits>(payload)));
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

// Whether a number is beyond the largest of a format that has nothing else for it.
bool saturates(DType dtype, double value) {
  const NarrowFormat format = narrow_format(dtype);
  return format.special == SpecialCodes::none &&
         std::abs(value) > narrow_number(dtype, static_cast<std::uint8_t>(format.magnitude_mask()));
}

bool has_infinity(DType dtype) {
  return is_floating(dtype) && narrow_format(dtype).special == SpecialCodes::ieee;
}

// Of a narrow dtype: a number within its range.
Status read_code(Cursor& cursor, DType dtype, std::uint8_t& out) {
  const std::size_t start = cursor.position();
  const std::string_view text = cursor.take_number();
  const bool is_negative = text.starts_with('-');
  const std::string_view body = text.substr(is_negative ? 1 : 0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  std::optional<double> value;
  if (!is_floating(dtype)) {
    int whole = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, whole);
    if (!text.empty() && stop == end && code == std::errc()) value = whole;
    if (text == "true" || text == "false") value = text == "true" ? 1 : 0;
  } else if (body == "nan") {
    value = std::copysign(kNan, is_negative ? -1.0 : 1.0);
  } else if (body == "inf" && has_infinity(dtype)) {
    value = is_negative ? -kInfinity : kInfinity;
  } else {
    value = read_decimal<float>(text);
  }
  if (value.has_value()) {
    out = narrow_code(dtype, *value);
    const float read = narrow_number(dtype, out);
    const bool fits = is_floating(dtype)
                          ? std::isnan(*value) == std::isnan(read) &&
                                std::isinf(*value) == std::isinf(read) && !saturates(dtype, *value)
                          : read == *value;
    if (fits) {
      if (body != "nan" || !has_infinity(dtype)) return ok_status();
      const std::uint8_t most =
          static_cast<std::uint8_t>((1U << narrow_format(dtype).mantissa_bits) - 1);
      std::uint64_t payload = out & most;
      PLIMSOLL_RETURN_IF_ERROR(read_payload(cursor, start, dtype, most, payload));
      out = static_cast<std::uint8_t>((out & ~most) | payload);
      return ok_status();
    }
  }
  cursor.rewind(start);
  return cursor.expected("a value that fits " + std::string(to_string(dtype)));
}

// Calls `f` with what reads one element after the other from a cursor into `literal`.
template <typename F>
Status with_reader(Literal& literal, F&& f) {
  const DType dtype = literal.shape().dtype();
  if (is_narrow(dtype)) {
    return f([dtype, index = std::int64_t{0},
              bytes = literal.mutable_bytes()](Cursor& cursor) mutable -> Status {
      std::uint8_t code = 0;
      PLIMSOLL_RETURN_IF_ERROR(read_code(cursor, dtype, code));
      set_code_at(dtype, bytes, index++, code);
      return ok_status();
    });
  }
  const auto typed = [&](auto tag) {
    return f([next = literal.mutable_data<decltype(tag)>()](Cursor& cursor) mutable {
      return read_element(cursor, *next++);
    });
  };
  if (dtype == DType::c64) return typed(Complex<float>{});
  if (dtype == DType::c128) return typed(Complex<double>{});
  return visit_dtype(dtype, typed);
}

// Makes every element the first one.
void repeat_first(Literal& literal) {
  const Shape& shape = literal.shape();
  const std::span<std::byte> bytes = literal.mutable_bytes();
  if (is_narrow(shape.dtype())) {
    const std::uint8_t code = code_at(shape.dtype(), bytes, 0);
    for (std::int64_t i = 1; i < shape.element_count(); ++i) {
      set_code_at(shape.dtype(), bytes, i, code);
    }
    return;
  }
  const auto size = at(dtype_bytes(shape.dtype()));
  for (std::size_t i = size; i < bytes.size(); ++i) bytes[i] = bytes[i - size];
}

template <typename Read>
Status read_elements(Cursor& cursor, const Dims& dims, int depth, Read& read) {
  if (depth == dims.size()) return read(cursor);
  PLIMSOLL_RETURN_IF_ERROR(cursor.expect('{', "before the values of a dimension"));
  for (std::int64_t i = 0; i < dims[depth]; ++i) {
    // Braces separate rows well enough: texts that people have written leave the comma out.
    if (i > 0 && !cursor.take(',') && (depth + 1 == dims.size() || cursor.peek() != '{')) {
      return cursor.expected(fmt::format("',' between the {} values of a dimension", dims[depth]));
    }
    PLIMSOLL_RETURN_IF_ERROR(read_elements(cursor, dims, depth + 1, read));
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
  Status status = with_reader(literal, [&](auto read) -> Status {
    return is_splat ? read(cursor) : read_elements(cursor, shape.dims(), 0, read);
  });
  if (is_splat) repeat_first(literal);
  if (!status.ok()) return status;
  return literal;
}

void print_payload(std::string& out, std::uint64_t payload) {
  char digits[64];
  out += "(0x";
  out.append(digits, std::to_chars(digits, digits + sizeof digits, payload, 16).ptr);
  out += ")";
}

void print_code(std::string& out, DType dtype, std::uint8_t code) {
  const float value = narrow_number(dtype, code);
  if (std::isnan(value)) {
    const NarrowFormat format = narrow_format(dtype);
    const bool has_sign =
        format.special == SpecialCodes::ieee || format.special == SpecialCodes::last_is_nan;
    if (has_sign && code > format.magnitude_mask()) out += "-";
    out += "nan";
    const std::uint32_t payload = code & ((1U << format.mantissa_bits) - 1);
    if (has_infinity(dtype) && payload != 1U << (format.mantissa_bits - 1)) {
      print_payload(out, payload);
    }
    return;
  }
  char digits[64];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
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
        print_payload(out, payload);
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

// An element of an array of any dtype.
void print_element(std::string& out, const Literal& literal, std::int64_t index) {
  const DType dtype = literal.shape().dtype();
  if (is_narrow(dtype)) {
    return print_code(out, dtype, code_at(dtype, literal.bytes(), index));
  }
  const auto typed = [&](auto tag) { print_element(out, literal.data<decltype(tag)>()[index]); };
  if (dtype == DType::c64) return typed(Complex<float>{});
  if (dtype == DType::c128) return typed(Complex<double>{});
  visit_dtype(dtype, typed);
}

void print_elements(std::string& out, const Literal& literal, int depth, std::int64_t& next) {
  const Dims& dims = literal.shape().dims();
  if (depth == dims.size()) return print_element(out, literal, next++);
  out += "{";
  for (std::int64_t i = 0; i < dims[depth]; ++i) {
    if (i > 0) out += ", ";
    print_elements(out, literal, depth + 1, next);
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
    if (count > kMaxPrintedSplat && literal.is_splat()) return print_element(out, literal, 0);
    std::int64_t next = 0;
    print_elements(out, literal, 0, next);
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
