// SPDX-License-Identifier: Apache-2.0
// Convolutions on a GPU, where there is one (scripts/test-gpu.sh), by its library and by our own
// kernels, against the CPU; and how fast both are.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/device/gpu/gpu_libraries.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device {
namespace {

struct ConvolutionCase {
  const char* name;
  const char* lhs;
  const char* rhs;
  const char* result;
  const char* attributes;
};

std::unique_ptr<ir::Module> module_of(const ConvolutionCase& c, const std::string& dtype) {
  auto module = ir::parse_module(
      fmt::format("HloModule m\nENTRY e {{\n  a = {0}[{1}] parameter(0)\n  b = {0}[{2}] "
                  "parameter(1)\n  ROOT r = {0}[{3}] convolution(a, b), {4}\n}}\n",
                  dtype, c.lhs, c.rhs, c.result, c.attributes),
      c.name);
  if (!module.ok()) {
    ADD_FAILURE() << module.status().to_string();
    return nullptr;
  }
  return *std::move(module);
}

// Forward, and both gradients of a convolution with stride 2; filters in several orders.
constexpr ConvolutionCase kCases[] = {
    {"channels last", "2,17,15,16", "3,3,16,24", "2,17,15,24",
     "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
    {"channels last, filters too", "2,17,15,16", "24,3,3,16", "2,9,8,24",
     "window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_o01i->b01f"},
    {"channels first", "2,16,17,15", "24,16,3,3", "2,24,17,15",
     "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"},
    {"odd channels", "3,11,11,3", "5,5,3,7", "3,11,11,7",
     "window={size=5x5 pad=2_2x2_2}, dim_labels=b01f_01io->b01f"},
    {"dilated", "2,16,19,19", "8,16,3,3", "2,8,15,15",
     "window={size=3x3 rhs_dilate=2x2}, dim_labels=bf01_oi01->bf01"},
    {"groups", "2,9,9,16", "3,3,4,16", "2,9,9,16",
     "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=4"},
    {"each channel by itself", "2,9,9,16", "3,3,1,16", "2,9,9,16",
     "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=16"},
    {"gradient of images", "2,8,8,24", "3,3,16,24", "2,17,17,16",
     "window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f"},
    {"gradient of images, reversed filters", "2,24,8,8", "16,24,3,3", "2,16,17,17",
     "window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2}, dim_labels=bf01_oi01->bf01"},
    {"gradient of filters", "2,17,17,16", "2,8,8,24", "3,3,16,24",
     "window={size=8x8 rhs_dilate=2x2}, dim_labels=f01b_i01o->01bf"},
    {"gradient of filters, channels first", "2,16,17,17", "2,24,8,8", "24,16,3,3",
     "window={size=8x8 rhs_dilate=2x2}, dim_labels=fb01_io01->fb01"},
    {"line", "2,40,16", "5,16,24", "2,40,24", "window={size=5 pad=2_2}, dim_labels=b0f_0io->b0f"},
    {"volume", "1,6,7,8,4", "3,3,3,4,8", "1,6,7,8,8",
     "window={size=3x3x3 pad=1_1x1_1x1_1}, dim_labels=b012f_012io->b012f"},
};

using GpuLibraryConvolutions = GpuLibraries;

TEST_F(GpuLibraryConvolutions, AreThoseOfTheCpuAndTheSameInEveryRun) {
  if (IsSkipped()) return;
  for (const std::string dtype : {"f32", "bf16", "f16"}) {
    const double tolerance = dtype == "bf16"  ? 1.2e-2
                             : dtype == "f16" ? 2e-3
                             : dtype == "f64" ? 1e-13
                                              : 1e-5;
    std::string by_own;
    int by_library = 0;
    for (const ConvolutionCase& c : kCases) {
      SCOPED_TRACE(dtype + ", " + c.name);
      const auto module = module_of(c, dtype);
      if (module == nullptr) continue;
      const auto arguments = cases::random_arguments(*module, 11);
      std::string error;
      const ir::Literal expected = testing::run_unlimited(*module, arguments, *cpu_, false, error);
      ASSERT_EQ(error, "");
      const auto kernel = always_by_library_->kernel(*module->entry()->root());
      ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
      if ((*kernel)->origin() == KernelOrigin::library) {
        ++by_library;
      } else {
        by_own += std::string("; ") + c.name;
      }
      const ir::Literal first =
          testing::run_unlimited(*module, arguments, *always_by_library_, false, error);
      ASSERT_EQ(error, "");
      EXPECT_EQ(cases::compare_close(expected, first, tolerance, 1), "");
      for (int i = 0; i < 3; ++i) {
        const ir::Literal again =
            testing::run_unlimited(*module, arguments, *always_by_library_, false, error);
        ASSERT_EQ(error, "");
        EXPECT_EQ(cases::compare_bits(first, again), "");
      }
      const ir::Literal own = testing::run_unlimited(*module, arguments, *own_, false, error);
      ASSERT_EQ(error, "");
      EXPECT_EQ(cases::compare_close(expected, own, tolerance, 1), "") << "by our own kernel";
    }
    std::printf("%s: %d by the library, by own kernels%s\n", dtype.c_str(), by_library,
                by_own.empty() ? ": none" : by_own.c_str());
  }
  std::printf("overhead_bytes %lld\n", static_cast<long long>(gpu_->overhead_bytes()));
}

TEST_F(GpuLibraryConvolutions, AreTimed) {
  if (IsSkipped()) return;
  // Of a residual network, 64 images.
  constexpr ConvolutionCase kTimed[] = {
      {"3x3, 64 at 56x56", "64,56,56,64", "3,3,64,64", "64,56,56,64",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
      {"1x1, 256 to 64 at 56x56", "64,56,56,256", "1,1,256,64", "64,56,56,64",
       "window={size=1x1}, dim_labels=b01f_01io->b01f"},
      {"3x3, 512 at 7x7", "64,7,7,512", "3,3,512,512", "64,7,7,512",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
      {"gradient of images, stride 2", "64,14,14,256", "3,3,128,256", "64,29,29,128",
       "window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x1}, "
       "dim_labels=b01f_01oi->b01f"},
      {"gradient of filters", "64,30,30,128", "64,28,28,128", "3,3,128,128",
       "window={size=28x28}, dim_labels=f01b_i01o->01bf"},
      {"channels first", "64,64,56,56", "64,64,3,3", "64,64,56,56",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"},
  };
  std::printf("%-36s %12s %12s %12s  %s\n", "convolution", "library us", "own us", "workspace",
              "chosen");
  for (const std::string dtype : {"f32", "bf16"}) {
    for (const ConvolutionCase& c : kTimed) {
      const auto module = module_of(c, dtype);
      ASSERT_NE(module, nullptr);
      const ir::Instruction& convolution = *module->entry()->root();
      const auto by_library = seconds_of(*always_by_library_, convolution);
      ASSERT_TRUE(by_library.ok()) << by_library.status().to_string();
      const auto by_own = seconds_of(*own_, convolution);
      ASSERT_TRUE(by_own.ok()) << by_own.status().to_string();
      const auto kernel = always_by_library_->kernel(convolution).value();
      const auto chosen = with_libraries_->kernel(convolution).value();
      std::printf("%-36s %12.1f %12.1f %12lld  %s\n", (dtype + " " + c.name).c_str(),
                  *by_library * 1e6, *by_own * 1e6,
                  static_cast<long long>(kernel->workspace_bytes()), chosen->name().c_str());
    }
  }
}

}  // namespace
}  // namespace plimsoll::device
