// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/ir/dtype.h"

// The narrow dtypes of dtypes.def: what their codes stand for, and how arrays of them lie in
// memory.
namespace plimsoll::ir {

// What the codes of a narrow float are that are no finite numbers.
enum class SpecialCodes : std::uint8_t {
  none,                  // none; what is too large becomes the largest number, NaN becomes -0
  ieee,                  // infinities and NaNs, where the exponent has all bits set
  last_is_nan,           // NaN, where all bits but the sign are set; no infinities
  negative_zero_is_nan,  // NaN, where -0 would be; no infinities
  powers_of_two,         // no sign, no zero and no mantissa: 2^(code - bias); the last code is NaN
};

struct NarrowFormat {
  int bits = 8;
  int mantissa_bits = 0;
  int bias = 0;
  SpecialCodes special = SpecialCodes::none;

  // All bits but the sign.
  constexpr std::uint32_t magnitude_mask() const { return (1U << (bits - 1)) - 1; }
  // Of formats with specials `ieee`.
  constexpr std::uint32_t infinity() const {
    return magnitude_mask() & ~((1U << mantissa_bits) - 1);
  }
};

// Preconditions here and below: a narrow dtype; a floating one.
NarrowFormat narrow_format(DType dtype);

// The number of a code, exactly; bits above the dtype's are not looked at.
float narrow_number(DType dtype, std::uint8_t code);
// The code of the nearest number, of two the even one (of powers of two the larger, and that of
// whatever lies between the least two). Beyond the largest: an infinity, else NaN, else the
// largest. Integers are truncated toward zero and saturate; of NaN 0. Bits above the dtype's are
// zero.
std::uint8_t narrow_code(DType dtype, double number);

// One element of an array of `dtype` whose bytes are given.
std::uint8_t code_at(DType dtype, std::span<const std::byte> bytes, std::int64_t index);
void set_code_at(DType dtype, std::span<std::byte> bytes, std::int64_t index, std::uint8_t code);

// An array's bytes from a byte for each of its codes, whose upper bits are left out; and back, the
// sign of signed integers in the upper bits.
std::vector<std::byte> pack_codes(DType dtype, std::span<const std::byte> codes);
std::vector<std::byte> unpack_codes(DType dtype, std::span<const std::byte> bytes,
                                    std::int64_t count);

}  // namespace plimsoll::ir
