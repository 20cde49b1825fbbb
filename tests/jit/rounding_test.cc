// SPDX-License-Identifier: Apache-2.0
// Rounding to small floats and integers against the interpreter, where bits are most easily lost.
#include <limits>

#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

void check_on(const std::string& text, const std::vector<ir::Literal>& arguments) {
  SCOPED_TRACE(text);
  const auto module = parse(text);
  if (module != nullptr) check(*module, arguments);
}

// All 65,536 values of a 16-bit float.
ir::Literal every_rounded(ir::DType dtype) {
  std::vector<std::uint16_t> bits(1 << 16);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  return ir::Literal::from_bytes(ir::Shape(dtype, {1 << 16}), std::as_bytes(std::span(bits)));
}

TEST(Rounding, RoundsArithmeticOnSmallFloats) {
  for (const auto& [name, dtype] :
       {std::pair{"f16", ir::DType::f16}, std::pair{"bf16", ir::DType::bf16}}) {
    const std::string d = name;
    ir::Literal all = every_rounded(dtype);
    // Functions of bf16 numbers may have an implementation of their own.
    for (const char* function : {"sqrt", "logistic", "tanh", "exponential"}) {
      SCOPED_TRACE(d + function);
      check_on("ENTRY e { p = " + d + "[65536] parameter(0)\n ROOT r = " + d + "[65536] " +
                   function + "(p) }",
               {all});
    }
    for (const char* op : {"add", "subtract", "multiply", "divide", "maximum", "minimum"}) {
      for (const double other : {1.0, -3.0, 1.0009765625, 65504.0, 6e-8, 1e-30,
                                 std::numeric_limits<double>::infinity()}) {
        ir::Literal scalar(ir::Shape(dtype, {}));
        scalar.set(0, other);
        check_on("f { p = " + d + "[65536] parameter(0)\n q = " + d + "[] parameter(1)\n b = " + d +
                     "[65536] broadcast(q), dimensions={}\n ROOT r = " + d + "[65536] " + op +
                     "(p, b) }\nENTRY e { p = " + d + "[65536] parameter(0)\n q = " + d +
                     "[] parameter(1)\n ROOT r = " + d +
                     "[65536] fusion(p, q), kind=kLoop, calls=f }",
                 {all, scalar});
      }
    }
  }
}

TEST(Rounding, LimitsToWhatAnIntegerHolds) {
  std::vector<float> values{0.0f,
                            -0.0f,
                            0.99f,
                            -0.99f,
                            1e30f,
                            -1e30f,
                            127.5f,
                            128.0f,
                            -128.9f,
                            -129.0f,
                            255.9f,
                            256.0f,
                            -0.5f,
                            32767.9f,
                            -32768.9f,
                            65535.5f,
                            65536.0f,
                            2147483520.0f,
                            2147483648.0f,
                            -2147483648.0f,
                            -2147483904.0f,
                            4294967040.0f,
                            4294967296.0f,
                            9.3e18f,
                            std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()};
  const auto count = static_cast<std::int64_t>(values.size());
  const auto literal =
      ir::Literal::from_bytes(ir::Shape(ir::DType::f32, {count}), std::as_bytes(std::span(values)));
  for (const char* to : {"s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"}) {
    const std::string n = std::to_string(count);
    check_on(
        "ENTRY e { p = f32[" + n + "] parameter(0)\n ROOT r = " + to + "[" + n + "] convert(p) }",
        {literal});
  }
}

}  // namespace
}  // namespace plimsoll::jit::testing
