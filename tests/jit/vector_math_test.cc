// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "tests/cases/random.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

// Every function of floats that vector code computes by more than an instruction or two.
std::vector<ir::Opcode> long_functions() {
  std::vector<ir::Opcode> found;
  for (int i = 0; i < ir::opcode_count(); ++i) {
    const auto opcode = static_cast<ir::Opcode>(i);
    const ir::OpInfo& info = ir::op_info(opcode);
    const bool numbers = info.accepts == ir::Accepts::floating || opcode == ir::Opcode::power;
    if (numbers && info.code >= ir::VectorCode::slow) found.push_back(opcode);
  }
  return found;
}

// A whole number of 16 values and of 13: every bit pattern, small and huge magnitudes side by side.
constexpr std::int64_t kCount = 16 * 13 * 5;

template <typename T, typename Bits>
ir::Literal mixed_values(ir::DType dtype, std::uint64_t seed) {
  cases::Random random(seed);
  ir::Literal literal(ir::Shape(dtype, {kCount}));
  T* data = literal.mutable_data<T>();
  const T specials[] = {T(0),
                        -T(0),
                        T(1),
                        -T(1),
                        std::numeric_limits<T>::infinity(),
                        -std::numeric_limits<T>::infinity(),
                        std::numeric_limits<T>::quiet_NaN(),
                        std::numeric_limits<T>::denorm_min(),
                        std::numeric_limits<T>::max(),
                        T(1e9),
                        T(-1e30),
                        T(3)};
  for (std::int64_t i = 0; i < kCount; ++i) {
    switch (random.below(4)) {
      case 0:
        data[i] = std::bit_cast<T>(static_cast<Bits>(random.bits()));
        break;
      case 1:
        data[i] = specials[random.below(std::size(specials))];
        break;
      default:
        data[i] = static_cast<T>((random.unit() - 0.4) * 40);
    }
  }
  return literal;
}

ir::Literal part(const ir::Literal& whole, std::int64_t first, std::int64_t count) {
  const auto size = static_cast<std::size_t>(ir::dtype_bytes(whole.shape().dtype()));
  return ir::Literal::from_bytes(ir::Shape(whole.shape().dtype(), {count}),
                                 whole.bytes().subspan(static_cast<std::size_t>(first) * size,
                                                       static_cast<std::size_t>(count) * size));
}

class VectorMath : public ::testing::TestWithParam<ir::Opcode> {};

// A kernel's vectors are as wide as its row, up to the machine's: 1 value is scalar code, 2, 4 and
// 8 are vectors of so many, 3, 7 and 13 have idle lanes, 64 is a loop, 1040 / 13 = 80 a longer one.
TEST_P(VectorMath, HasTheBitsOfPlainCodeAtEveryWidthAndInEveryLane) {
  const std::string opcode(ir::to_string(GetParam()));
  const bool binary = ir::op_info(GetParam()).op_class == ir::OpClass::binary;
  for (const ir::DType dtype : {ir::DType::f32, ir::DType::f64}) {
    std::vector<ir::Literal> arguments;
    for (int i = 0; i < (binary ? 2 : 1); ++i) {
      const auto seed = static_cast<std::uint64_t>(3 + i);
      arguments.push_back(dtype == ir::DType::f32
                              ? mixed_values<float, std::uint32_t>(dtype, seed)
                              : mixed_values<double, std::uint64_t>(dtype, seed));
    }
    const auto program = [&](std::int64_t count) {
      const std::string shape = ir::Shape(dtype, {count}).to_string();
      return parse("HloModule m\nENTRY e {\n  x = " + shape + " parameter(0)\n" +
                   (binary ? "  y = " + shape + " parameter(1)\n" : "") + "  ROOT r = " + shape +
                   " " + opcode + (binary ? "(x, y)" : "(x)") + "\n}\n");
    };
    const auto expected = ir::interpret(*program(kCount), arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    for (const std::int64_t count : {1, 2, 3, 4, 7, 8, 13, 64, 80}) {
      SCOPED_TRACE(ir::Shape(dtype, {count}).to_string());
      const auto module = program(count);
      for (std::int64_t first = 0; first + count <= kCount; first += count) {
        std::vector<ir::Literal> parts;
        for (const ir::Literal& argument : arguments) parts.push_back(part(argument, first, count));
        const auto results = run(*module->entry()->root(), parts);
        ASSERT_TRUE(results.ok()) << results.status().to_string();
        ASSERT_TRUE(same_bits(part(*expected, first, count), (*results)[0])) << "from " << first;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, VectorMath, ::testing::ValuesIn(long_functions()),
                         [](const auto& info) {
                           std::string name(ir::to_string(info.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace plimsoll::jit::testing
