// SPDX-License-Identifier: Apache-2.0
// Codecs as GPU kernels: the codes of the CPU's, what they decode to, and what they refuse.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "jit/gpu/gpu_codec.h"
#include "kernels/codec.h"
#include "runtime/device/cpu/cpu_device.h"
#include "tests/cases/compare.h"
#include "tests/jit/gpu/grid_emulator.h"

namespace plimsoll::jit::testing {
namespace {

using ir::Codec;
using ir::CodecKind;
using ir::DType;
using ir::Shape;
using Bytes = std::vector<std::byte>;

constexpr DType kDTypes[] = {DType::pred, DType::s8,  DType::s16, DType::s32, DType::s64,
                             DType::u8,   DType::u16, DType::u32, DType::u64, DType::f16,
                             DType::bf16, DType::f32, DType::f64};
// Around bytes of bits, blocks of a scale and blocks of threads.
constexpr std::int64_t kCounts[] = {0, 1, 7, 8, 9, 31, 63, 64, 65, 127, 130, 1000, 2051};

struct Made {
  bool is_lost = false;
  Bytes bytes;
};

// Memory that begins at a multiple of 16, with a guard behind it.
class Room {
 public:
  explicit Room(std::size_t bytes) : bytes_(bytes), memory_((bytes + 47) / 16 + 1) {
    std::memset(memory_.data(), 0xab, memory_.size() * sizeof(memory_[0]));
  }
  void* data() { return memory_.data(); }
  Bytes bytes() const {
    const auto* begin = reinterpret_cast<const std::byte*>(memory_.data());
    return {begin, begin + bytes_};
  }
  bool is_intact() const {
    const auto* end = reinterpret_cast<const std::byte*>(memory_.data()) + bytes_;
    for (int i = 0; i < 16; ++i) {
      if (end[i] != std::byte{0xab}) return false;
    }
    return true;
  }

