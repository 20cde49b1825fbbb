// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace plimsoll::examples::serve {
namespace {

// As many at work and as many that wait as there may be, however soon they come one after the
// other.
TEST(WorkerPool, TakesABurstBeforeItsThreadsHaveBegun) {
  for (int round = 0; round < 50; ++round) {
    std::promise<void> go;
    const std::shared_future<void> going = go.get_future().share();
    std::atomic<int> done = 0;
    {
      WorkerPool pool(3, 2);
      for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(pool.run([&done, going] {
          going.wait();
          ++done;
        })) << round
            << " " << i;
      }
      EXPECT_FALSE(pool.run([&done] { ++done; })) << round;
      go.set_value();
    }
    EXPECT_EQ(done, 5);
  }
}

}  // namespace
}  // namespace plimsoll::examples::serve
