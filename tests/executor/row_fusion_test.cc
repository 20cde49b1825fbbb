// SPDX-License-Identifier: Apache-2.0
// The rules of the row-fusion pass and those of the compiler are one set of rules.
#include <gtest/gtest.h>

#include "jit/jit.h"
#include "runtime/ir/text/text.h"
#include "runtime/passes/passes.h"
#include "tests/cases/random_rows.h"

namespace plimsoll {
namespace {

TEST(RowFusions, TheCompilerTakesWhatThePassesMake) {
  int fusions = 0, single_kernels = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const auto rows = static_cast<std::int64_t>(1 + seed * 7 % 60);
    const auto minor = static_cast<std::int64_t>(2 + seed * 13 % 300);
    auto module =
        ir::parse_module(cases::RandomRows(seed, rows, minor, "f32", seed % 3 == 0).text());
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const Status optimized = passes::optimize(**module);
    ASSERT_TRUE(optimized.ok()) << optimized.to_string();
    int kernels = 0;
    for (const auto& instruction : (*module)->entry()->instructions()) {
      if (instruction->opcode() != ir::Opcode::fusion) continue;
      ++kernels;
      const auto kernel = jit::kernel_text(*instruction, 64);
      EXPECT_TRUE(kernel.ok()) << kernel.status().message() << "\n" << ir::to_text(**module);
    }
    fusions += kernels;
    if (kernels == 1) ++single_kernels;
  }
  EXPECT_GT(fusions, 300);
  EXPECT_GT(single_kernels, 150);
}

}  // namespace
}  // namespace plimsoll
