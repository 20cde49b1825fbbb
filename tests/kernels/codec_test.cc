// SPDX-License-Identifier: Apache-2.0
#include "kernels/codec.h"
#include "runtime/device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "runtime/base/float16.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/interpreter/interpreter_elementwise.h"
#include "runtime/ir/literal.h"
#include "tests/cases/compare.h"

namespace plimsoll::kernels {
namespace {

using ir::Codec;
using ir::CodecKind;
using ir::ComparisonDirection;
using ir::DType;
using ir::Literal;
using ir::Shape;

// Ends inside a byte of bits and inside a block; several pieces.
constexpr std::int64_t kCount = 200 * 1024 + 13;

constexpr ComparisonDirection kDirections[] = {ComparisonDirection::eq, ComparisonDirection::ne,
                                               ComparisonDirection::ge, ComparisonDirection::gt,
                                               ComparisonDirection::le, ComparisonDirection::lt};
constexpr DType kNumbers[] = {DType::s8,  DType::s16,  DType::s32, DType::s64,
                              DType::u8,  DType::u16,  DType::u32, DType::u64,
                              DType::f16, DType::bf16, DType::f32, DType::f64};

struct EncodedOnce {
  Status status;
  std::vector<std::byte> bytes;
};

EncodedOnce encode(const CodecKernels& kernels, const Codec& codec, const Literal& value) {
  const auto stream = device::cpu_device()->create_stream();
  // A guard byte behind the end shows a write past it.
  EncodedOnce result;
  const auto size = static_cast<std::size_t>(ir::encoded_bytes(codec, value.shape()));
  result.bytes.assign(size + 1, std::byte{0xa5});
  const void* input = value.bytes().data();
  void* output = result.bytes.data();
  result.status = kernels.encode->launch(**stream, {{&input, 1}, {&output, 1}, nullptr});
  EXPECT_EQ(result.bytes[size], std::byte{0xa5});
  return result;
}

Literal decode(const CodecKernels& kernels, const EncodedOnce& encoded, const Shape& shape) {
  const auto stream = device::cpu_device()->create_stream();
  Literal result(shape);
  const void* input = encoded.bytes.data();
  void* output = result.mutable_bytes().data();
  EXPECT_TRUE(kernels.decode->launch(**stream, {{&input, 1}, {&output, 1}, nullptr}).ok());
  return result;
}

Literal round_trip(const Codec& codec, const Literal& value) {
  const auto kernels = make_codec(codec, value.shape());
  EXPECT_TRUE(kernels.ok()) << kernels.status().to_string();
  if (!kernels.ok()) return {};
  const EncodedOnce encoded = encode(*kernels, codec, value);
  EXPECT_TRUE(encoded.status.ok()) << encoded.status.to_string();
  return decode(*kernels, encoded, value.shape());
}

Literal outcomes(const Literal& value, ComparisonDirection direction, const Literal& constant) {
  ir::Attributes attributes;
  attributes.comparison_direction = direction;
  Literal result(Shape(DType::pred, value.shape().dims()));
  ir::interpreter::apply_compare(attributes, {value.shape().dtype(), value.bytes().data(), false},
                                 {value.shape().dtype(), constant.bytes().data(), true},
                                 result.mutable_bytes().data(), value.shape().element_count());
  return result;
}

bool is_one_of(DType dtype, double number) {
  Literal scalar(Shape(dtype, {}));
  if (!ir::is_floating(dtype) &&
      (std::isnan(number) || std::isinf(number) || number < -128 ||
       (number < 0 && ir::dtype_class(dtype) != ir::DTypeClass::signed_int))) {
    return false;
  }
  scalar.set(0, number);
  return scalar.at(0) == number || std::isnan(number);
}

TEST(Codecs, BitMaskGivesEveryPredBack) {
  const Literal value = cases::random_literal(Shape(DType::pred, {kCount}), 1);
  EXPECT_EQ(round_trip({CodecKind::bit_mask}, value), value);
}

TEST(Codecs, BitMaskRefusesAPredThatIsNeitherZeroNorOne) {
  Literal value(Shape(DType::pred, {kCount}));
  value.mutable_bytes()[kCount - 1] = std::byte{2};
  const Codec codec{CodecKind::bit_mask};
  const auto kernels = make_codec(codec, value.shape());
  ASSERT_TRUE(kernels.ok());
  EXPECT_EQ(encode(*kernels, codec, value).status.code(), StatusCode::data_loss);
}

TEST(Codecs, CompareMaskKeepsEveryOutcome) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : kNumbers) {
    for (const double constant : {0.0, -0.0, 1.0, -1.5, 3.0, infinity, -infinity, nan}) {
      if (!is_one_of(dtype, constant)) continue;
      Literal scalar(Shape(dtype, {}));
      scalar.set(0, constant);
      const Literal value = cases::random_literal(Shape(dtype, {3001}), 7, {-4, 4, true});
      for (const ComparisonDirection direction : kDirections) {
        const Codec codec{CodecKind::compare_mask, DType::pred, direction, constant};
        const Literal back = round_trip(codec, value);
        EXPECT_EQ(outcomes(value, direction, scalar), outcomes(back, direction, scalar))
            << ir::to_string(dtype) << " " << ir::to_string(codec);
      }
    }
  }
}

