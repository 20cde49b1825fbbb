// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/codec.h"
#include "runtime/base/float16.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

using ir::Codec;
using ir::CodecKind;
using ir::DType;
using ir::kQuantizedBlock;
using ir::Shape;

// Around vectors, blocks of a scale and pieces of work.
constexpr std::int64_t kCounts[] = {0,    1,    2,    7,    8,    9,    15,    16,
                                    17,   63,   64,   65,   127,  128,  129,   191,
                                    1000, 1023, 1024, 1025, 1087, 1089, 70000, 131072 + 65};

template <typename T>
constexpr DType kDType = sizeof(T) == 8 ? DType::f64 : DType::f32;

struct Encoded {
  Status status;
  std::vector<std::byte> bytes;  // one behind the end as well
};

// Both sides start `shift` elements into a block of memory.
template <typename T>
Encoded encode(const Codec& codec, const std::vector<T>& value, std::size_t shift = 0) {
  const Shape shape(kDType<T>, {static_cast<std::int64_t>(value.size())});
  const auto kernels = make_codec(codec, shape);
  EXPECT_TRUE(kernels.ok()) << kernels.status().to_string();
  const auto stream = device::cpu_device()->create_stream();
  std::vector<T> moved(value.size() + shift);
  std::copy(value.begin(), value.end(), moved.begin() + static_cast<std::ptrdiff_t>(shift));
  const auto size = static_cast<std::size_t>(ir::encoded_bytes(codec, shape));
  std::vector<std::byte> room(size + 2 * shift + 1, std::byte{0xa5});
  const void* input = moved.data() + shift;
  void* output = room.data() + 2 * shift;
  Encoded result;
  result.status = kernels->encode->launch(**stream, {{&input, 1}, {&output, 1}, nullptr});
  EXPECT_EQ(room.back(), std::byte{0xa5}) << "wrote past the end";
  result.bytes.assign(room.begin() + static_cast<std::ptrdiff_t>(2 * shift), room.end());
  return result;
}

template <typename T>
std::vector<T> decode(const Codec& codec, const Encoded& encoded, std::size_t count,
                      std::size_t shift = 0) {
  const auto kernels = make_codec(codec, Shape(kDType<T>, {static_cast<std::int64_t>(count)}));
  const auto stream = device::cpu_device()->create_stream();
  std::vector<std::byte> moved(2 * shift);
  moved.insert(moved.end(), encoded.bytes.begin(), encoded.bytes.end());
  const T guard = 12345;
  std::vector<T> room(count + shift + 1, guard);
  const void* input = moved.data() + 2 * shift;
  void* output = room.data() + shift;
  EXPECT_TRUE(kernels->decode->launch(**stream, {{&input, 1}, {&output, 1}, nullptr}).ok());
  EXPECT_EQ(room.back(), guard) << "wrote past the end";
  return {room.begin() + static_cast<std::ptrdiff_t>(shift), room.end() - 1};
}

template <typename T>
std::vector<T> round_trip(const Codec& codec, const std::vector<T>& value, std::size_t shift = 0) {
  const Encoded encoded = encode(codec, value, shift);
  EXPECT_TRUE(encoded.status.ok()) << encoded.status.to_string();
  return decode<T>(codec, encoded, value.size(), shift);
}

