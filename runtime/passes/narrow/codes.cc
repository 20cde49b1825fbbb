// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/narrow/codes.h"

#include <bit>
#include <utility>
#include <vector>

#include "runtime/ir/narrow.h"

namespace plimsoll::passes::narrow_types {
namespace {

using ir::Attributes;
using ir::ComparisonDirection;
using ir::DType;
using ir::Instruction;
using ir::Literal;
using ir::NarrowFormat;
using ir::Opcode;
using ir::Shape;
using ir::SpecialCodes;

constexpr std::uint32_t kInfinity = 0x7f800000, kNan = 0x7fc00000, kSign = 0x80000000;
constexpr int kMantissaBits = 23, kBias = 127;

Instruction* add(Opcode opcode, Shape shape, std::vector<Instruction*> operands,
                 Attributes attributes = {}) {
  ir::Computation& computation = *operands[0]->parent();
  return computation.add(opcode, std::move(shape), std::move(operands), {}, std::move(attributes));
}

template <typename T>
Instruction* splat(const Instruction* like, T value) {
  Instruction* const scalar = like->parent()->add_constant(Literal::scalar(value));
  const Shape shape(ir::DTypeOf<T>::value, like->shape().dims());
  return shape.rank() == 0 ? scalar : add(Opcode::broadcast, shape, {scalar});
}

Instruction* same_bits(Instruction* value, DType dtype) {
  return add(Opcode::bitcast_convert, Shape(dtype, value->shape().dims()), {value});
}

Instruction* compare(Instruction* a, ComparisonDirection direction, Instruction* b) {
  Attributes attributes;
  attributes.comparison_direction = direction;
  return add(Opcode::compare, Shape(DType::pred, a->shape().dims()), {a, b}, std::move(attributes));
}

// An array of u32, so that formulas read as formulas.
struct Bits {
  Instruction* value = nullptr;