TEST(Codecs, CompareMaskRefusesAConstantThatTheDtypeLacks) {
  const auto of = [](DType dtype, double constant) {
    return make_codec({CodecKind::compare_mask, DType::pred, ComparisonDirection::gt, constant},
                      Shape(dtype, {8}))
        .ok();
  };
  EXPECT_FALSE(of(DType::bf16, 1.001));
  EXPECT_FALSE(of(DType::s32, 0.5));
  EXPECT_FALSE(of(DType::u8, 256));
  EXPECT_FALSE(of(DType::s64, 0x1p63));
  EXPECT_FALSE(of(DType::pred, 1));
  EXPECT_TRUE(of(DType::s64, -0x1p63));
}

// Every value of `narrow`, as `wide`, comes back bit by bit.
TEST(Codecs, NarrowGivesBackWhatTheStoredDtypeHolds) {
  for (const DType wide : kNumbers) {
    for (const DType narrow : kNumbers) {
      const auto kernels = make_codec({CodecKind::narrow, narrow}, Shape(wide, {4}));
      const bool possible = ir::dtype_bytes(narrow) < ir::dtype_bytes(wide) &&
                            (ir::is_floating(wide) || !ir::is_floating(narrow));
      ASSERT_EQ(kernels.ok(), possible) << ir::to_string(wide) << " " << ir::to_string(narrow);
      // Integer pairs of other signedness have no convert that keeps the number.
      if (!possible || (!ir::is_floating(wide) && ir::dtype_class(wide) != ir::dtype_class(narrow)))
        continue;
      Literal small = cases::random_literal(Shape(narrow, {70000}), 3, {-100, 100, true});
      Literal value(Shape(wide, {70000}));
      ir::interpreter::convert_elements({narrow, small.bytes().data(), false}, wide,
                                        value.mutable_bytes().data(), 70000);
      EXPECT_EQ(round_trip({CodecKind::narrow, narrow}, value), value)
          << ir::to_string(wide) << " as " << ir::to_string(narrow);
    }
  }
}

TEST(Codecs, NarrowKeepsEveryBitPatternOfAHalf) {
  for (const bool brain : {true, false}) {
    Literal value(Shape(DType::f32, {65536}));
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      Float16 half;
      half.bits = static_cast<std::uint16_t>(bits);
      value.mutable_data<float>()[bits] =
          brain ? std::bit_cast<float>(bits << 16) : static_cast<float>(half);
    }
    EXPECT_EQ(round_trip({CodecKind::narrow, brain ? DType::bf16 : DType::f16}, value), value);
  }
}

TEST(Codecs, NarrowRefusesWhatWouldNotComeBack) {
  const auto refused = [](DType stored, const Literal& value) {
    const Codec codec{CodecKind::narrow, stored};
    const auto kernels = make_codec(codec, value.shape());
    return kernels.ok() && encode(*kernels, codec, value).status.code() == StatusCode::data_loss;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float number : {-0.0f, 0.5f, 128.0f, -129.0f, 1e20f, nan}) {
    EXPECT_TRUE(refused(DType::s8, Literal::scalar(number))) << number;
  }
  EXPECT_FALSE(refused(DType::s8, Literal::scalar(-128.0f)));
  EXPECT_TRUE(refused(DType::bf16, Literal::scalar(1.001f)));
  EXPECT_FALSE(refused(DType::bf16, Literal::scalar(-0.0f)));
  EXPECT_TRUE(refused(DType::f16, Literal::scalar(65536.0f)));
  EXPECT_TRUE(refused(DType::f16, Literal::scalar(0x1p-25f)));
  EXPECT_TRUE(refused(DType::f32, Literal::scalar(0.1)));
  EXPECT_TRUE(refused(DType::s16, Literal::scalar(std::int32_t{40000})));
  EXPECT_TRUE(refused(DType::u32, Literal::scalar(std::int64_t{-1})));
}

TEST(Codecs, BfloatRoundsToTheNearestAndTiesToEven) {
  std::mt19937_64 random(5);
  Literal value(Shape(DType::f32, {kCount}));
  Literal expected(value.shape());
  for (std::int64_t i = 0; i < kCount; ++i) {
    auto bits = static_cast<std::uint32_t>(random());
    if (i % 3 == 0) bits = (bits & 0xffff0000u) | 0x8000u;  // ties
    float number = std::bit_cast<float>(bits);
    if (std::isfinite(number) && std::fabs(number) > 3e38f) number = 1.5f;
    value.mutable_data<float>()[i] = number;
    expected.mutable_data<float>()[i] = static_cast<float>(Bfloat16(number));
  }
  EXPECT_EQ(round_trip({CodecKind::bfloat16}, value), expected);
}

