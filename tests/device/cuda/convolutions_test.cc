// SPDX-License-Identifier: Apache-2.0
// Convolutions by a recording library: every case, a training step at every limit, failures.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/cases/op_cases.h"
#include "tests/device/cuda/recorded_libraries.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device::cuda {
namespace {

// A convolution with stride 2 and both of its gradients, filters as JAX has them, in f16; and one
// of f32, channels first, in groups.
constexpr const char* kImages = R"(
HloModule images
ENTRY e {
  x = f16[2,9,9,3] parameter(0)
  w = f16[3,3,3,4] parameter(1)
  p = f32[2,4,6,6] parameter(2)
  g = f32[6,2,3,3] parameter(3)
  y = f16[2,4,4,4] convolution(x, w), window={size=3x3 stride=2x2}, dim_labels=b01f_01io->b01f
  t = f16[2,4,4,4] tanh(y)
  dx = f16[2,9,9,3] convolution(t, w), window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f
  dw = f16[3,3,3,4] convolution(x, t), window={size=4x4 rhs_dilate=2x2}, dim_labels=f01b_i01o->01bf
  q = f32[2,6,6,6] convolution(p, g), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01, feature_group_count=2
  ROOT r = (f16[2,9,9,3], f16[3,3,3,4], f32[2,6,6,6]) tuple(dx, dw, q)
})";

class Convolutions : public RecordedLibraries {
 protected:
  void open(Schedule schedule, unsigned seed) {
    RecordedLibraries::open(
        {.module_bytes = 0, .schedule = schedule, .seed = seed, .has_convolutions = true});
  }
  std::int64_t convolved() const {
    return gpu_->driver.calls("cudnnConvolutionForward") +
           gpu_->driver.calls("cudnnConvolutionBackwardData") +
           gpu_->driver.calls("cudnnConvolutionBackwardFilter");
  }
};

TEST_F(Convolutions, OfEveryCaseAreThoseOfTheCpu) {
  open(Schedule::late, 1);
  if (IsSkipped()) return;
  const ByLibrary done = compare_cases("conv", [this] { return convolved(); });
  EXPECT_GT(done.cases, 6);
  EXPECT_GT(done.others, 5) << "what the library has not, or computes more slowly";
}

TEST_F(Convolutions, OfATrainingStepHaveTheSameBitsAtEveryLimit) {
  const auto module = ir::parse_module(kImages, "images").value();
  const auto arguments = cases::random_arguments(*module, 3);
  const ir::Literal expected = on_cpu(*module, arguments);
  for (const unsigned seed : {1U, 2U}) {
    open(seed == 1 ? Schedule::late : Schedule::random, seed);
    if (IsSkipped()) return;
    std::string error;
    const ir::Literal result =
        testing::run_unlimited(*module, arguments, *gpu_->provider(), true, error);
    ASSERT_EQ(error, "");
    EXPECT_GT(gpu_->driver.calls("cudnnConvolutionForward"), 0);
    EXPECT_GT(gpu_->driver.calls("cudnnConvolutionBackwardData"), 0);
    EXPECT_GT(gpu_->driver.calls("cudnnConvolutionBackwardFilter"), 0);
    EXPECT_EQ(cases::compare_close(expected, result, 2e-3, 1), "");
    testing::LimitOptions options;
    options.host_bytes = std::int64_t{1} << 30;
    EXPECT_EQ(testing::check_limits(*module, arguments, *gpu_->provider(), seed, 3, options), "");
    close();
  }
}

TEST_F(Convolutions, EveryCallMayFail) {
  open(Schedule::random, 5);
  if (IsSkipped()) return;
  fail_every_call(*ir::parse_module(kImages, "images").value(),
                  [&] { return gpu_->convolutions->leaks(); });
}

}  // namespace
}  // namespace plimsoll::device::cuda
