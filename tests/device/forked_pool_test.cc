// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/forked_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace plimsoll::device {
namespace {

TEST(ForkedPool, DoesEverythingOnceForSeveralCallersAtOnce) {
  ForkedPool pool(4);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (std::int64_t caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&, caller] {
      for (std::int64_t count = 1; count < 300; count += 7) {
        std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
        pool.run(count, caller * 10 + 1, [&](std::int64_t begin, std::int64_t end) {
          // A piece shares nothing out.
          pool.run(end - begin, 1, [&](std::int64_t from, std::int64_t to) {
            if (to - from != end - begin) ++wrong;
            for (std::int64_t i = from; i < to; ++i) ++times[static_cast<std::size_t>(begin + i)];
          });
        });
        for (const auto& one : times) wrong += one.load() == 1 ? 0 : 1;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

// Two pieces that wait for each other end only on two threads.
TEST(ForkedPool, ThreadsHelpTheCaller) {
  ForkedPool pool(2);
  std::atomic<int> come = 0;
  pool.run(2, 1, [&](std::int64_t begin, std::int64_t end) {
    come += static_cast<int>(end - begin);
    while (come.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(come.load(), 2);
}

}  // namespace
}  // namespace plimsoll::device
