// SPDX-License-Identifier: Apache-2.0
// Linked into programs whose tests run on cuda:0 of the recording driver, too, where
// PLIMSOLL_DEVICE says so.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "runtime/device/devices.h"
#include "tests/device/cuda/recorded_gpu.h"

namespace plimsoll::device::cuda {
namespace {

class NoComplaints final : public ::testing::Environment {
 public:
  void TearDown() override { EXPECT_EQ(complaints(recorded_gpu(0)), ""); }
};

// Tests that run on another device than they were asked to would show nothing.
[[maybe_unused]] const bool kGpuIsKnown = [] {
  const char* const asked = std::getenv("PLIMSOLL_DEVICE");
  if (asked == nullptr || !std::string_view(asked).starts_with("cuda")) return false;
  (void)recorded_gpu(0);
  if (!check_device().ok()) std::abort();
  ::testing::AddGlobalTestEnvironment(new NoComplaints);
  return true;
}();

}  // namespace
}  // namespace plimsoll::device::cuda
