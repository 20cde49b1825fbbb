// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/cancellation.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Cancellation, WakesWhoWatchesOnce) {
  Cancellation cancellation;
  int first = 0, second = 0;
  Cancellation::Watch watch(&cancellation, [&] { ++first; });
  {
    const Cancellation::Watch gone(&cancellation, [&] { ++second; });
  }
  EXPECT_FALSE(cancellation.is_cancelled());
  cancellation.cancel();
  cancellation.cancel();
  EXPECT_TRUE(cancellation.is_cancelled());
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
  const Cancellation::Watch late(&cancellation, [&] { ++second; });
  EXPECT_EQ(second, 1);
}

TEST(Stop, SaysWhy) {
  Stop stop;
  EXPECT_TRUE(stop.check().ok());
  stop.deadline = Stop::Clock::now();
  EXPECT_EQ(stop.check().code(), StatusCode::deadline_exceeded);
  stop.cancellation = std::make_shared<Cancellation>();
  EXPECT_EQ(stop.check().code(), StatusCode::deadline_exceeded);
  stop.cancellation->cancel();
  EXPECT_EQ(stop.check().code(), StatusCode::cancelled);
}

}  // namespace
}  // namespace plimsoll
