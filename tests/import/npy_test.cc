// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/npy.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace plimsoll::import {
namespace {

Result<ir::Literal> parse(const std::string& text) {
  return parse_npy(std::as_bytes(std::span(text)), "x.npy");
}

std::string file(const std::string& header, const std::string& data) {
  std::string text = "\x93NUMPY";
  text += '\x01';
  text += '\x00';
  text += static_cast<char>(header.size());
  text += '\x00';
  return text + header + data;
}

TEST(Npy, WritesWhatItReads) {
  for (const ir::Dims& dims : {ir::Dims{}, ir::Dims{5}, ir::Dims{2, 3}, ir::Dims{0, 4}}) {
#define PLIMSOLL_DTYPE(name, text, type, bytes, kind)               \
  {                                                                 \
    ir::Literal literal(ir::Shape(ir::DType::name, dims));          \
    for (std::byte & b : literal.mutable_bytes()) b = std::byte{1}; \
    const auto again = parse(npy_bytes(literal));                   \
    ASSERT_TRUE(again.ok()) << again.status().message();            \
    EXPECT_EQ(*again, literal);                                     \
  }
#include "runtime/ir/dtypes.def"
#undef PLIMSOLL_DTYPE
  }
}

TEST(Npy, WritesAByteForEachElementOfANarrowDtype) {
  ir::Literal fours(ir::Shape(ir::DType::s4, {3}));
  for (int i = 0; i < 3; ++i) fours.set(i, i - 2);
  auto again = parse(npy_bytes(fours));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->shape(), ir::Shape(ir::DType::s8, {3}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(again->at(i), i - 2);
  ir::Literal floats(ir::Shape(ir::DType::f8e5m2, {2}));
  floats.set(0, 1);
  floats.set(1, -2);
  again = parse(npy_bytes(floats));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->shape(), ir::Shape(ir::DType::u8, {2}));
  EXPECT_EQ(again->at(0), 0x3C);
  EXPECT_EQ(again->at(1), 0xC0);
}

TEST(Npy, ReadsFortranOrderAndBigEndian) {
  const std::int16_t column_major[] = {1, 4, 2, 5, 3, 6};
  const std::string data(reinterpret_cast<const char*>(column_major), sizeof column_major);
  auto literal = parse(file("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }\n", data));
  ASSERT_TRUE(literal.ok()) << literal.status().message();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(literal->at(i), i + 1);
  literal = parse(file("{\"shape\": (1,), \"fortran_order\": False, \"descr\": \">i2\"}",
                       std::string("\x01\x02", 2)));
  ASSERT_TRUE(literal.ok()) << literal.status().message();
  EXPECT_EQ(literal->at(0), 0x102);
  // 1 + 2i: the parts stay in their order.
  literal = parse(file("{'descr': '>c8', 'fortran_order': False, 'shape': (1,)}",
                       std::string("\x3f\x80\0\0\x40\0\0\0", 8)));
  ASSERT_TRUE(literal.ok()) << literal.status().message();
  EXPECT_EQ(literal->data<float>()[0], 1);
  EXPECT_EQ(literal->data<float>()[1], 2);
}

TEST(Npy, TruthsBecomeZeroOrOne) {
  const auto literal = parse(file("{'descr': '|b1', 'fortran_order': False, 'shape': (4,)}",
                                  std::string("\0\1\2\377", 4)));
  ASSERT_TRUE(literal.ok()) << literal.status().message();
  const auto bytes = literal->bytes();
  EXPECT_EQ(std::vector<std::byte>(bytes.begin(), bytes.end()),
            (std::vector<std::byte>{std::byte{0}, std::byte{1}, std::byte{1}, std::byte{1}}));
}

TEST(Npy, NamesTheFileInErrors) {
  for (const std::string& text :
       {std::string(), std::string("\x93NUMPY"), file("{}", ""),
        file("{'descr': '<c4', 'fortran_order': False, 'shape': (1,)}", "12345678"),
        file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "1234"),
        file("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999,9999999999)}", ""),
        file("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", ""),
        file("{'descr': '<f4', 'fortran_order': False, 'shape': (1", "")}) {
    const auto literal = parse(text);
    ASSERT_FALSE(literal.ok());
    EXPECT_TRUE(literal.status().message().starts_with("x.npy: ")) << literal.status().message();
  }
  EXPECT_EQ(read_npy("/nonexistent/x.npy").status().code(), StatusCode::not_found);
}

TEST(Npy, SurvivesMutatedFiles) {
  std::mt19937 random(3);
  const std::string good = npy_bytes(ir::Literal(ir::Shape(ir::DType::f32, {3, 4})));
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (int edits = 0; edits < 3; ++edits) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    text.resize(random() % 8 == 0 ? random() % text.size() : text.size());
    (void)parse(text);
  }
}

}  // namespace
}  // namespace plimsoll::import
