// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "runtime/ir/narrow.h"
#include "runtime/ir/text/text.h"

namespace plimsoll::ir {
namespace {

Result<Literal> read_constant(std::string_view shape, std::string_view value) {
  auto module = parse_module("c = " + std::string(shape) + " constant(" + std::string(value) + ")");
  if (!module.ok()) return module.status();
  return *(*module)->entry()->root()->attributes().literal;
}

std::string print_constant(const Literal& literal, const PrintOptions& options = {}) {
  Module module("m");
  Computation* entry = module.add_computation("main");
  entry->add_constant(literal, "c");
  module.set_entry(entry);
  return to_text(module, options);
}

Literal through_text(const Literal& literal) {
  auto module = parse_module(print_constant(literal));
  EXPECT_TRUE(module.ok()) << module.status().message();
  if (!module.ok()) return {};
  return *(*module)->entry()->root()->attributes().literal;
}

TEST(LiteralText, ReadsNestedBraces) {
  const auto literal = read_constant("s32[2,2,2]", "{ { {1, -2}, /*i0=0*/ {3,4}}, {{5,6}, {7,8}}}");
  ASSERT_TRUE(literal.ok()) << literal.status().message();
  const std::int32_t expected[] = {1, -2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(*literal, Literal::array<std::int32_t>({2, 2, 2}, expected));
}

TEST(LiteralText, TakesRowsWithoutACommaBetween) {
  const auto with = read_constant("s32[2,2,1]", "{{{1},{2}},{{3},{4}}}");
  const auto without = read_constant("s32[2,2,1]", "{ /*i0=0*/ {{1}{2}} /*i0=1*/ {{3},{4}} }");
  ASSERT_TRUE(with.ok() && without.ok()) << without.status().message();
  EXPECT_EQ(*with, *without);
  EXPECT_FALSE(read_constant("s32[2]", "{1 2}").ok());
}

TEST(LiteralText, ReadsSpecialFloats) {
  const auto literal = read_constant("f32[7]", "{inf, -inf, nan, -nan, nan(0x1), -0, 1e-45}");
  ASSERT_TRUE(literal.ok()) << literal.status().message();
  const auto bits = [&](int i) { return std::bit_cast<std::uint32_t>(literal->data<float>()[i]); };
  EXPECT_EQ(bits(0), 0x7f800000u);
  EXPECT_EQ(bits(1), 0xff800000u);
  EXPECT_EQ(bits(2), 0x7fc00000u);
  EXPECT_EQ(bits(3), 0xffc00000u);
  EXPECT_EQ(bits(4), 0x7f800001u);
  EXPECT_EQ(bits(5), 0x80000000u);
  EXPECT_EQ(bits(6), 1u);
}

TEST(LiteralText, ReadsBooleansTuplesAndElidedValues) {
  const auto flags = read_constant("pred[4]", "{true, false, 1, 0}");
  ASSERT_TRUE(flags.ok()) << flags.status().message();
  EXPECT_EQ(flags->at(0) + flags->at(2), 2);
  EXPECT_EQ(flags->at(1) + flags->at(3), 0);
  const auto tuple =
      read_constant("(f32[2], (pred[], u64[]))", "({1.5,2}, (true, 18446744073709551615))");
  ASSERT_TRUE(tuple.ok()) << tuple.status().message();
  EXPECT_EQ(tuple->elements()[1].elements()[1].data<std::uint64_t>()[0],
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(through_text(*tuple), *tuple);
  const auto elided = read_constant("f32[1000000]", "{...}");
  ASSERT_TRUE(elided.ok()) << elided.status().message();
  EXPECT_TRUE(elided->is_elided());
  EXPECT_EQ(through_text(*elided), *elided);
}

TEST(LiteralText, ReadsOneValueForAll) {
  const auto literal = read_constant("f32[100,100]", "2.5");
  ASSERT_TRUE(literal.ok()) << literal.status().message();
  EXPECT_TRUE(literal->is_splat());
  EXPECT_EQ(literal->at(9999), 2.5);
  EXPECT_NE(print_constant(*literal).find("constant(2.5)"), std::string::npos);
  EXPECT_EQ(through_text(*literal), *literal);
}

TEST(LiteralText, TakesArraysWithoutElements) {
  for (const char* text : {"{}", "{{}, {}}"}) {
    const auto literal = read_constant("f32[2,0]", text);
    ASSERT_TRUE(literal.ok()) << literal.status().message();
    EXPECT_EQ(through_text(*literal), *literal);
  }
}

TEST(LiteralText, RefusesWhatDoesNotFit) {
  for (const auto& [shape, value] : {std::pair{"s8[]", "128"},
                                     {"u8[]", "-1"},
                                     {"s32[]", "1.5"},
                                     {"pred[]", "2"},
                                     {"f32[]", "1e39"},
                                     {"f16[]", "70000"},
                                     {"f16[]", "nan(0x1000)"},
                                     {"f32[]", "nan(0)"},
                                     {"f32[]", "1x"},
                                     {"f32[]", ""},
                                     {"f32[2]", "{1}"},
                                     {"f32[2]", "{1,2,3}"},
                                     {"f32[2,2]", "{1,2,3,4}"},
                                     {"f32[1000000]", "{1,2}"},
                                     {"f32[10000000000]", "1"},
                                     {"(f32[])", "1"},
                                     {"token[]", "1"}}) {
    const auto literal = read_constant(shape, value);
    ASSERT_FALSE(literal.ok()) << shape << " " << value;
    EXPECT_EQ(literal.status().code(), StatusCode::invalid_argument);
    EXPECT_TRUE(literal.status().message().starts_with("hlo:1:")) << literal.status().message();
  }
}

TEST(LiteralText, PrintsEveryBitPatternBack) {
  std::mt19937_64 random(7);
  const auto check = [&](DType dtype) {
    Literal literal{Shape(dtype, {97})};
    for (std::byte& byte : literal.mutable_bytes()) {
      byte = static_cast<std::byte>(dtype == DType::pred ? random() % 2 : random());
    }
    EXPECT_EQ(through_text(literal), literal) << to_string(dtype);
  };
  for (int repeat = 0; repeat < 20; ++repeat) {
#define PLIMSOLL_DTYPE(name, text, type, bytes, kind) check(DType::name);
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
  }
}

TEST(LiteralText, PrintsEveryCodeOfANarrowDtypeBack) {
  const auto check = [&](DType dtype) {
    Literal literal{Shape(dtype, {2, 1 << (dtype_bits(dtype) - 1)})};
    for (int i = 0; i < 1 << dtype_bits(dtype); ++i) {
      set_code_at(dtype, literal.mutable_bytes(), i, static_cast<std::uint8_t>(i));
    }
    EXPECT_EQ(through_text(literal), literal) << to_string(dtype);
  };
#define PLIMSOLL_DTYPE(...)
#define PLIMSOLL_NARROW_DTYPE(name, text, bits, kind) check(DType::name);
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
}

TEST(LiteralText, ReadsNarrowNumbersThatFit) {
  const auto numbers = read_constant("f8e4m3fn[5]", "{1, -0.4375, 448, nan, 0.001}");
  ASSERT_TRUE(numbers.ok()) << numbers.status().message();
  EXPECT_EQ(numbers->at(1), -0.4375);
  EXPECT_EQ(numbers->at(2), 448);
  EXPECT_TRUE(std::isnan(numbers->at(3)));
  EXPECT_EQ(numbers->at(4), 0x1p-9);
  const auto all = read_constant("s4[3]", "-8");
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->at(2), -8);
  for (const auto& [shape, value] : {std::pair{"s4[]", "8"},
                                     {"s4[]", "-9"},
                                     {"u4[]", "16"},
                                     {"u4[]", "-1"},
                                     {"s2[]", "2"},
                                     {"s4[]", "1.5"},
                                     {"f8e4m3fn[]", "inf"},
                                     {"f8e4m3fn[]", "1000"},
                                     {"f8e5m2[]", "1e9"},
                                     {"f8e5m2[]", "nan(0x4)"},
                                     {"f8e4m3fnuz[]", "-inf"},
                                     {"f4e2m1fn[]", "nan"},
                                     {"f4e2m1fn[]", "8"},
                                     {"f8e8m0fnu[]", "0"},
                                     {"f8e8m0fnu[]", "-1"}}) {
    EXPECT_FALSE(read_constant(shape, value).ok()) << shape << " " << value;
  }
}

TEST(LiteralText, PrintsEveryHalfFloatBack) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Literal literal{Shape(dtype, {65536})};
    auto* bits = reinterpret_cast<std::uint16_t*>(literal.mutable_bytes().data());
    for (std::uint32_t i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
    EXPECT_EQ(through_text(literal), literal) << to_string(dtype);
  }
}

TEST(LiteralText, ElidesLargeConstantsOnRequest) {
  PrintOptions options;
  options.large_constants = false;
  EXPECT_NE(print_constant(Literal(Shape(DType::f32, {17})), options).find("({...})"),
            std::string::npos);
  EXPECT_EQ(print_constant(Literal(Shape(DType::f32, {16})), options).find("({...})"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll::ir