template <typename T>
bool refused(const Codec& codec, std::vector<T> value) {
  return encode(codec, value).status.code() == StatusCode::data_loss;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Magnitudes over many powers of two, zeros of both signs among them.
template <typename T>
std::vector<T> random_values(std::int64_t count, unsigned seed, int least, int most) {
  std::mt19937_64 random(seed);
  std::vector<T> value(static_cast<std::size_t>(count));
  for (T& x : value) {
    const auto mantissa = static_cast<double>(random() >> 11) * 0x1p-53 * 2 - 1;
    const int exponent = least + static_cast<int>(random() % static_cast<unsigned>(most - least));
    x = static_cast<T>(std::ldexp(mantissa, exponent));
    if (random() % 9 == 0) x = random() % 2 == 0 ? T(0) : -T(0);
  }
  return value;
}

// The scale of the block that element i is in, by trying bf16 numbers.
template <typename T>
double least_scale(const std::vector<T>& value, std::int64_t i, int most) {
  const std::int64_t first = i / kQuantizedBlock * kQuantizedBlock;
  const auto last =
      std::min<std::int64_t>(first + kQuantizedBlock, static_cast<std::int64_t>(value.size()));
  double greatest = 0;
  for (std::int64_t k = first; k < last; ++k) {
    greatest =
        std::max(greatest, std::fabs(static_cast<double>(value[static_cast<std::size_t>(k)])));
  }
  std::uint32_t low = 0, high = 0x7f80;
  while (low < high) {
    const std::uint32_t middle = (low + high) / 2;
    const double scale = std::bit_cast<float>(middle << 16);
    if (scale * most >= greatest) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return std::bit_cast<float>(low << 16);
}

const Codec kBlockwise[] = {{.kind = CodecKind::int8, .seed = 3},
                            {.kind = CodecKind::int4, .seed = 3},
                            {.kind = CodecKind::int2, .seed = 3}};

int most_of(const Codec& codec) {
  return codec.kind == CodecKind::int8 ? 127 : codec.kind == CodecKind::int4 ? 7 : 1;
}

TEST(LossyCodecs, Float16RoundsAsTheInterpreterDoes) {
  std::mt19937_64 random(5);
  std::vector<float> value(70001), expected(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    auto bits = static_cast<std::uint32_t>(random());
    // Mostly inside f16's range, with ties and subnormal results among them.
    if (i % 8 != 0) bits = (bits & 0x80ffffffu) | ((95u + bits % 48u) << 23 & 0x7f800000u);
    if (i % 3 == 0) bits = (bits & 0xffffe000u) | 0x1000u;
    float number = std::bit_cast<float>(bits);
    if (std::isfinite(number) && std::fabs(number) >= 65520) number = 65519.996F;
    value[i] = number;
    expected[i] = static_cast<float>(Float16(number));
  }
  for (const std::size_t shift : {0, 1, 3}) {
    EXPECT_TRUE(same_bits(round_trip({CodecKind::float16}, value, shift), expected));
  }
}

TEST(LossyCodecs, Float16KeepsWhatItHas) {
  std::vector<float> value(65536);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    Float16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    value[bits] = static_cast<float>(half);
    if (std::isnan(value[bits]))
      value[bits] = std::bit_cast<float>((bits & 0x8000u) << 16 | 0x7fc02000u);
  }
  EXPECT_TRUE(same_bits(round_trip({CodecKind::float16}, value), value));
  std::vector<double> wide(value.begin(), value.end());
  EXPECT_TRUE(same_bits(round_trip({CodecKind::float16}, wide), wide));
}

// Whole vectors and what is left over agree.
TEST(LossyCodecs, Float16HasTheSameBitsAtEveryPlace) {
  for (const float number :
       {1.0009766F, 0.3F, 3e-6F, 5.96e-8F, 2.98e-8F, 65519.0F,
        -std::numeric_limits<float>::infinity(), std::bit_cast<float>(0x7f812345u),
        std::bit_cast<float>(0xffc54321u)}) {
    const std::vector<float> expected(31, static_cast<float>(Float16(number)));
    EXPECT_TRUE(
        same_bits(round_trip({CodecKind::float16}, std::vector<float>(31, number)), expected))
        << number;
  }
}

TEST(LossyCodecs, Float16RoundsDoublesOnce) {
  const double above = 1 + 0x1p-11 + 0x1p-40, below = 1 + 3 * 0x1p-11 - 0x1p-40;
  EXPECT_EQ(round_trip<double>({CodecKind::float16}, {above, -below, 1 + 0x1p-11, 1e-300}),
            (std::vector<double>{1 + 0x1p-10, -(1 + 0x1p-10), 1, 0}));
}

TEST(LossyCodecs, Float16RefusesToMakeAFiniteValueInfinite) {
  for (const float number : {65520.0F, -1e30F}) {
    for (const std::size_t place : {0, 13, 20}) {
      std::vector<float> value(21, 1.0F);
      value[place] = number;
      EXPECT_TRUE(refused({CodecKind::float16}, value)) << number << " at " << place;
    }
  }
  EXPECT_TRUE(refused<double>({CodecKind::float16}, {1, 65520}));
  EXPECT_FALSE(refused<double>({CodecKind::float16}, {1, 65519.999}));
}

template <typename T>
void check_bound(const Codec& codec, int least, int most) {
  for (const std::int64_t count : kCounts) {
    if (count > 2000 && most - least > 100) continue;
    const auto value = random_values<T>(count, static_cast<unsigned>(count), least, most);
    for (const std::size_t shift : {0, 1}) {
      const auto back = round_trip(codec, value, shift);
      for (std::int64_t i = 0; i < count; i += count > 2000 ? 37 : 1) {
        const auto at = static_cast<std::size_t>(i);
        const double scale = least_scale(value, i, most_of(codec));
        const double error =
            std::fabs(static_cast<double>(back[at]) - static_cast<double>(value[at]));
        // Strictly less, but where there is nothing to err about.
        ASSERT_TRUE(error < scale || (scale == 0 && error == 0))
            << ir::to_string(codec) << " element " << i << " of " << count << ": " << value[at]
            << " came back as " << back[at] << ", scale " << scale;
        const double multiple = scale == 0 ? 0 : static_cast<double>(back[at]) / scale;
        ASSERT_EQ(multiple, std::nearbyint(multiple));
        ASSERT_LE(std::fabs(multiple), most_of(codec));
      }
    }
  }
}

TEST(LossyCodecs, BlockwiseErrorIsBelowTheScale) {
  for (const Codec& codec : kBlockwise) {
    check_bound<float>(codec, -3, 3);
    check_bound<float>(codec, -149, 100);
    check_bound<float>(codec, -149, -120);
    check_bound<double>(codec, -3, 3);
    check_bound<double>(codec, -160, 100);
  }
}

// The greatest element is just above a multiple of a bf16 number, where the quotient rounds down.
TEST(LossyCodecs, BlockwiseScaleReachesTheGreatestElement) {
  for (const Codec& codec : kBlockwise) {
    const auto limit = static_cast<float>(most_of(codec));
    for (std::uint32_t bits = 0x3f80; bits < 0x4000; ++bits) {
      const float scale = std::bit_cast<float>(bits << 16);
      const float up = std::nextafter(scale * limit, std::numeric_limits<float>::infinity());
      const std::vector<float> value{up, -scale * limit, 0.5F};
      const auto back = round_trip(codec, value);
      const double bound = least_scale(value, 0, most_of(codec));
      EXPECT_GT(bound, scale);
      for (std::size_t i = 0; i < value.size(); ++i) {
        EXPECT_LT(std::fabs(double{back[i]} - double{value[i]}), bound);
      }
    }
  }
}

TEST(LossyCodecs, BlockwiseKeepsMultiplesOfTheScale) {
  for (const Codec& codec : kBlockwise) {
    std::vector<float> value;
    for (int i = -most_of(codec); i <= most_of(codec); ++i)
      value.push_back(0.375F * static_cast<float>(i));
    while (value.size() % kQuantizedBlock != 0) value.push_back(0);
    // Every block needs the greatest for that scale.
    for (std::size_t b = 0; b < value.size(); b += kQuantizedBlock) {
      value[b] = 0.375F * static_cast<float>(most_of(codec));
    }
    EXPECT_EQ(round_trip(codec, value), value);
  }
}

TEST(LossyCodecs, BlockwiseRefusesWhatNoScaleReaches) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Codec& codec : kBlockwise) {
    for (const float number : {infinity, -infinity, nan, -nan, std::numeric_limits<float>::max()}) {
      for (const std::size_t place : {0, 70, 1100, 1154}) {
        std::vector<float> value(1155, 1.0F);
        value[place] = number;
        EXPECT_TRUE(refused(codec, value)) << number << " at " << place;
      }
    }
    EXPECT_FALSE(refused<float>(codec, {3.3e38F, -3.3e38F}));
    EXPECT_TRUE(refused<double>(codec, {1e300}));
    EXPECT_TRUE(refused<double>(codec, {std::numeric_limits<double>::infinity()}));
    EXPECT_FALSE(make_codec(codec, Shape(DType::bf16, {8})).ok());
    EXPECT_FALSE(make_codec(codec, Shape(DType::s32, {8})).ok());
  }
}

