// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <random>

#include "runtime/ir/interpreter/interpreter.h"
#include "tests/cases/compare.h"
#include "tests/cases/op_cases.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

const char* const kTwoResults =
    "HloModule m\nmake { p = f32[512,512] parameter(0)\n s = f32[512,512] add(p, p)\n"
    "q = f32[512,512] multiply(s, s)\n ROOT t = (f32[512,512], f32[512,512]) tuple(s, q) }\n"
    "both { a = f32[512,512] parameter(0)\n b = f32[512,512] parameter(1)\n"
    "ROOT r = f32[512,512] subtract(a, b) }\n"
    "three { a = f32[512,512] parameter(0)\n b = f32[512,512] parameter(1)\n"
    "c = f32[512,512] parameter(2)\n d = f32[512,512] subtract(a, b)\n"
    "ROOT r = f32[512,512] subtract(d, c) }\n"
    "one { b = f32[512,512] parameter(0)\n ROOT r = f32[512,512] tanh(b) }\n"
    "ENTRY e { x = f32[512,512] parameter(0)\n"
    "m = (f32[512,512], f32[512,512]) fusion(x), kind=kLoop, calls=make\n"
    "s = f32[512,512] get-tuple-element(m), index=0\n"
    "q = f32[512,512] get-tuple-element(m), index=1\n"
    "d = f32[512,512] dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";

TEST(RecomputeResults, LeavesOutWhatReadersComputeFromTheRest) {
  auto module = parse(std::string(kTwoResults) +
                      "u = f32[512,512] fusion(s, q), kind=kLoop, calls=both\n"
                      "ROOT r = (f32[512,512], f32[512,512]) tuple(d, u) }");
  ASSERT_TRUE(*recompute_results(*module));
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).message();
  EXPECT_EQ(expression(*module->entry()->root()->operand(1)),
            "fusion{subtract(p0, multiply(p0, p0))}(fusion{add(p0, p0)}(p0))");
  EXPECT_FALSE(*recompute_results(*module));
}

TEST(RecomputeResults, KnowsReadersThatReadEachOther) {
  auto module = parse(std::string(kTwoResults) +
                      "u = f32[512,512] fusion(s, q), kind=kLoop, calls=both\n"
                      "v = f32[512,512] fusion(u, q), kind=kLoop, calls=both\n"
                      "w = f32[512,512] fusion(v, s), kind=kLoop, calls=both\n"
                      "z = f32[512,512] fusion(q, s), kind=kLoop, calls=both\n"
                      "ROOT r = (f32[512,512], f32[512,512], f32[512,512]) tuple(d, w, z) }");
  EXPECT_FALSE(*recompute_results(*module));  // v does not read s

  module = parse(std::string(kTwoResults) +
                 "u = f32[512,512] fusion(s, q), kind=kLoop, calls=both\n"
                 "v = f32[512,512] fusion(s, q, u), kind=kLoop, calls=three\n"
                 "ROOT r = (f32[512,512], f32[512,512]) tuple(d, v) }");
  ASSERT_TRUE(*recompute_results(*module));
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).message();
  EXPECT_EQ(expression(*module->entry()->root()->operand(1)),
            "fusion{subtract(subtract(p0, multiply(p0, p0)), p1)}(fusion{add(p0, p0)}(p0), "
            "fusion{subtract(p0, multiply(p0, p0))}(fusion{add(p0, p0)}(p0)))");
}

TEST(RecomputeResults, KeepsWhatAReaderCannotCompute) {
  auto module = parse(std::string(kTwoResults) +
                      "u = f32[512,512] fusion(s, q), kind=kLoop, calls=both\n"
                      "v = f32[512,512] fusion(q), kind=kLoop, calls=one\n"
                      "ROOT r = (f32[512,512], f32[512,512], f32[512,512]) tuple(d, u, v) }");
  EXPECT_FALSE(*recompute_results(*module));
}

TEST(RecomputeResults, KeepsWhatIsAResultOfTheProgram) {
  auto module = parse(std::string(kTwoResults) +
                      "u = f32[512,512] fusion(s, q), kind=kLoop, calls=both\n"
                      "ROOT r = (f32[512,512], f32[512,512], f32[512,512]) tuple(d, u, q) }");
  EXPECT_FALSE(*recompute_results(*module));
}

// Six multiplications for two readers: dearer than reading a small array from the cache, but not
// from memory, where it is when other kernels have made much between.
TEST(RecomputeResults, KnowsThatCachesForget) {
  for (const int between : {0, 8}) {
    std::string text =
        "HloModule m\nmake { p = f32[128,128] parameter(0)\n q0 = f32[128,128] add(p, p)\n";
    for (int i = 0; i < 6; ++i) {
      text += fmt::format("q{} = f32[128,128] multiply(q{}, q{})\n", i + 1, i, i);
    }
    text +=
        "ROOT t = (f32[128,128], f32[128,128]) tuple(q0, q6) }\n"
        "both { a = f32[128,128] parameter(0)\n b = f32[128,128] parameter(1)\n"
        "ROOT r = f32[128,128] subtract(a, b) }\n"
        "ENTRY e { x = f32[128,128] parameter(0)\n"
        "m = (f32[128,128], f32[128,128]) fusion(x), kind=kLoop, calls=make\n"
        "s = f32[128,128] get-tuple-element(m), index=0\n"
        "q = f32[128,128] get-tuple-element(m), index=1\n"
        "d0 = f32[128,128] dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
    for (int i = 0; i < between; ++i) {
      text += fmt::format(
          "d{} = f32[128,128] dot(d{}, s), lhs_contracting_dims={{1}}, "
          "rhs_contracting_dims={{0}}\n",
          i + 1, i);
    }
    auto module = parse(text + fmt::format("u = f32[128,128] fusion(s, q), kind=kLoop, calls=both\n"
                                           "v = f32[128,128] fusion(q, s), kind=kLoop, calls=both\n"
                                           "ROOT r = (f32[128,128], f32[128,128], f32[128,128]) "
                                           "tuple(d{}, u, v) }}",
                                           between));
    EXPECT_EQ(*recompute_results(*module), between > 0);
    ASSERT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).message();
  }
}