 private:
  struct alignas(16) Piece {
    std::byte bytes[16];
  };
  std::size_t bytes_;
  std::vector<Piece> memory_;
};

Made on_cpu(const device::Kernel& kernel, const Bytes& from, std::size_t to) {
  const auto stream = device::cpu_device()->create_stream();
  Room in(from.size()), out(to);
  if (!from.empty()) std::memcpy(in.data(), from.data(), from.size());
  const void* input = in.data();
  void* output = out.data();
  const Status status = kernel.launch(**stream, {{&input, 1}, {&output, 1}, nullptr});
  EXPECT_TRUE(status.ok() || status.code() == StatusCode::data_loss) << status.to_string();
  return {!status.ok(), out.bytes()};
}

// In several orders of the threads, which all must give the same.
Made on_gpu(EmulatedKernel& kernel, const Bytes& from, std::size_t to) {
  EXPECT_EQ(kernel.workspace_bytes(), 0);
  Made made;
  using Kind = ThreadOrder::Kind;
  for (const ThreadOrder order :
       {ThreadOrder{Kind::forward, 0}, {Kind::backward, 0}, {Kind::shuffled, 5}}) {
    Room in(from.size()), out(to), workspace(0);
    if (!from.empty()) std::memcpy(in.data(), from.data(), from.size());
    // Beside a multiple of 16, as the words of a stream are.
    alignas(16) std::array<std::uint32_t, 3> report = {7, 0, 7};
    const std::array<void*, 4> pointers = {in.data(), out.data(), workspace.data(), &report[1]};
    const Status status = kernel.run(pointers, 1, order);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(in.is_intact() && out.is_intact() && in.bytes() == from);
    EXPECT_EQ(report[0] + report[2], 14u);
    EXPECT_LE(report[1], 1u);
    const Made now{report[1] != 0, out.bytes()};
    if (order.kind != Kind::forward) {
      EXPECT_EQ(now.is_lost, made.is_lost);
      EXPECT_TRUE(now.is_lost || now.bytes == made.bytes) << "another order, other bytes";
    }
    made = now;
  }
  return made;
}

struct Checked {
  int kept = 0, lost = 0;
};

// What the codec makes of `value` and of what it encoded, on both.
void check(const Codec& codec, const Shape& shape, const Bytes& value, Checked& checked) {
  SCOPED_TRACE(ir::to_string(codec) + " of " + shape.to_string());
  const auto cpu = kernels::make_codec(codec, shape);
  ASSERT_TRUE(cpu.ok()) << cpu.status().to_string();
  const auto encoder = EmulatedKernel::encoder(codec, shape);
  ASSERT_TRUE(encoder.ok()) << encoder.status().to_string();
  const auto decoder = EmulatedKernel::decoder(codec, shape);
  ASSERT_TRUE(decoder.ok()) << decoder.status().to_string();
  const auto size = static_cast<std::size_t>(ir::encoded_bytes(codec, shape));
  const Made expected = on_cpu(*cpu->encode, value, size);
  const Made encoded = on_gpu(**encoder, value, size);
  ASSERT_EQ(encoded.is_lost, expected.is_lost);
  ++(encoded.is_lost ? checked.lost : checked.kept);
  if (encoded.is_lost) return;
  EXPECT_EQ(encoded.bytes, expected.bytes);
  const Made back = on_cpu(*cpu->decode, expected.bytes, value.size());
  const Made decoded = on_gpu(**decoder, expected.bytes, value.size());
  EXPECT_EQ(decoded.bytes, back.bytes);
  EXPECT_FALSE(decoded.is_lost);
}

Bytes random_bytes(std::mt19937_64& random, std::int64_t count) {
  Bytes bytes(static_cast<std::size_t>(count));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Bytes random_value(const Shape& shape, std::uint64_t seed, bool specials) {
  cases::InputRange range{-3, 3};
  range.specials = specials;
  const ir::Literal literal = cases::random_literal(shape, seed, range);
  return {literal.bytes().begin(), literal.bytes().end()};
}

TEST(GpuCodecs, MasksHaveTheBitsOfTheCpu) {
  Checked checked;
  std::mt19937_64 random(1);
  for (const std::int64_t count : kCounts) {
    const Shape truths(DType::pred, {count});
    check({.kind = CodecKind::bit_mask}, truths, random_value(truths, 3, false), checked);
    // Bytes that are neither 0 nor 1.
    check({.kind = CodecKind::bit_mask}, truths, random_bytes(random, count), checked);
  }
  EXPECT_GT(checked.lost, 5);
  for (const DType dtype : kDTypes) {
    if (dtype == DType::pred) continue;
    for (int i = 0; i < 6; ++i) {
      const Shape shape(dtype, {i == 0 ? 200 : 37});
      Codec codec{.kind = CodecKind::compare_mask};
      codec.direction = static_cast<ir::ComparisonDirection>(i);
      codec.constant = i % 2;
      check(codec, shape, random_value(shape, 5, true), checked);
    }
  }
  Codec infinite{.kind = CodecKind::compare_mask, .constant = INFINITY};
  check(infinite, Shape(DType::bf16, {100}), random_value(Shape(DType::bf16, {100}), 5, true),
        checked);
}

TEST(GpuCodecs, NarrowKeepsEveryBitOrSaysThatItDoesNot) {
  std::mt19937_64 random(2);
  int pairs = 0;
  Checked checked;
  for (const DType wide : kDTypes) {
    for (const DType stored : kDTypes) {
      const Codec codec{.kind = CodecKind::narrow, .stored = stored};
      const Shape shape(wide, {300});
      if (!ir::suits(codec, shape)) continue;
      ++pairs;
      // What any code stands for, NaNs with their payloads among it; then what may have no code.
      const auto cpu = kernels::make_codec(codec, shape);
      ASSERT_TRUE(cpu.ok());
      const Bytes codes = random_bytes(random, ir::encoded_bytes(codec, shape));
      const Made value = on_cpu(*cpu->decode, codes, static_cast<std::size_t>(shape.byte_size()));
      check(codec, shape, value.bytes, checked);
      check(codec, shape, random_value(shape, 7, true), checked);
    }
  }
  EXPECT_GT(pairs, 40);
  EXPECT_GT(checked.kept, pairs / 2);
  EXPECT_GT(checked.lost, 20);
  for (const std::int64_t count : kCounts) {
    const Shape shape(DType::f32, {count});
    check({.kind = CodecKind::narrow, .stored = DType::s8}, shape,
          Bytes(static_cast<std::size_t>(shape.byte_size()), std::byte{0}), checked);
  }
}

TEST(GpuCodecs, RoundAsTheCpuDoes) {
  std::mt19937_64 random(3);
  Checked checked;
  for (const CodecKind kind : {CodecKind::bfloat16, CodecKind::float16}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Shape shape(dtype, {4096});
      // Any bits: subnormal numbers, ties, infinities, NaNs, and what overflows, which is refused.
      const Bytes bits = random_bytes(random, shape.byte_size());
      check({.kind = kind}, shape, bits, checked);
      check({.kind = kind}, shape, random_value(shape, 9, true), checked);
      // The same without what overflows.
      ir::Literal fitting = ir::Literal::from_bytes(shape, bits);
      for (std::int64_t i = 0; i < 4096; ++i) {
        const double size = std::abs(fitting.at(i));
        if (std::isfinite(size) && size > (kind == CodecKind::float16 ? 65519 : 3.39e38)) {
          fitting.set(i, INFINITY);
        }
      }
      check({.kind = kind}, shape, {fitting.bytes().begin(), fitting.bytes().end()}, checked);
      // Bit by bit around what f16 begins to lose: exponents of 2^-26 to 2^14.
      const auto width = static_cast<std::size_t>(ir::dtype_bytes(dtype));
      Bytes near = bits;
      for (std::size_t i = 0; i < 4096; ++i) {
        const double number = std::ldexp(1 + static_cast<double>(random() % 8192) / 4096.0,
                                         static_cast<int>(random() % 40) - 26);
        const auto single = static_cast<float>(number);
        std::memcpy(&near[i * width], width == 8 ? static_cast<const void*>(&number) : &single,
                    width);
      }
      check({.kind = kind}, shape, near, checked);
    }
  }
  EXPECT_GE(checked.kept, 8);
  EXPECT_GE(checked.lost, 4);
}

TEST(GpuCodecs, BlocksHaveTheMultiplesOfTheCpu) {
  Checked checked;
  for (const CodecKind kind : {CodecKind::int8, CodecKind::int4, CodecKind::int2}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const std::int64_t count : kCounts) {
        const Shape shape(dtype, {count});
        const Codec codec{.kind = kind, .seed = 11 + static_cast<std::uint64_t>(count)};
        check(codec, shape, random_value(shape, 13, false), checked);
      }
      // Infinite and NaN in some block, and so small that scales are subnormal.
      const Shape shape(dtype, {500});
      check({.kind = kind, .seed = 1}, shape, random_value(shape, 17, true), checked);
      ir::Literal tiny = cases::random_literal(shape, 19, {-3, 3});
      for (std::int64_t i = 0; i < 500; ++i) tiny.set(i, tiny.at(i) * 0x1p-130);
      check({.kind = kind}, shape, {tiny.bytes().begin(), tiny.bytes().end()}, checked);
    }
  }
  EXPECT_EQ(checked.lost, 6);
}

TEST(GpuCodecs, AreRefusedWhereTheCpuRefusesThem) {
  const Shape integers(DType::s32, {10});
  for (const CodecKind kind : {CodecKind::bit_mask, CodecKind::bfloat16, CodecKind::int4}) {
    const auto refused = write_gpu_encoder({.kind = kind}, integers);
    EXPECT_EQ(refused.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(refused.status().message().find("s32[10]"), std::string::npos);
  }
  EXPECT_FALSE(
      write_gpu_decoder({.kind = CodecKind::compare_mask, .constant = 0.5}, integers).ok());
}

}  // namespace
}  // namespace plimsoll::jit::testing
