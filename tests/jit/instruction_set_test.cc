// SPDX-License-Identifier: Apache-2.0
// The same bits as the interpreter's, whichever of this machine's instructions a kernel may use.
#include <limits>

#include "tests/cases/fused_entry.h"
#include "tests/cases/random.h"
#include "tests/cases/random_rows.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

// What is taken away from the machine; FMA stays, as everywhere.
constexpr const char* kWithout[] = {"", "-avx512vnni", "-avx512f,-avx512vl,-avx512dq,-avx512bw",
                                    "-avx512f,-avx512vl,-avx512dq,-avx512bw,-avx2"};

class InstructionSet : public ::testing::TestWithParam<const char*> {
 protected:
  InstructionSet() {
    Options options;
    options.without_features = GetParam();
    compiler_ = std::move(Compiler::create(options)).value();
  }

  void check_on(const std::string& text, const std::vector<ir::Literal>& arguments) {
    SCOPED_TRACE(text);
    const auto module = parse(text);
    ASSERT_NE(module, nullptr);
    const auto expected = ir::interpret(*module, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    const auto results = run(*module->entry()->root(), arguments, -1, *compiler_);
    ASSERT_TRUE(results.ok()) << results.status().to_string();
    EXPECT_TRUE(same_bits(*expected, (*results)[0]));
  }

  std::unique_ptr<Compiler> compiler_;
};

// All values of a 16-bit float, and some more, so that vectors are not full in the end.
ir::Literal every(ir::DType dtype) {
  std::vector<std::uint16_t> bits((1 << 16) + 5);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  return ir::Literal::from_bytes(ir::Shape(dtype, {static_cast<std::int64_t>(bits.size())}),
                                 std::as_bytes(std::span(bits)));
}

// Any bits, and what comparisons and roundings trip over, in pairs of all kinds.
ir::Literal any_values(ir::DType dtype, std::int64_t count, std::uint64_t seed) {
  const double specials[] = {0.0,
                             -0.0,
                             1.0,
                             -1.0,
                             0x1p-133,
                             -0x1p-133,
                             0x1p-24,
                             65504.0,
                             3e38,
                             -3e38,
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()};
  cases::Random random(seed);
  ir::Literal literal(ir::Shape(dtype, {count}));
  for (std::byte& byte : literal.mutable_bytes()) byte = static_cast<std::byte>(random.bits());
  for (std::int64_t i = 0; i < count; ++i) {
    if (random.below(2) == 0) literal.set(i, specials[random.below(std::size(specials))]);
  }
  return literal;
}

TEST_P(InstructionSet, FunctionsHaveTheirBits) {
  for (const char* opcode : {"exponential", "exponential-minus-one", "log", "log-plus-one",
                             "logistic", "tanh", "sine", "erf", "cbrt", "rsqrt", "sqrt"}) {
    std::vector<ir::Literal> all{every(ir::DType::bf16), every(ir::DType::f16)};
    for (const std::int64_t count : {1, 3, 13, 4096 + 7}) {
      all.push_back(any_values(ir::DType::f32, count, 5));
    }
    for (const ir::Literal& x : all) {
      const std::string shape = x.shape().to_string();
      check_on(
          "ENTRY e { x = " + shape + " parameter(0)\n ROOT r = " + shape + " " + opcode + "(x) }",
          {x});
    }
  }
}

TEST_P(InstructionSet, FunctionsThatUnderflowHaveTheirBits) {
  const double edges[] = {-87.33654,
                          -0x1.9fe368p+6,
                          -0x1.9fe36ap+6,
                          -104,
                          -0x1.a00002p+6,
                          -0x1.74910d52d3051p+9,
                          -0x1.74910d52d3052p+9,
                          -746,
                          -0x1.7500000000001p+9,
                          -746.5,
                          -1e4,
                          -1e9,
                          -std::numeric_limits<double>::infinity(),
                          std::numeric_limits<double>::quiet_NaN()};
  cases::Random random(11);
  for (const ir::DType dtype : {ir::DType::f32, ir::DType::f64, ir::DType::bf16, ir::DType::f16}) {
    ir::Literal x(ir::Shape(dtype, {4096 + 7}));
    ir::Literal two(x.shape());
    const double most = dtype == ir::DType::f64 ? 800 : 120;
    for (std::int64_t i = 0; i < x.shape().element_count(); ++i) {
      const bool is_edge = random.below(3) == 0;
      const double value = is_edge ? edges[random.below(std::size(edges))] : -most * random.unit();
      x.set(i, random.below(8) == 0 ? -value : value);
      two.set(i, random.below(2) == 0 ? 2 : -2);
    }
    const std::string shape = x.shape().to_string();
    for (const char* opcode : {"exponential", "exponential-minus-one", "logistic", "tanh"}) {
      check_on(
          "ENTRY e { x = " + shape + " parameter(0)\n ROOT r = " + shape + " " + opcode + "(x) }",
          {x});
    }
    check_on("ENTRY e { y = " + shape + " parameter(0)\n x = " + shape +
                 " parameter(1)\n ROOT r = " + shape + " power(y, x) }",
             {two, x});
  }
}

TEST_P(InstructionSet, ArithmeticRoundsAndComparesAlike) {
  for (const ir::DType dtype : {ir::DType::bf16, ir::DType::f16, ir::DType::f32}) {
    for (const std::int64_t count : {1, 2, 7, 16, 31, 32, 33, 64, 20011}) {
      const ir::Literal x = any_values(dtype, count, 1), y = any_values(dtype, count, 2);
      const std::string shape = x.shape().to_string();
      const auto on_both = [&](const std::string& body) {
        const std::string parameters =
            "x = " + shape + " parameter(0)\n y = " + shape + " parameter(1)\n ";
        check_on("f { " + parameters + body + " }\nENTRY e { " + parameters +
                     "ROOT out = " + shape + " fusion(x, y), kind=kLoop, calls=f }",
                 {x, y});
      };
      for (const char* opcode : {"add", "subtract", "multiply", "divide", "maximum", "minimum"}) {
        on_both("ROOT r = " + shape + " " + opcode + "(x, y)");
      }
      // What one operation leaves, the next one takes without a way through memory.
      on_both("a = " + shape + " multiply(x, y)\n b = " + shape + " maximum(a, y)\n c = " + shape +
              " subtract(b, x)\n d = " + shape + " negate(c)\n k = pred[" + std::to_string(count) +
              "] compare(d, x), direction=LT\n s = " + shape + " select(k, d, a)\n t = " + shape +
              " tanh(s)\n ROOT r = " + shape + " add(t, b)");
    }
  }
}

TEST_P(InstructionSet, RowsHaveTheirBits) {
  // Maxima and differences, which no order of additions can change.
  for (const char* dtype : {"bf16", "f16", "f32"}) {
    for (const char* minor : {"7", "64", "300", "1040"}) {
      const std::string d = dtype, dims = "[9," + std::string(minor) + "]";
      const auto module = parse(
          "most { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT m = f32[] maximum(a, b) "
          "}\n"
          "f { p = " +
          d + dims + " parameter(0)\n x = f32" + dims +
          " convert(p)\n n = f32[] constant(-inf)\n m = f32[9] reduce(x, n), dimensions={1}, "
          "to_apply=most\n mb = f32" +
          dims + " broadcast(m), dimensions={0}\n c = f32" + dims + " subtract(x, mb)\n e = f32" +
          dims +
          " exponential(c)\n h = f32[9] reduce(e, n), "
          "dimensions={1}, to_apply=most\n hb = f32" +
          dims + " broadcast(h), dimensions={0}\n y = f32" + dims +
          " divide(e, hb)\n ROOT r = " + d + dims + " convert(y) }\nENTRY e { p = " + d + dims +
          " parameter(0)\n ROOT out = " + d + dims + " fusion(p), kind=kLoop, calls=f }");
      ASSERT_NE(module, nullptr);
      const auto arguments = arguments_for(*module->entry(), 3);
      const auto expected = ir::interpret(*module, arguments);
      ASSERT_TRUE(expected.ok()) << expected.status().to_string();
      const auto results = run(*module->entry()->root(), arguments, -1, *compiler_);
      ASSERT_TRUE(results.ok()) << results.status().to_string();
      EXPECT_TRUE(same_bits(*expected, (*results)[0])) << d << dims;
    }
  }
}

TEST_P(InstructionSet, SumsOfColumnsBesideRowsHaveTheirBits) {
  for (const char* dtype : {"bf16", "f32"}) {
    for (const std::int64_t minor : {9, 64, 300}) {
      const auto module = parse(cases::RandomRows(7, 290, minor, dtype, true).text());
      ASSERT_NE(module, nullptr);
      const auto fusion = cases::fused_entry(*module);
      ASSERT_NE(fusion, nullptr);
      const ir::Instruction& root = *fusion->entry()->root();
      const auto arguments = arguments_for(*module->entry(), 5);
      const auto expected = run(root, arguments);
      ASSERT_TRUE(expected.ok()) << expected.status().to_string();
      const auto results = run(root, arguments, -1, *compiler_);
      ASSERT_TRUE(results.ok()) << results.status().to_string();
      for (std::size_t i = 0; i < expected->size(); ++i) {
        EXPECT_TRUE(same_bits((*expected)[i], (*results)[i])) << dtype << minor << " result " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Without, InstructionSet, ::testing::ValuesIn(kWithout),
                         [](const auto& info) { return std::to_string(info.index); });

}  // namespace
}  // namespace plimsoll::jit::testing
