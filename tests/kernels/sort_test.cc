// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <tuple>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/kernels/kernel_harness.h"

namespace plimsoll::kernels {
namespace {

// Any bits but those of signalling NaNs, which the interpreter's arithmetic makes quiet; or few
// different values and, of floats, zeros of both signs.
ir::Literal sort_keys(const ir::Shape& shape, bool any_bits, std::mt19937& random) {
  ir::Literal literal(shape);
  if (any_bits && shape.dtype() != ir::DType::pred) {
    const std::span<std::byte> bytes = literal.mutable_bytes();
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (!ir::is_floating(shape.dtype())) return literal;
    const auto size = static_cast<std::size_t>(ir::dtype_bytes(shape.dtype()));
    const std::byte quiet{shape.dtype() == ir::DType::f64   ? std::uint8_t{8}
                          : shape.dtype() == ir::DType::f16 ? std::uint8_t{2}
                                                            : std::uint8_t{64}};
    for (std::size_t i = 0; i < bytes.size() / size; ++i) {
      if (std::isnan(literal.at(static_cast<std::int64_t>(i)))) {
        bytes[i * size + size - (shape.dtype() == ir::DType::f16 ? 1 : 2)] |= quiet;
      }
    }
    return literal;
  }
  const bool has_sign = ir::dtype_class(shape.dtype()) == ir::DTypeClass::signed_int ||
                        ir::is_floating(shape.dtype());
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    const int value = static_cast<int>(random() % 7u) - (has_sign ? 3 : 0);
    const bool is_negative_zero = value == 0 && ir::is_floating(shape.dtype()) && random() % 2 == 0;
    literal.set(i, shape.dtype() == ir::DType::pred ? value % 2 : is_negative_zero ? -0.0 : value);
  }
  return literal;
}

// dtype, direction, order.
class SortsOf : public testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {};

TEST_P(SortsOf, AreTheInterpretersWhateverTheLengthAndTheBits) {
  const auto& [dtype, direction, order] = GetParam();
  const std::string type(dtype);
  std::mt19937 random(7);
  const int before = device::thread_count();
  for (const std::string dims : {"[95]", "[97]", "[3,700]", "[515,2]", "[66001]"}) {
    for (const bool any_bits : {false, true}) {
      SCOPED_TRACE(type + dims + (any_bits ? " of any bits" : ""));
      const std::string keys = type + dims, places = "s32" + dims;
      auto module = ir::parse_module(
          "HloModule m\nbefore { a = " + type + "[] parameter(0) b = " + type +
          "[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3) ROOT r = pred[] "
          "compare(a, b), direction=" +
          direction + order + " }\nENTRY e { k = " + keys + " parameter(0) v = " + places +
          " parameter(1) ROOT r = (" + keys + ", " + places + ") sort(k, v), dimensions={" +
          (dims == "[3,700]" ? "1" : "0") + "}, is_stable=true, to_apply=before }");
      ASSERT_TRUE(module.ok()) << module.status().to_string();
      const ir::Instruction& root = *(*module)->entry()->root();
      ir::Literal numbers(root.operand(1)->shape());
      for (std::int64_t i = 0; i < numbers.shape().element_count(); ++i) numbers.set(i, i);
      const std::vector<ir::Literal> operands = {
          sort_keys(root.operand(0)->shape(), any_bits, random), numbers};
      auto expected = ir::interpret(root, operands);
      ASSERT_TRUE(expected.ok()) << expected.status().to_string();
      for (const int threads : {1, 2}) {
        device::set_thread_count(threads);
        auto got = run_instruction(root, operands);
        ASSERT_TRUE(got.ok()) << got.status().to_string();
        // Bits, as NaNs differ from themselves.
        for (int i = 0; i < 2; ++i) {
          const auto a = expected->elements()[at(i)].bytes(), b = got->elements()[at(i)].bytes();
          EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << "result " << i;
        }
      }
    }
  }
  device::set_thread_count(before);
}

INSTANTIATE_TEST_SUITE_P(Sort, SortsOf,
                         testing::Combine(testing::Values("f32", "f64", "f16", "bf16", "s8", "u8",
                                                          "s32", "u32", "s64", "u64", "pred"),
                                          testing::Values("LT", "GT", "GE"),
                                          testing::Values("", ", type=TOTALORDER")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + std::get<1>(info.param) +
                                  (std::string(std::get<2>(info.param)).empty() ? "" : "Total");
                         });

// A first key of `first` that falls, a second one of f32 by its size, and a third of bits of
// `last`; written in either order of operands.
std::string by_three_keys(const std::string& first, const std::string& last, bool turned) {
  const auto both = [&](const std::string& a, const std::string& b) {
    return turned ? "(" + b + ", " + a + ")" : "(" + a + ", " + b + ")";
  };
  return "before { a = " + first + "[] parameter(0) b = " + first +
         "[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3) e = " + last +
         "[] parameter(4) f = " + last +
         "[] parameter(5) x = f32[] abs(c) y = f32[] abs(d)\n"
         " g0 = pred[] compare(a, b), direction=GT, type=TOTALORDER\n"
         " e0 = pred[] compare(a, b), direction=EQ, type=TOTALORDER\n"
         " g1 = pred[] compare(x, y), direction=LT, type=TOTALORDER\n"
         " e1 = pred[] compare(x, y), direction=EQ, type=TOTALORDER\n"
         " g2 = pred[] compare(e, f), direction=LT, type=TOTALORDER\n"
         " n1 = pred[] and" +
         both("e1", "g2") + "\n o1 = pred[] or" + both("g1", "n1") + "\n n0 = pred[] and" +
         both("e0", "o1") + "\n ROOT o0 = pred[] or" + both("g0", "n0") + " }\n";
}

TEST(Sort, BySeveralKeysInTurnIsTheInterpreters) {
  std::mt19937 random(11);
  for (const std::string first : {"s32", "bf16", "f64", "pred"}) {
    for (const std::string last : {"u8", "s64", "f16"}) {
      for (const std::string dims : {"[1]", "[6]", "[90]", "[1400]", "[300,5]", "[66000]"}) {
        SCOPED_TRACE(first + last + dims);
        const std::string a = first + dims, b = "f32" + dims, c = last + dims;
        const auto module = ir::parse_module(
            "HloModule m\n" + by_three_keys(first, last, dims == "[90]") + "ENTRY e { k = " + a +
            " parameter(0) l = " + b + " parameter(1) m = " + c + " parameter(2) ROOT r = (" + a +
            ", " + b + ", " + c + ") sort(k, l, m), dimensions={0}, is_stable=true, " +
            "to_apply=before }");
        ASSERT_TRUE(module.ok()) << module.status().to_string();
        const ir::Instruction& root = *(*module)->entry()->root();
        std::vector<ir::Literal> operands;
        for (int i = 0; i < 3; ++i) {
          operands.push_back(sort_keys(root.operand(i)->shape(), i == 2, random));
        }
        const auto expected = ir::interpret(root, operands);
        ASSERT_TRUE(expected.ok()) << expected.status().to_string();
        const auto got = run_instruction(root, operands);
        ASSERT_TRUE(got.ok()) << got.status().to_string();
        for (int i = 0; i < 3; ++i) {
          const auto x = expected->elements()[at(i)].bytes(), y = got->elements()[at(i)].bytes();
          EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin(), y.end())) << "result " << i;
        }
      }
    }
  }
}

