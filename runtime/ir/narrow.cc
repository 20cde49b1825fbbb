// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/narrow.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/index.h"

namespace plimsoll::ir {
namespace {

std::uint8_t mask_of(DType dtype) {
  return static_cast<std::uint8_t>((1U << static_cast<unsigned>(dtype_bits(dtype))) - 1);
}

// The sign in the upper bits, too.
std::uint8_t extended(DType dtype, std::uint8_t code) {
  const std::uint8_t sign = static_cast<std::uint8_t>(1U << (dtype_bits(dtype) - 1));
  const bool is_negative = dtype_class(dtype) == DTypeClass::signed_int && (code & sign) != 0;
  return is_negative ? static_cast<std::uint8_t>(code | ~mask_of(dtype)) : code;
}

// What the code would stand for if every code without a sign were a finite number.
double finite_number(const NarrowFormat& format, std::uint32_t magnitude) {
  if (format.special == SpecialCodes::powers_of_two) {
    return std::ldexp(1.0, static_cast<int>(magnitude) - format.bias);
  }
  const auto mantissa = static_cast<int>(magnitude & ((1U << format.mantissa_bits) - 1));
  const auto exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const int leading = exponent == 0 ? 0 : 1 << format.mantissa_bits;
  return std::ldexp(mantissa + leading, std::max(exponent, 1) - format.bias - format.mantissa_bits);
}

std::uint32_t largest_of(const NarrowFormat& format) {
  switch (format.special) {
    case SpecialCodes::none:
    case SpecialCodes::negative_zero_is_nan:
      return format.magnitude_mask();
    case SpecialCodes::ieee:
      return format.infinity() - 1;
    case SpecialCodes::last_is_nan:
      return format.magnitude_mask() - 1;
    case SpecialCodes::powers_of_two:
      return 254;
  }
  __builtin_unreachable();
}

// Of the finite numbers and the one that would come after the largest.
std::uint32_t nearest(const NarrowFormat& format, double size) {
  std::uint32_t below = 0, above = largest_of(format) + 1;
  if (size <= finite_number(format, below)) return below;
  if (size >= finite_number(format, above)) return above;
  while (above - below > 1) {
    const std::uint32_t middle = (below + above) / 2;
    (finite_number(format, middle) <= size ? below : above) = middle;
  }
  // As XLA rounds the subnormal numbers of f32.
  if (format.special == SpecialCodes::powers_of_two && below == 0) {
    return size > finite_number(format, 0) ? 1 : 0;
  }
  const double half = (finite_number(format, below) + finite_number(format, above)) / 2;
  if (size != half) return size < half ? below : above;
  if (format.special == SpecialCodes::powers_of_two) return above;
  return below % 2 == 0 ? below : above;
}

std::uint32_t float_code(const NarrowFormat& format, double number) {
  if (format.special == SpecialCodes::powers_of_two) {
    return number > 0 ? nearest(format, number) : 255;
  }
  const std::uint32_t sign = std::signbit(number) ? format.magnitude_mask() + 1 : 0;
  const bool is_nan = std::isnan(number);
  const std::uint32_t magnitude = is_nan ? 0 : nearest(format, std::abs(number));
  const bool is_beyond = magnitude > largest_of(format);
  switch (format.special) {
    case SpecialCodes::none:
      if (is_nan) return format.magnitude_mask() + 1;
      return sign | std::min(magnitude, largest_of(format));
    case SpecialCodes::ieee:
      if (is_nan) return sign | format.infinity() | 1U << (format.mantissa_bits - 1);
      return sign | magnitude;
    case SpecialCodes::last_is_nan:
      return sign | (is_nan ? format.magnitude_mask() : magnitude);
    case SpecialCodes::negative_zero_is_nan:
      if (is_nan || is_beyond) return format.magnitude_mask() + 1;
      return magnitude == 0 ? 0 : sign | magnitude;
    case SpecialCodes::powers_of_two:
      break;
  }
  __builtin_unreachable();
}

}  // namespace

NarrowFormat narrow_format(DType dtype) {
  switch (dtype) {
#define PLIMSOLL_DTYPE(...)
#define PLIMSOLL_NARROW_FLOAT_DTYPE(name, text, bits, mantissa_bits, bias, special) \
  case DType::name:                                                                 \
    return {bits, mantissa_bits, bias, SpecialCodes::special};
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
    default:
      return {};
  }
}

float narrow_number(DType dtype, std::uint8_t code) {
  code &= mask_of(dtype);
  if (!is_floating(dtype)) {
    const std::uint8_t byte = extended(dtype, code);
    return dtype_class(dtype) == DTypeClass::signed_int ? static_cast<std::int8_t>(byte) : byte;
  }
  const NarrowFormat format = narrow_format(dtype);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (format.special == SpecialCodes::powers_of_two) {
    return code == 255 ? kNan : static_cast<float>(finite_number(format, code));
  }
  const std::uint32_t magnitude = code & format.magnitude_mask();
  const bool is_negative = magnitude != code;
  if (format.special == SpecialCodes::negative_zero_is_nan && is_negative && magnitude == 0) {
    return kNan;
  }
  float size = static_cast<float>(finite_number(format, magnitude));
  if (magnitude > largest_of(format)) {
    const bool is_infinity = format.special == SpecialCodes::ieee && magnitude == format.infinity();
    size = is_infinity ? std::numeric_limits<float>::infinity() : kNan;
  }
  return is_negative ? -size : size;
}

std::uint8_t narrow_code(DType dtype, double number) {
  if (is_floating(dtype)) {
    return static_cast<std::uint8_t>(float_code(narrow_format(dtype), number));
  }
  if (std::isnan(number)) return 0;
  const bool is_signed = dtype_class(dtype) == DTypeClass::signed_int;
  const int most = is_signed ? mask_of(dtype) / 2 : mask_of(dtype);
  const int least = is_signed ? -most - 1 : 0;
  const double whole = std::clamp<double>(std::trunc(number), least, most);
  return static_cast<std::uint8_t>(static_cast<int>(whole)) & mask_of(dtype);
}

std::uint8_t code_at(DType dtype, std::span<const std::byte> bytes, std::int64_t index) {
  const int bits = dtype_bits(dtype);
  const std::int64_t first = index * bits;
  const auto byte = std::to_integer<std::uint8_t>(bytes[at(first / 8)]);
  return static_cast<std::uint8_t>(byte >> (first % 8)) & mask_of(dtype);
}

void set_code_at(DType dtype, std::span<std::byte> bytes, std::int64_t index, std::uint8_t code) {
  const std::int64_t first = index * dtype_bits(dtype);
  const auto shift = static_cast<unsigned>(first % 8);
  std::byte& byte = bytes[at(first / 8)];
  byte &= ~(std::byte{mask_of(dtype)} << shift);
  byte |= std::byte{static_cast<std::uint8_t>(code & mask_of(dtype))} << shift;
}

std::vector<std::byte> pack_codes(DType dtype, std::span<const std::byte> codes) {
  const auto bits = at(dtype_bits(dtype));
  std::vector<std::byte> bytes((codes.size() * bits + 7) / 8);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    set_code_at(dtype, bytes, static_cast<std::int64_t>(i),
                std::to_integer<std::uint8_t>(codes[i]));
  }
  return bytes;
}

std::vector<std::byte> unpack_codes(DType dtype, std::span<const std::byte> bytes,
                                    std::int64_t count) {
  std::vector<std::byte> codes(at(count));
  for (std::int64_t i = 0; i < count; ++i) {
    codes[at(i)] = std::byte{extended(dtype, code_at(dtype, bytes, i))};
  }
  return codes;
}

}  // namespace plimsoll::ir
