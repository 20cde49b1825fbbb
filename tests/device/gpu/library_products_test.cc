// SPDX-License-Identifier: Apache-2.0
// Products on a GPU, where there is one (scripts/test-gpu.sh), by its library and by our own
// kernels, against the CPU; and how fast both are.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/device/gpu/gpu_libraries.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device {
namespace {

struct ProductCase {
  std::string lhs, rhs, result, dims;
};

std::unique_ptr<ir::Module> module_of(const ProductCase& c, const std::string& operands,
                                      const std::string& result) {
  auto module = ir::parse_module("HloModule m\nENTRY e {\n  a = " + operands + "[" + c.lhs +
                                     "] parameter(0)\n  b = " + operands + "[" + c.rhs +
                                     "] parameter(1)\n  ROOT r = " + result + "[" + c.result +
                                     "] dot(a, b), " + c.dims + "\n}\n",
                                 "product");
  if (!module.ok()) {
    ADD_FAILURE() << module.status().to_string();
    return nullptr;
  }
  return *std::move(module);
}

using GpuLibraryProducts = GpuLibraries;

// Sums of 300 and fewer products: the error of bf16 and f16 is that of rounding the result.
double tolerance_of(const std::string& result) {
  if (result == "bf16") return 8e-3;
  if (result == "f16") return 2e-3;
  return result == "f64" ? 1e-13 : 1e-5;
}

TEST_F(GpuLibraryProducts, AreThoseOfTheCpuAndTheSameInEveryRun) {
  if (IsSkipped()) return;
  std::vector<ProductCase> table;
  // Odd sizes and even ones, vectors, every way that a matrix may lie.
  for (const auto& [m, n, k] : std::initializer_list<std::array<int, 3>>{{64, 64, 64},
                                                                         {128, 256, 64},
                                                                         {33, 17, 65},
                                                                         {1, 128, 300},
                                                                         {128, 1, 300},
                                                                         {1, 1, 77},
                                                                         {300, 8, 16},
                                                                         {7, 500, 1},
                                                                         {72, 40, 24}}) {
    table.push_back({fmt::format("{},{}", m, k), fmt::format("{},{}", k, n),
                     fmt::format("{},{}", m, n),
                     "lhs_contracting_dims={1}, rhs_contracting_dims={0}"});
    table.push_back({fmt::format("{},{}", k, m), fmt::format("{},{}", k, n),
                     fmt::format("{},{}", m, n),
                     "lhs_contracting_dims={0}, rhs_contracting_dims={0}"});
    table.push_back({fmt::format("{},{}", m, k), fmt::format("{},{}", n, k),
                     fmt::format("{},{}", m, n),
                     "lhs_contracting_dims={1}, rhs_contracting_dims={1}"});
    table.push_back({fmt::format("{},{}", k, m), fmt::format("{},{}", n, k),
                     fmt::format("{},{}", m, n),
                     "lhs_contracting_dims={0}, rhs_contracting_dims={1}"});
  }
  // Batches of one stride, heads side by side, several contracted dims, a long sum.
  table.push_back({"2,3,24,16", "2,3,16,40", "2,3,24,40",
                   "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, "
                   "rhs_contracting_dims={2}"});
  table.push_back({"5,31,16", "5,33,16", "5,31,33",
                   "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
                   "rhs_contracting_dims={2}"});
  table.push_back({"4,31,6,16", "4,33,6,16", "4,6,31,33",
                   "lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, "
                   "rhs_contracting_dims={3}"});
  table.push_back(
      {"12,6,8,5", "8,5,20", "12,6,20", "lhs_contracting_dims={2,3}, rhs_contracting_dims={0,1}"});
  table.push_back(
      {"16,65536", "65536,24", "16,24", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"});
  const std::pair<const char*, const char*> kTypes[] = {
      {"f32", "f32"}, {"bf16", "bf16"}, {"bf16", "f32"}, {"f16", "f16"},
      {"f16", "f32"}, {"f64", "f64"},   {"s8", "s32"}};
  for (const auto& [operands, result] : kTypes) {
    int by_library = 0, by_own = 0;
    for (const ProductCase& c : table) {
      SCOPED_TRACE(fmt::format("{}[{}] {}[{}] {}", operands, c.lhs, operands, c.rhs, c.dims));
      const auto module = module_of(c, operands, result);
      if (module == nullptr) continue;
      const auto arguments = cases::random_arguments(*module, 11);
      std::string error;
      const ir::Literal expected = testing::run_unlimited(*module, arguments, *cpu_, true, error);
      ASSERT_EQ(error, "");
      const auto kernel = with_libraries_->kernel(*module->entry()->root());
      ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
      ((*kernel)->origin() == KernelOrigin::library ? by_library : by_own) += 1;
      const double long_sum = c.lhs == "16,65536" ? 4 : 1;
      const ir::Literal first =
          testing::run_unlimited(*module, arguments, *with_libraries_, true, error);
      ASSERT_EQ(error, "");
      EXPECT_EQ(cases::compare_close(expected, first, long_sum * tolerance_of(result), 1), "");
      for (int i = 0; i < 3; ++i) {
        const ir::Literal again =
            testing::run_unlimited(*module, arguments, *with_libraries_, true, error);
        ASSERT_EQ(error, "");
        EXPECT_EQ(cases::compare_bits(first, again), "");
      }
      const ir::Literal own = testing::run_unlimited(*module, arguments, *own_, true, error);
      ASSERT_EQ(error, "");
      EXPECT_EQ(cases::compare_close(expected, own, long_sum * tolerance_of(result), 1), "")
          << "by our own kernel";
    }
    std::printf("%s x %s -> %s: %d by the library, %d by own kernels\n", operands, operands, result,
                by_library, by_own);
    if (gpu_->libraries().products != nullptr && std::string(operands) != "s8") {
      EXPECT_EQ(by_own, 0);
    }
  }
  std::printf("overhead_bytes %lld\n", static_cast<long long>(gpu_->overhead_bytes()));
}

TEST_F(GpuLibraryProducts, AreTimed) {
  if (IsSkipped()) return;
  struct Row {
    const char* operands;
    const char* result;
    int batch, m, n, k;
  };
  const Row kRows[] = {
      {"f32", "f32", 1, 4096, 4096, 4096},   {"f32", "f32", 1, 1024, 1024, 1024},
      {"f32", "f32", 1, 512, 3072, 768},     {"f32", "f32", 1, 1, 4096, 4096},
      {"f32", "f32", 96, 512, 512, 64},      {"bf16", "bf16", 1, 4096, 4096, 4096},
      {"bf16", "bf16", 1, 8192, 8192, 8192}, {"bf16", "f32", 1, 4096, 4096, 4096},
      {"bf16", "bf16", 96, 1024, 1024, 64},  {"f16", "f16", 1, 4096, 4096, 4096},
      {"f64", "f64", 1, 2048, 2048, 2048},   {"bf16", "bf16", 1, 1000, 1000, 1000}};
  std::printf("%-34s %12s %12s %10s %10s %12s\n", "product", "library us", "own us", "library TF/s",
              "own TF/s", "workspace");
  for (const Row& row : kRows) {
    const auto module = module_of({fmt::format("{},{},{}", row.batch, row.m, row.k),
                                   fmt::format("{},{},{}", row.batch, row.k, row.n),
                                   fmt::format("{},{},{}", row.batch, row.m, row.n),
                                   "lhs_batch_dims={0}, rhs_batch_dims={0}, "
                                   "lhs_contracting_dims={2}, rhs_contracting_dims={1}"},
                                  row.operands, row.result);
    ASSERT_NE(module, nullptr);
    const ir::Instruction& dot = *module->entry()->root();
    const auto by_library = seconds_of(*with_libraries_, dot);
    ASSERT_TRUE(by_library.ok()) << by_library.status().to_string();
    const auto by_own = seconds_of(*own_, dot);
    ASSERT_TRUE(by_own.ok()) << by_own.status().to_string();
    const double work = 2.0 * row.batch * row.m * row.n * row.k / 1e12;
    std::printf("%-34s %12.1f %12.1f %10.1f %10.1f %12lld\n",
                fmt::format("{} -> {} {} x [{},{}] [{},{}]", row.operands, row.result, row.batch,
                            row.m, row.k, row.k, row.n)
                    .c_str(),
                *by_library * 1e6, *by_own * 1e6, work / *by_library, work / *by_own,
                static_cast<long long>(with_libraries_->kernel(dot).value()->workspace_bytes()));
    EXPECT_GT(*by_library, 0);
  }
}

}  // namespace
}  // namespace plimsoll::device
