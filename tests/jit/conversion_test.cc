// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "tests/cases/compare.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

// Everything that f16 and bf16 hold.
ir::Literal every_value(ir::DType dtype) {
  ir::Literal literal(ir::Shape(dtype, {0x10000}));
  auto* bits = reinterpret_cast<std::uint16_t*>(literal.mutable_bytes().data());
  for (std::uint32_t i = 0; i < 0x10000; ++i) bits[i] = static_cast<std::uint16_t>(i);
  return literal;
}

// The floats in the middle of two neighbours of either format, those beside them, and NaNs: a float
// decides by the bits it has more.
ir::Literal every_tie() {
  std::vector<std::uint32_t> bits;
  for (const int dropped : {16, 13}) {
    const std::uint32_t half = 1u << (dropped - 1);
    for (std::uint32_t high = 0; high < 1u << (32 - dropped); ++high) {
      for (const std::uint32_t low : {half - 1, half, half + 1}) {
        bits.push_back(high << dropped | low);
      }
    }
  }
  // Subnormals of f16, whose middles lie elsewhere.
  for (std::uint32_t n = 0; n < 2048; ++n) {
    const auto middle = std::bit_cast<std::uint32_t>((static_cast<float>(n) + 0.5f) * 0x1p-24f);
    for (const std::uint32_t beside : {middle - 1, middle, middle + 1}) {
      bits.push_back(beside);
      bits.push_back(beside | 0x80000000u);
    }
  }
  const auto bytes = std::as_bytes(std::span(bits));
  return ir::Literal::from_bytes(
      ir::Shape(ir::DType::f32, {static_cast<std::int64_t>(bits.size())}), bytes);
}

std::string convert(const ir::Shape& from, const char* to) {
  const std::string dims = "[" + std::to_string(from.dim(0)) + "]";
  return "HloModule m\nENTRY e {\n  x = " + from.to_string() + " parameter(0)\n  ROOT r = " + to +
         dims + " convert(x)\n}\n";
}

TEST(Conversion, EverySmallFloatWidensAsInTheInterpreter) {
  for (const ir::DType dtype : {ir::DType::f16, ir::DType::bf16}) {
    const ir::Literal values = every_value(dtype);
    for (const char* to : {"f32", "f64", "f16", "bf16", "s32", "u8"}) {
      SCOPED_TRACE(to);
      check(*parse(convert(values.shape(), to)), {values});
    }
  }
}

TEST(Conversion, EveryTieBetweenSmallFloatsRoundsAsInTheInterpreter) {
  const ir::Literal values = every_tie();
  for (const char* to : {"f16", "bf16"}) {
    SCOPED_TRACE(to);
    check(*parse(convert(values.shape(), to)), {values});
  }
}

}  // namespace
}  // namespace plimsoll::jit::testing
