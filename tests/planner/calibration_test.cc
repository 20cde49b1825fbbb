// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/calibration.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace plimsoll::planner {
namespace {

Calibration of(const Roofline& speeds) { return {speeds, 1, false}; }

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
  const Calibration written{some_speeds(), 3, true};
  const auto found =
      parse_calibration(calibration_text(written, "cpu, 2 threads"), "cpu, 2 threads");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found, written);
  const Roofline* const speeds = &found->speeds;
  EXPECT_EQ(speeds->contraction_flops_per_second, 7.25e10);
  EXPECT_EQ(speeds->launch_seconds, 1.5e-6);
  EXPECT_EQ(speeds->codecs[1].encode, 3.125e9);
  EXPECT_EQ(speeds->codecs[1].decode, 0.1e9);
  EXPECT_EQ(speeds->codecs[2].encode, Roofline().codecs[2].encode);
  EXPECT_EQ(speeds->link_in_bytes_per_second, 25e9);
}

TEST(Calibration, ASpeedOfZeroIsRefused) {
  Roofline speeds = some_speeds();
  speeds.bytes_per_second = 0;
  EXPECT_FALSE(parse_calibration(calibration_text(of(speeds), "cpu"), "cpu").has_value());
}

TEST(Calibration, HoldsForItsMachineOnly) {
  const std::string text = calibration_text(of(some_speeds()), "cpu, 2 threads");
  EXPECT_FALSE(parse_calibration(text, "cpu, 20 threads").has_value());
  EXPECT_FALSE(parse_calibration(text, "cpu").has_value());
}

TEST(Calibration, EveryDamagedByteIsNoticed) {
  const std::string text = calibration_text(of(some_speeds()), "cpu");
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(parse_calibration(damaged, "cpu").has_value()) << i;
    EXPECT_FALSE(parse_calibration(text.substr(0, i), "cpu").has_value()) << i;
  }
}

TEST(Calibration, TheFasterFigureOfTwoCounts) {
  Roofline busy = some_speeds(), quiet = some_speeds();
  busy.contraction_flops_per_second /= 2;
  busy.link_latency_seconds = 8e-4;
  quiet.link_latency_seconds = 2e-5;
  busy.cache = {20e6, 1e-11, 6e-9};
  quiet.cache = {7e6, 3e-11, 5e-11};
  quiet.codecs[1].decode = 0.05e9;
  for (const auto& [a, b] : {std::pair(busy, quiet), std::pair(quiet, busy)}) {
    const Roofline best = faster_of(a, b);
    EXPECT_EQ(best.contraction_flops_per_second, quiet.contraction_flops_per_second);
    EXPECT_EQ(best.link_latency_seconds, 2e-5);
    EXPECT_EQ(best.codecs[1].decode, busy.codecs[1].decode);
    EXPECT_EQ(best.cache.bytes, 7e6);
    EXPECT_EQ(best.cache.computing_seconds, 5e-11);
    EXPECT_EQ(best.cache.streaming_seconds, 1e-11);
  }
  EXPECT_FALSE(agree(busy, quiet));
  EXPECT_TRUE(agree(quiet, faster_of(busy, quiet)));
}

TEST(Calibration, ACacheThatWasNotSeenDoesNotHideOneThatWas) {
  Roofline without = some_speeds();
  without.cache = {};
  EXPECT_EQ(faster_of(without, some_speeds()).cache.bytes, some_speeds().cache.bytes);
  EXPECT_EQ(faster_of(some_speeds(), without).cache.bytes, some_speeds().cache.bytes);
}

}  // namespace
}  // namespace plimsoll::planner