TEST(LossyCodecs, BlockwiseTakesTheBytesItSays) {
  const auto bytes = [](CodecKind kind, std::int64_t count) {
    return ir::encoded_bytes({kind}, Shape(DType::f32, {count}));
  };
  EXPECT_EQ(bytes(CodecKind::int8, 0), 0);
  EXPECT_EQ(bytes(CodecKind::int8, 64), 66);
  EXPECT_EQ(bytes(CodecKind::int8, 65), 69);
  EXPECT_EQ(bytes(CodecKind::int4, 64), 34);
  EXPECT_EQ(bytes(CodecKind::int4, 65), 37);
  EXPECT_EQ(bytes(CodecKind::int4, 67), 38);
  EXPECT_EQ(bytes(CodecKind::int2, 64), 18);
  EXPECT_EQ(bytes(CodecKind::int2, 65), 21);
  EXPECT_EQ(bytes(CodecKind::int2, 69), 22);
}

// Over many seeds the mean of what comes back is the element: the deviation of a mean of n is at
// most scale / (2 sqrt(n)); six of them are allowed.
template <typename T>
void check_unbiased(const Codec& codec) {
  constexpr int kSeeds = 4000;
  const auto value = random_values<T>(130, 17, -6, 0);
  std::vector<double> sum(value.size());
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Codec keyed = codec;
    keyed.seed = static_cast<std::uint64_t>(seed);
    const auto back = round_trip(keyed, value);
    for (std::size_t i = 0; i < value.size(); ++i) sum[i] += static_cast<double>(back[i]);
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    const double scale = least_scale(value, static_cast<std::int64_t>(i), most_of(codec));
    EXPECT_LT(std::fabs(sum[i] / kSeeds - static_cast<double>(value[i])),
              scale * (6 / (2 * std::sqrt(kSeeds)) + 0x1p-16))
        << ir::to_string(codec) << " element " << i;
  }
}