TEST(TopK, IsTheInterpretersWhateverTheBits) {
  std::mt19937 random(3);
  const int before = device::thread_count();
  for (const std::string type :
       {"f32", "f64", "f16", "bf16", "s8", "u8", "s32", "u32", "s64", "u64", "pred"}) {
    for (const auto& [lines, length, count] : {std::tuple{1, 4, 1},
                                               {3, 63, 5},
                                               {7, 64, 16},
                                               {2, 65, 65},
                                               {5, 3000, 1},
                                               {3, 3000, 700},
                                               {1, 40000, 8},
                                               {40, 900, 50},
                                               {2, 10, 0}}) {
      for (const int bits : {0, 1, 2}) {
        SCOPED_TRACE(type + " " + std::to_string(length) + " " + std::to_string(count) + " " +
                     std::to_string(bits));
        const std::string rows = std::to_string(lines) + ",";
        const std::string from = type + "[" + rows + std::to_string(length) + "]";
        const std::string kept = "[" + rows + std::to_string(count) + "]";
        const auto module = ir::parse_module("HloModule m\nENTRY e { x = " + from +
                                             " parameter(0) ROOT t = (" + type + kept + ", s32" +
                                             kept + ") topk(x), k=" + std::to_string(count) +
                                             ", largest=" + (bits == 1 ? "false" : "true") + " }");
        ASSERT_TRUE(module.ok()) << module.status().to_string();
        const ir::Instruction& root = *(*module)->entry()->root();
        ir::Literal x = sort_keys(root.operand(0)->shape(), bits < 2, random);
        // In the order that keeps nothing of what was kept before.
        for (std::int64_t i = 0; bits == 2 && type == "f32" && i < length; ++i) {
          x.set(i, static_cast<double>(i));
        }
        const std::vector<ir::Literal> operands{x};
        const auto expected = ir::interpret(root, operands);
        ASSERT_TRUE(expected.ok()) << expected.status().to_string();
        for (const int threads : {1, 2}) {
          device::set_thread_count(threads);
          const auto got = run_instruction(root, operands);
          ASSERT_TRUE(got.ok()) << got.status().to_string();
          for (int i = 0; i < 2; ++i) {
            const auto a = expected->elements()[at(i)].bytes(), b = got->elements()[at(i)].bytes();
            EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << "result " << i;
          }
        }
      }
    }
  }
  device::set_thread_count(before);
}

}  // namespace
}  // namespace plimsoll::kernels