TEST(Codecs, BfloatRoundsDoublesOnce) {
  // Just above a tie: rounding to f32 first would make it a tie.
  const double above = 1 + 0x1p-8 + 0x1p-40, below = 1 + 3 * 0x1p-8 - 0x1p-40;
  EXPECT_EQ(round_trip({CodecKind::bfloat16}, Literal::scalar(above)).at(0), 1 + 0x1p-7);
  EXPECT_EQ(round_trip({CodecKind::bfloat16}, Literal::scalar(-below)).at(0), -(1 + 0x1p-7));
  EXPECT_EQ(round_trip({CodecKind::bfloat16}, Literal::scalar(1 + 0x1p-8)).at(0), 1);
}

TEST(Codecs, BfloatRefusesToMakeAFiniteValueInfinite) {
  const Codec codec{CodecKind::bfloat16};
  for (const double number : {1e300, -3.4e38}) {
    const Literal value = Literal::scalar(number);
    const auto kernels = make_codec(codec, value.shape());
    EXPECT_EQ(encode(*kernels, codec, value).status.code(), StatusCode::data_loss) << number;
  }
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(round_trip(codec, Literal::scalar(-infinity)).at(0), -infinity);
}

TEST(Codecs, GiveTheSameBytesAtEveryThreadCount) {
  const Literal value = cases::random_literal(Shape(DType::f32, {kCount}), 11, {-4, 4, true});
  const Codec codec{CodecKind::compare_mask, DType::pred, ComparisonDirection::gt, 0};
  const auto kernels = make_codec(codec, value.shape());
  ASSERT_TRUE(kernels.ok());
  const int threads = device::thread_count();
  device::set_thread_count(1);
  const EncodedOnce one = encode(*kernels, codec, value);
  device::set_thread_count(4);
  const EncodedOnce four = encode(*kernels, codec, value);
  device::set_thread_count(threads);
  EXPECT_EQ(one.bytes, four.bytes);
}

// The row of a codec decides what is planned and checked, its kernels what works: they agree.
TEST(Codecs, KernelsTakeWhatTheirRowsSay) {
  for (const ir::CodecInfo& row : ir::all_codecs()) {
    const Codec& codec = row.sample.codec;
    EXPECT_EQ(codec.kind, row.kind);
    EXPECT_TRUE(ir::suits(codec, Shape(row.sample.dtype, {8}))) << row.name;
    std::vector<DType> dtypes(std::begin(kNumbers), std::end(kNumbers));
    dtypes.push_back(DType::pred);
    for (const DType dtype : dtypes) {
      const Shape shape(dtype, {70});
      EXPECT_EQ(make_codec(codec, shape).ok(), ir::suits(codec, shape))
          << row.name << " of " << shape.to_string();
    }
    EXPECT_FALSE(ir::suits(codec, Shape::tuple({Shape(row.sample.dtype, {8})}))) << row.name;
  }
  EXPECT_FALSE(make_codec({}, Shape(DType::f32, {8})).ok());
  EXPECT_FALSE(ir::suits({}, Shape(DType::f32, {8})));
}

// A value of each codec in turn, its own facts known: what is exact comes back, what is stored fits
// the bytes that the row says (the guard behind them stays), and it is smaller.
TEST(Codecs, EveryRowStoresItsSampleInFewerBytes) {
  for (const ir::CodecInfo& row : ir::all_codecs()) {
    const Codec& codec = row.sample.codec;
    for (const std::int64_t count : {1, 7, 64, 65, 1024, 5000}) {
      // Zeros and ones: every codec has them, or their outcomes.
      Literal value(Shape(row.sample.dtype, {count}));
      for (std::int64_t i = 0; i < count; ++i) value.set(i, static_cast<double>(i % 3 == 0));
      const Literal back = round_trip(codec, value);
      if (codec.lossless() && codec.gives_values()) {
        EXPECT_EQ(back, value) << row.name << " " << count;
      }
      if (count >= 64) {
        EXPECT_LT(ir::encoded_bytes(codec, value.shape()), value.shape().byte_size()) << row.name;
      }
    }
  }
}

TEST(Codecs, EmptyArraysAreFine) {
  EXPECT_EQ(round_trip({CodecKind::bit_mask}, Literal(Shape(DType::pred, {0}))),
            Literal(Shape(DType::pred, {0})));
}

}  // namespace
}  // namespace plimsoll::kernels