TEST(LossyCodecs, BlockwiseRoundingIsUnbiased) {
  for (const Codec& codec : kBlockwise) {
    check_unbiased<float>(codec);
    check_unbiased<double>(codec);
  }
}

TEST(LossyCodecs, BlockwiseRoundsNeighboursAndValuesIndependently) {
  const std::vector<float> value = [] {
    std::vector<float> made(64 * 1024, 0.5F);
    for (std::size_t i = 0; i < made.size(); i += kQuantizedBlock) made[i] = 127;
    return made;
  }();
  // Every element but each block's first is 0 or 1 with equal chances.
  const auto one = round_trip({.kind = CodecKind::int8, .seed = 1}, value);
  const auto two = round_trip({.kind = CodecKind::int8, .seed = 2}, value);
  int neighbours = 0, values = 0, ups = 0;
  for (std::size_t i = 0; i + 1 < value.size(); ++i) {
    neighbours += one[i] == one[i + 1] ? 1 : 0;
    values += one[i] == two[i] ? 1 : 0;
    ups += one[i] == 1 ? 1 : 0;
  }
  const auto count = static_cast<double>(value.size());
  EXPECT_NEAR(neighbours / count, 0.5, 0.03);
  EXPECT_NEAR(values / count, 0.5, 0.03);
  EXPECT_NEAR(ups / count, 0.5, 0.03);
}

TEST(LossyCodecs, GiveTheSameBytesAtEveryThreadCount) {
  const int threads = device::thread_count();
  const auto value = random_values<float>(200 * 1024 + 77, 9, -8, 8);
  const auto finite = random_values<double>(200 * 1024 + 77, 9, -8, 8);
  for (const Codec& codec : {Codec{CodecKind::float16}, kBlockwise[0], kBlockwise[1]}) {
    device::set_thread_count(1);
    const Encoded one = encode(codec, value), wide = encode(codec, finite);
    const auto back = decode<float>(codec, one, value.size());
    for (const int count : {2, 5}) {
      device::set_thread_count(count);
      EXPECT_EQ(encode(codec, value).bytes, one.bytes) << ir::to_string(codec);
      EXPECT_EQ(encode(codec, finite).bytes, wide.bytes) << ir::to_string(codec);
      EXPECT_TRUE(same_bits(decode<float>(codec, one, value.size()), back));
    }
    device::set_thread_count(threads);
  }
}

TEST(LossyCodecs, HaveNamesAndBounds) {
  int lossy = 0;
  for (const ir::CodecInfo& row : ir::all_codecs()) {
    EXPECT_EQ(ir::to_string(row.kind), row.name);
    EXPECT_EQ(Codec{row.kind}.lossless(), ir::error_bound(row.kind).empty()) << row.name;
    EXPECT_EQ(ir::parse_lossy(row.name).has_value(), !Codec{row.kind}.lossless()) << row.name;
    if (!Codec{row.kind}.lossless()) {
      EXPECT_EQ(ir::parse_lossy(row.name), row.kind);
      ++lossy;
    }
  }
  EXPECT_GT(lossy, 0);
  EXPECT_TRUE(Codec{}.lossless());
  EXPECT_EQ(ir::to_string(Codec{.kind = CodecKind::int8, .seed = 12}), "int8(seed 12)");
  EXPECT_EQ(ir::to_string(Codec{CodecKind::narrow, DType::s8}), "narrow(s8)");
  EXPECT_EQ(ir::to_string(Codec{}), "none");
}

}  // namespace
}  // namespace plimsoll::kernels
