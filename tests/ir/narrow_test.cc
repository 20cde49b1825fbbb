// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/narrow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/ir/literal.h"

namespace plimsoll::ir {
namespace {

constexpr DType kNarrow[] = {
#define PLIMSOLL_DTYPE(...)
#define PLIMSOLL_NARROW_DTYPE(name, text, bits, kind) DType::name,
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
};

// What ml_dtypes makes of the same codes and numbers (make_narrow_hashes.py).
struct Reference {
  DType dtype;
  std::uint64_t numbers, codes;
};
constexpr Reference kReferences[] = {
    {DType::f4e2m1fn, 0x2403bb76b85dfea5, 0xa98039ef843659c2},
    {DType::f8e3m4, 0xf47936f19e549625, 0xd2a9de06a157a0a9},
    {DType::f8e4m3, 0x225eaf4799a27e65, 0xacfc3c9b2f38b3ae},
    {DType::f8e4m3fn, 0xdad1d9c50f749ca5, 0xd1987e9ab0a25a11},
    {DType::f8e4m3b11fnuz, 0xd90d7a600530d158, 0x83f626666a23c8f6},
    {DType::f8e4m3fnuz, 0xf51851cb11c63018, 0xd8791e59fb2f1da3},
    {DType::f8e5m2, 0x6c1e56b6fb09c905, 0x4e753d1ae0c026bd},
    {DType::f8e5m2fnuz, 0x94ae6fc493d49818, 0x2e9ceb043816cc45},
    {DType::f8e8m0fnu, 0x6d2c8b41c3f0e5a5, 0x14cd0305a11902f9},
};

std::uint64_t fnv(std::span<const std::byte> bytes) {
  std::uint64_t state = 0xCBF29CE484222325;
  for (const std::byte byte : bytes) {
    state = (state ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001B3;
  }
  return state;
}

std::vector<float> numbers_of(DType dtype) {
  std::vector<float> numbers;
  for (int code = 0; code < 1 << dtype_bits(dtype); ++code) {
    numbers.push_back(narrow_number(dtype, static_cast<std::uint8_t>(code)));
  }
  return numbers;
}

TEST(Narrow, CodesAreTheNumbersThatMlDtypesHasForThem) {
  for (const Reference& reference : kReferences) {
    std::vector<float> numbers = numbers_of(reference.dtype);
    for (float& number : numbers) {
      if (std::isnan(number)) number = std::bit_cast<float>(0x7FC00000U);
    }
    EXPECT_EQ(fnv(std::as_bytes(std::span(numbers))), reference.numbers)
        << to_string(reference.dtype);
  }
}

TEST(Narrow, NumbersAreRoundedToTheCodesThatMlDtypesHasForThem) {
  for (const Reference& reference : kReferences) {
    std::vector<double> finite;
    for (const float number : numbers_of(reference.dtype)) {
      if (std::isfinite(number)) finite.push_back(number + 0.0);
    }
    std::sort(finite.begin(), finite.end());
    finite.erase(std::unique(finite.begin(), finite.end()), finite.end());
    std::vector<std::uint32_t> points;
    for (const double number : finite) {
      points.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(number)));
    }
    for (std::size_t i = 1; i < finite.size(); ++i) {
      const double half = (finite[i] + finite[i - 1]) / 2;
      points.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(half)));
    }
    std::vector<std::byte> codes;
    const auto add = [&](std::uint32_t bits) {
      const auto number = std::bit_cast<float>(bits);
      if (!std::isnan(number)) codes.push_back(std::byte{narrow_code(reference.dtype, number)});
    };
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 65521) {
      add(static_cast<std::uint32_t>(bits));
    }
    for (const int step : {-1, 0, 1}) {
      for (const std::uint32_t point : points) add(point + static_cast<std::uint32_t>(step));
    }
    EXPECT_EQ(fnv(codes), reference.codes) << to_string(reference.dtype);
  }
}

TEST(Narrow, NumbersOfCodesHaveThoseCodes) {
  for (const DType dtype : kNarrow) {
    for (int code = 0; code < 1 << dtype_bits(dtype); ++code) {
      const float number = narrow_number(dtype, static_cast<std::uint8_t>(code));
      if (std::isnan(number)) continue;
      EXPECT_EQ(narrow_code(dtype, number), code) << to_string(dtype);
    }
  }
}

TEST(Narrow, IntegersAreTruncatedAndSaturate) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto number = [](DType dtype, double from) {
    return narrow_number(dtype, narrow_code(dtype, from));
  };
  EXPECT_EQ(number(DType::s4, -1.9), -1);
  EXPECT_EQ(number(DType::s4, 100), 7);
  EXPECT_EQ(number(DType::s4, -kInfinity), -8);
  EXPECT_EQ(number(DType::s4, kNan), 0);
  EXPECT_EQ(number(DType::u4, -3), 0);
  EXPECT_EQ(number(DType::u4, 15.9), 15);
  EXPECT_EQ(number(DType::s2, 2), 1);
  EXPECT_EQ(number(DType::s2, -5), -2);
  EXPECT_EQ(number(DType::u2, 9), 3);
}

TEST(Narrow, ArraysOfLessThanABytePackTheFirstElementIntoTheLowestBits) {
  Literal fours(Shape(DType::s4, {5}));
  ASSERT_EQ(fours.shape().byte_size(), 3);
  for (int i = 0; i < 5; ++i) fours.set(i, i - 4);  // codes c d e f 0
  const std::byte wanted[] = {std::byte{0xDC}, std::byte{0xFE}, std::byte{0x00}};
  EXPECT_TRUE(std::equal(fours.bytes().begin(), fours.bytes().end(), wanted));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fours.at(i), i - 4);
  const std::vector<std::byte> codes = unpack_codes(DType::s4, fours.bytes(), 5);
  EXPECT_EQ(codes[0], std::byte{0xFC});
  EXPECT_EQ(pack_codes(DType::s4, codes),
            std::vector<std::byte>(fours.bytes().begin(), fours.bytes().end()));
  Literal twos(Shape(DType::u2, {2, 3}));
  ASSERT_EQ(twos.shape().byte_size(), 2);
  for (int i = 0; i < 6; ++i) twos.set(i, i % 4);
  EXPECT_EQ(twos.bytes()[0], std::byte{0b11100100});
  EXPECT_EQ(twos.bytes()[1], std::byte{0b0100});
  EXPECT_FALSE(twos.is_splat());
  EXPECT_TRUE(Literal(Shape(DType::u2, {7})).is_splat());
}

}  // namespace
}  // namespace plimsoll::ir