  Bits make(Opcode opcode, Bits b) const { return {add(opcode, value->shape(), {value, b.value})}; }
  Bits constant(std::uint32_t number) const { return {splat(value, number)}; }
};

Bits operator+(Bits a, Bits b) { return a.make(Opcode::add, b); }
Bits operator-(Bits a, Bits b) { return a.make(Opcode::subtract, b); }
Bits operator&(Bits a, Bits b) { return a.make(Opcode::and_, b); }
Bits operator|(Bits a, Bits b) { return a.make(Opcode::or_, b); }
Bits operator+(Bits a, std::uint32_t b) { return a + a.constant(b); }
Bits operator-(Bits a, std::uint32_t b) { return a - a.constant(b); }
Bits operator&(Bits a, std::uint32_t b) { return a & a.constant(b); }
Bits operator|(Bits a, std::uint32_t b) { return a | a.constant(b); }
Bits operator<<(Bits a, int b) {
  return a.make(Opcode::shift_left, a.constant(static_cast<std::uint32_t>(b)));
}
Bits operator>>(Bits a, int b) {
  return a.make(Opcode::shift_right_logical, a.constant(static_cast<std::uint32_t>(b)));
}

struct Truth {
  Instruction* value = nullptr;
};
Truth operator<(Bits a, std::uint32_t b) {
  return {compare(a.value, ComparisonDirection::lt, a.constant(b).value)};
}
Truth operator>(Bits a, std::uint32_t b) {
  return {compare(a.value, ComparisonDirection::gt, a.constant(b).value)};
}
Truth operator>=(Bits a, std::uint32_t b) {
  return {compare(a.value, ComparisonDirection::ge, a.constant(b).value)};
}
Truth operator==(Bits a, std::uint32_t b) {
  return {compare(a.value, ComparisonDirection::eq, a.constant(b).value)};
}
Bits choose(Truth where, Bits a, Bits b) {
  return {add(Opcode::select, a.value->shape(), {where.value, a.value, b.value})};
}
Bits choose(Truth where, std::uint32_t a, Bits b) { return choose(where, b.constant(a), b); }
Bits at_most(Bits a, std::uint32_t b) { return a.make(Opcode::minimum, a.constant(b)); }

Instruction* float_of(Bits bits) { return same_bits(bits.value, DType::f32); }
Bits bits_of(Instruction* number) { return {same_bits(number, DType::u32)}; }

Bits decode_power(Bits code) {
  constexpr std::uint32_t kLeast = 0x00400000;  // 2^-127 is subnormal in f32
  return choose(code == 0, kLeast, choose(code == 255, kNan, code << kMantissaBits));
}

// Rounded half up, by the mantissa; subnormal numbers of f32 up, but for the least code's and less.
Bits encode_power(Instruction* number) {
  const Bits bits = bits_of(number);
  const Bits half = choose(bits < 0x00800000, 0x003fffff, bits.constant(0x00400000));
  Instruction* const zero = splat(number, 0.0F);
  const Truth is_positive = {compare(number, ComparisonDirection::gt, zero)};
  return choose(is_positive, (bits + half) >> kMantissaBits, bits.constant(255));
}

}  // namespace

Instruction* converted(Instruction* value, DType dtype) {
  if (value->shape().dtype() == dtype) return value;
  return add(Opcode::convert, Shape(dtype, value->shape().dims()), {value});
}

// Exponent and mantissa, in the places that f32 has for them, are a number whose exponent is off by
// the difference of the biases; subnormal ones, too.
Instruction* decode(Instruction* code, DType dtype) {
  const NarrowFormat format = ir::narrow_format(dtype);
  const Bits bits = {converted(code, DType::u32)};
  if (format.special == SpecialCodes::powers_of_two) return float_of(decode_power(bits));
  const Bits magnitude = bits & format.magnitude_mask();
  const Bits placed = magnitude << (kMantissaBits - format.mantissa_bits);
  const auto scale_exponent = static_cast<std::uint32_t>(2 * kBias - format.bias);
  const auto scale = std::bit_cast<float>(scale_exponent << kMantissaBits);
  Bits size = bits_of(add(Opcode::multiply, Shape(DType::f32, code->shape().dims()),
                          {float_of(placed), splat(code, scale)}));
  if (format.special == SpecialCodes::ieee) {
    size = choose(magnitude >= format.infinity(), placed | kInfinity, size);
  } else if (format.special == SpecialCodes::last_is_nan) {
    size = choose(magnitude == format.magnitude_mask(), kNan, size);
  }
  Bits signed_bits = size | ((bits >> (format.bits - 1)) << 31);
  if (format.special == SpecialCodes::negative_zero_is_nan) {
    signed_bits = choose(bits == format.magnitude_mask() + 1, kNan, signed_bits);
  }
  return float_of(signed_bits);
}

// Normal results are rounded by an addition to the bits; subnormal ones by an addition to the
// number, of a number whose last place is theirs.
Instruction* encode(Instruction* number, DType dtype) {
  const NarrowFormat format = ir::narrow_format(dtype);
  if (format.special == SpecialCodes::powers_of_two) {
    return converted(encode_power(number).value, DType::u8);
  }
  const Bits bits = bits_of(number);
  const Bits size = bits & ~kSign;
  const int dropped = kMantissaBits - format.mantissa_bits;
  const auto rebias = static_cast<std::uint32_t>(kBias - format.bias) << format.mantissa_bits;
  const Bits rounded = size + ((size >> dropped) & 1U) + ((1U << (dropped - 1)) - 1);
  const Bits normal = (rounded >> dropped) - rebias;
  const auto least_normal = static_cast<std::uint32_t>(kBias + 1 - format.bias) << kMantissaBits;
  const auto place = static_cast<std::uint32_t>(kBias + 1 - format.bias + dropped) << kMantissaBits;
  const Bits summed =
      bits_of(add(Opcode::add, number->shape(), {float_of(size), float_of(size.constant(place))}));
  Bits code = choose(size < least_normal, summed - place, normal);
  const Bits sign = (bits >> 31) << (format.bits - 1);
  const Truth is_nan = size > kInfinity;
  switch (format.special) {
    case SpecialCodes::none:
      code = choose(is_nan, format.magnitude_mask() + 1,
                    at_most(code, format.magnitude_mask()) | sign);
      break;
    case SpecialCodes::ieee:
      code = choose(is_nan, format.infinity() | 1U << (format.mantissa_bits - 1),
                    at_most(code, format.infinity())) |
             sign;
      break;
    case SpecialCodes::last_is_nan:
      code = at_most(code, format.magnitude_mask()) | sign;
      break;
    case SpecialCodes::negative_zero_is_nan:
      code =
          choose(code == 0, 0U,
                 choose(code > format.magnitude_mask(), format.magnitude_mask() + 1, code | sign));
      break;
    case SpecialCodes::powers_of_two:
      break;
  }
  return converted(code.value, DType::u8);
}

Instruction* wrap(Instruction* number, DType dtype) {
  const int bits = ir::dtype_bits(dtype);
  if (code_dtype(dtype) == DType::u8) {
    const auto mask = static_cast<std::uint8_t>((1U << bits) - 1);
    return add(Opcode::and_, number->shape(), {number, splat(number, mask)});
  }
  Instruction* const unused = splat(number, static_cast<std::int8_t>(8 - bits));
  Instruction* const shifted = add(Opcode::shift_left, number->shape(), {number, unused});
  return add(Opcode::shift_right_arithmetic, number->shape(), {shifted, unused});
}

Instruction* round_to_odd(Instruction* number) {
  Instruction* const nearest = converted(number, DType::f32);
  Instruction* const back = converted(nearest, DType::f64);
  const auto size = [](Instruction* value) { return add(Opcode::abs, value->shape(), {value}); };
  const Truth is_inexact = {compare(back, ComparisonDirection::ne, number)};
  const Truth is_larger = {compare(size(back), ComparisonDirection::gt, size(number))};
  const Bits bits = bits_of(nearest);
  const Bits toward_zero = bits - Bits{converted(is_larger.value, DType::u32)};
  return float_of(choose(is_inexact, toward_zero | 1U, bits));
}

Instruction* split_bytes(Instruction* bytes, int bits, int parts) {
  std::vector<std::int64_t> dims = bytes->shape().dims().to_vector();
  const auto last = static_cast<std::int64_t>(dims.size());
  dims.push_back(parts);
  const Shape shape(DType::u8, dims);
  Attributes leading;
  for (std::int64_t i = 0; i < last; ++i) leading.dimensions.push_back(i);
  Instruction* const repeated = add(Opcode::broadcast, shape, {bytes}, std::move(leading));
  Attributes along;
  along.dimensions = {last};
  Instruction* const places = bytes->parent()->add(Opcode::iota, shape, {}, {}, std::move(along));
  Instruction* const shifts =
      add(Opcode::multiply, shape, {places, splat(places, static_cast<std::uint8_t>(bits))});
  Instruction* const shifted = add(Opcode::shift_right_logical, shape, {repeated, shifts});
  const auto mask = static_cast<std::uint8_t>((1U << bits) - 1);
  return add(Opcode::and_, shape, {shifted, splat(shifted, mask)});
}

Instruction* join_bytes(Instruction* parts, int bits) {
  const Shape& from = parts->shape();
  const int last = from.rank() - 1;
  std::vector<std::int64_t> dims = from.dims().to_vector();
  dims.pop_back();
  const Shape shape(DType::u8, dims);
  Instruction* joined = nullptr;
  for (std::int64_t i = 0; i < from.dim(last); ++i) {
    Attributes slice;
    slice.slice_starts.assign(dims.size(), 0);
    slice.slice_starts.push_back(i);
    slice.slice_limits = dims;
    slice.slice_limits.push_back(i + 1);
    slice.slice_strides.assign(dims.size() + 1, 1);
    std::vector<std::int64_t> sliced = dims;
    sliced.push_back(1);
    Instruction* part =
        add(Opcode::reshape, shape,
            {add(Opcode::slice, Shape(DType::u8, sliced), {parts}, std::move(slice))});
    if (i > 0) {
      part =
          add(Opcode::shift_left, shape, {part, splat(part, static_cast<std::uint8_t>(bits * i))});
    }
    joined = joined == nullptr ? part : add(Opcode::or_, shape, {joined, part});
  }
  return joined;
}

}  // namespace plimsoll::passes::narrow_types