// Up to 7 % more time is spent on fewer bytes: the second result's `work` operations for each of
// two readers, that read it from memory else.
TEST(RecomputeResults, SpendsALittleTimeOnBytes) {
  const auto is_left_out = [](int work) {
    std::string text =
        "HloModule m\nmake { p = f32[512,512] parameter(0)\n q0 = f32[512,512] add(p, p)\n";
    for (int i = 0; i < work; ++i) {
      text += fmt::format("q{} = f32[512,512] multiply(q{}, q{})\n", i + 1, i, i);
    }
    auto module = parse(
        text + fmt::format("ROOT t = (f32[512,512], f32[512,512]) tuple(q0, q{}) }}\n", work) +
        std::string(kTwoResults).substr(std::string(kTwoResults).find("both {")) +
        "u = f32[512,512] fusion(s, q), kind=kLoop, calls=both\n"
        "v = f32[512,512] fusion(q, s), kind=kLoop, calls=both\n"
        "ROOT r = (f32[512,512], f32[512,512], f32[512,512]) tuple(d, u, v) }");
    return *recompute_results(*module);
  };
  EXPECT_TRUE(is_left_out(18));
  EXPECT_FALSE(is_left_out(19));
}

// Two parts of elementwise operations with a product between them: the second reads values of the
// first, as a gradient does.
std::string random_step(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  const char* const kBinary[] = {"add", "subtract", "multiply", "maximum"};
  const char* const kUnary[] = {"tanh", "negate", "abs", "cosine"};
  std::string text =
      "HloModule m\nENTRY e { x = f32[64,64] parameter(0)\n y = f32[64,64] parameter(1)\n";
  const auto product = [&](const char* name, int of) {
    text += fmt::format(
        "{} = f32[64,64] dot(v{}, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n",
        name, of);
  };
  text += "v0 = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  const int first = 4 + static_cast<int>(rng() % 6), second = 4 + static_cast<int>(rng() % 8);
  const auto operation = [&](int at, int from) {
    const auto value = [&] {
      return from + static_cast<int>(rng() % static_cast<unsigned>(at - from));
    };
    if (rng() % 3 == 0) {
      text += fmt::format("v{} = f32[64,64] {}(v{})\n", at, kUnary[rng() % 4], value());
    } else {
      text +=
          fmt::format("v{} = f32[64,64] {}(v{}, v{})\n", at, kBinary[rng() % 4], value(), value());
    }
  };
  for (int at = 1; at < first; ++at) operation(at, 0);
  product("w", first - 1);
  text +=
      fmt::format("v{} = f32[64,64] add(w, v{})\n", first, rng() % static_cast<unsigned>(first));
  for (int at = first + 1; at < first + second; ++at) operation(at, 0);
  text += fmt::format("ROOT r = (f32[64,64], f32[64,64], f32[64,64]) tuple(w, v{}, v{}) }}",
                      first + second - 1,
                      first + static_cast<int>(rng() % static_cast<unsigned>(second)));
  return text;
}

TEST(RecomputeResults, KeepsTheBitsOfRandomSteps) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    auto module = parse(random_step(seed));
    const auto arguments = cases::random_arguments(*module, seed, {});
    const auto expected = ir::interpret(*module, arguments);
    ASSERT_TRUE(expected.ok() && fuse(*module).ok() && fuse_multi_output(*module).ok());
    const auto bytes = [&] {
      std::int64_t sum = 0;
      for (const auto& each : module->entry()->instructions()) {
        if (each->opcode() != ir::Opcode::fusion) continue;
        for (const ir::Shape* leaf : ir::leaves(each->shape())) sum += leaf->byte_size();
      }
      return sum;
    };
    const std::int64_t stored = bytes();
    const auto left_out = recompute_results(*module);
    ASSERT_TRUE(left_out.ok()) << left_out.status().message();
    ASSERT_TRUE(ir::verify(*module).ok()) << seed << ": " << ir::verify(*module).message();
    const auto actual = ir::interpret(*module, arguments);
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    EXPECT_EQ(cases::compare_bits(*expected, *actual), "") << random_step(seed);
    if (*left_out) ++changed;
    EXPECT_EQ(*left_out, bytes() < stored) << random_step(seed);
  }
  EXPECT_GT(changed, 30);
}

}  // namespace
}  // namespace plimsoll::passes
