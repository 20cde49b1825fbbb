// SPDX-License-Identifier: Apache-2.0
// The text of GPU kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>

#include "jit/gpu/gpu_kernel.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

GpuCompiler* gpu_compiler(int capability) {
  auto created = GpuCompiler::create({capability});
  if (!created.ok()) return nullptr;
  static std::map<int, std::unique_ptr<GpuCompiler>> all;
  return (all[capability] = *std::move(created)).get();
}

#define SKIP_WITHOUT_NVPTX(compiler) \
  if ((compiler) == nullptr) GTEST_SKIP() << "this LLVM has no NVPTX target"

std::string ptx_of(GpuCompiler& compiler, const std::string& text) {
  const auto module = parse(text);
  if (module == nullptr) return "";
  const auto kernel = compiler.compile(*module->entry()->root());
  EXPECT_TRUE(kernel.ok()) << kernel.status().to_string();
  return kernel.ok() ? (*kernel)->ptx : "";
}

std::string unary(const std::string& op, const std::string& shape) {
  return "ENTRY e { p = " + shape + " parameter(0)\n ROOT r = " + shape + " " + op + "(p) }";
}

bool holds(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, std::regex(pattern));
}

TEST(Ptx, RoundsEveryOperationAndContractsNone) {
  GpuCompiler* compiler = gpu_compiler(75);
  SKIP_WITHOUT_NVPTX(compiler);
  const std::string ptx = ptx_of(
      *compiler,
      "f { a = f32[70] parameter(0)\n b = f32[70] parameter(1)\n c = f32[70] parameter(2)\n m = "
      "f32[70] multiply(a, b)\n s = f32[70] add(m, c)\n d = f32[70] divide(s, a)\n q = f32[70] "
      "sqrt(d)\n ROOT r = f32[70] subtract(q, c) }\nENTRY e { a = f32[70] parameter(0)\n b = "
      "f32[70] parameter(1)\n c = f32[70] parameter(2)\n ROOT r = f32[70] fusion(a, b, c), "
      "kind=kLoop, calls=f }");
  for (const char* one : {"mul\\.rn\\.f32", "add\\.rn\\.f32", "div\\.rn\\.f32", "sqrt\\.rn\\.f32",
                          "sub\\.rn\\.f32"}) {
    EXPECT_TRUE(holds(ptx, one)) << one << "\n" << ptx;
  }
  // Without .rn the assembler may contract a product and a sum.
  EXPECT_FALSE(holds(ptx, "fma|\\.ftz|\\.approx|(add|mul|sub)\\.f32")) << ptx;
}

TEST(Ptx, FunctionsAreOurOwn) {
  GpuCompiler* compiler = gpu_compiler(80);
  SKIP_WITHOUT_NVPTX(compiler);
  for (const char* op : {"exponential", "tanh", "sine", "log", "rsqrt", "cbrt", "erf"}) {
    for (const char* dtype : {"f32[9]", "f64[9]", "bf16[9]"}) {
      const std::string ptx = ptx_of(*compiler, unary(op, dtype));
      EXPECT_FALSE(holds(ptx, "\\.ftz|\\.approx|(add|mul|sub)\\.f(32|64)|ex2|lg2|\\.extern"))
          << op << " of " << dtype << "\n"
          << ptx;
    }
  }
}

// Whatever was compiled before: LLVM numbers the calls of functions.
TEST(Ptx, IsTheSameEveryTime) {
  for (const char* op : {"sine", "tan"}) {
    std::string first;
    for (int i = 0; i < 2; ++i) {
      GpuCompiler* compiler = gpu_compiler(75);
      SKIP_WITHOUT_NVPTX(compiler);
      const std::string ptx = ptx_of(*compiler, unary(op, "f64[9]"));
      EXPECT_TRUE(holds(ptx, "call\\.uni")) << ptx;
      EXPECT_TRUE(i == 0 || ptx == first) << op;
      first = ptx;
    }
  }
}

