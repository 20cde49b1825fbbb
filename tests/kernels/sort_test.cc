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

}  // namespace
}  // namespace plimsoll::kernels
