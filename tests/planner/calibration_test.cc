// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/calibration.h"

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::planner {
namespace {

Roofline some_speeds() {
  Roofline speeds;
  speeds.contraction_flops_per_second = 7.25e10;
  speeds.launch_seconds = 1.5e-6;
  speeds.codecs[1] = {3.125e9, 0.1e9};
  speeds.link_in_bytes_per_second = 25e9;
  speeds.cache = {12e6, 0, 3e-11};
  return speeds;
}

TEST(Calibration, ComesBackFromItsText) {
  const auto speeds =
      parse_calibration(calibration_text(some_speeds(), "cpu, 2 threads"), "cpu, 2 threads");
  ASSERT_TRUE(speeds.has_value());
  EXPECT_EQ(speeds->contraction_flops_per_second, 7.25e10);
  EXPECT_EQ(speeds->launch_seconds, 1.5e-6);
  EXPECT_EQ(speeds->codecs[1].encode, 3.125e9);
  EXPECT_EQ(speeds->codecs[1].decode, 0.1e9);
  EXPECT_EQ(speeds->codecs[2].encode, Roofline().codecs[2].encode);
  EXPECT_EQ(speeds->link_in_bytes_per_second, 25e9);
  EXPECT_EQ(*speeds, some_speeds());
}

TEST(Calibration, ASpeedOfZeroIsRefused) {
  Roofline speeds = some_speeds();
  speeds.bytes_per_second = 0;
  EXPECT_FALSE(parse_calibration(calibration_text(speeds, "cpu"), "cpu").has_value());
}

TEST(Calibration, HoldsForItsMachineOnly) {
  const std::string text = calibration_text(some_speeds(), "cpu, 2 threads");
  EXPECT_FALSE(parse_calibration(text, "cpu, 20 threads").has_value());
  EXPECT_FALSE(parse_calibration(text, "cpu").has_value());
}

TEST(Calibration, EveryDamagedByteIsNoticed) {
  const std::string text = calibration_text(some_speeds(), "cpu");
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(parse_calibration(damaged, "cpu").has_value()) << i;
    EXPECT_FALSE(parse_calibration(text.substr(0, i), "cpu").has_value()) << i;
  }
}

}  // namespace
}  // namespace plimsoll::planner