TEST(Ptx, AccessesSixteenBytes) {
  GpuCompiler* compiler = gpu_compiler(75);
  SKIP_WITHOUT_NVPTX(compiler);
  for (const char* shape : {"f32[1000003]", "bf16[500,4096]", "f64[262144]"}) {
    const std::string ptx = ptx_of(*compiler, unary("negate", shape));
    EXPECT_TRUE(holds(ptx, "ld\\.global\\.v[24]\\.")) << ptx;
    EXPECT_TRUE(holds(ptx, "st\\.global\\.v[24]\\.")) << ptx;
  }
}

// One instruction for two bf16 where the GPU has it, and one for an f16 everywhere.
TEST(Ptx, RoundsToSixteenBitsByInstructionsOfItsOwn) {
  for (const int capability : {75, 80, 90}) {
    GpuCompiler* compiler = gpu_compiler(capability);
    SKIP_WITHOUT_NVPTX(compiler);
    const auto product = [&](const std::string& dtype) {
      const std::string type = dtype + "[1048576]";
      return ptx_of(*compiler, "ENTRY e { p = " + type + " parameter(0)\n q = " + type +
                                   " parameter(1)\n ROOT r = " + type + " multiply(p, q) }");
    };
    const std::string brain = product("bf16"), half = product("f16");
    EXPECT_EQ(holds(brain, "cvt\\.rn\\.bf16x2\\.f32"), capability >= 80) << brain;
    EXPECT_TRUE(holds(half, "cvt\\.rn\\.f16\\.f32") && holds(half, "cvt\\.f32\\.f16")) << half;
  }
}

TEST(Ptx, IndexesInThirtyTwoBitsWhereArraysAreSmall) {
  GpuCompiler* compiler = gpu_compiler(75);
  SKIP_WITHOUT_NVPTX(compiler);
  const auto transposed = [](const std::string& from, const std::string& to) {
    return "ENTRY e { p = s8[" + from + "] parameter(0)\n ROOT t = s8[" + to +
           "] transpose(p), dimensions={1,0} }";
  };
  const char* const kWide = "(div|rem|mul\\.hi|mul\\.lo)\\.[us]64";
  EXPECT_FALSE(holds(ptx_of(*compiler, transposed("300,7000", "7000,300")), kWide));
  EXPECT_TRUE(holds(ptx_of(*compiler, transposed("70001,70003", "70003,70001")), kWide));
}

TEST(Ptx, NamesTheArchitecture) {
  for (const int capability : {75, 80, 90}) {
    GpuCompiler* compiler = gpu_compiler(capability);
    SKIP_WITHOUT_NVPTX(compiler);
    const std::string ptx = ptx_of(*compiler, unary("abs", "f32[4]"));
    EXPECT_TRUE(holds(ptx, "\\.target sm_" + std::to_string(capability)));
    EXPECT_TRUE(holds(ptx, "\\.entry kernel_0"));
  }
}

TEST(GpuCompiler, SharesKernelsAndSaysWhatItRefuses) {
  GpuCompiler* compiler = gpu_compiler(75);
  SKIP_WITHOUT_NVPTX(compiler);
  const auto module = parse(unary("negate", "f32[12]"));
  const auto again = parse(unary("negate", "f32[12]"));
  const auto one = compiler->compile(*module->entry()->root());
  const auto two = compiler->compile(*again->entry()->root());
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(*one, *two);
  EXPECT_EQ((*one)->launches.size(), 1u);
  EXPECT_EQ((*one)->launches[0].arguments, (std::vector<int>{0, 1, 2}));

  const auto rng = parse(
      "ENTRY e { p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT r = f32[9] rng(p, q), "
      "distribution=rng_uniform }");
  EXPECT_EQ(compiler->compile(*rng->entry()->root()).status().code(), StatusCode::unimplemented);
  EXPECT_EQ(GpuCompiler::create({60}).status().code(), StatusCode::unimplemented);
}

}  // namespace
}  // namespace plimsoll::jit::testing
