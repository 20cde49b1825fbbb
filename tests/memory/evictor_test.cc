// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/evictor/evictor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/eviction/chains.h"
#include "benchmarks/eviction/published_evictor.h"
#include "tests/memory/evictor_lab.h"

namespace plimsoll::memory {
namespace {

TEST(Evictor, GivesUpWhatIsCheapToMakeAgain) {
  Lineage lineage;
  Evictor evictor(lineage, 200);
  const TensorId dear = add_run(lineage, evictor, 10, {}, 100);
  const TensorId cheap = add_run(lineage, evictor, 1, {}, 100);
  add_run(lineage, evictor, 1, {}, 0);  // time goes by
  add_run(lineage, evictor, 1, {}, 100);
  EXPECT_TRUE(lineage.tensor(dear).defined);
  EXPECT_FALSE(lineage.tensor(cheap).defined);
  EXPECT_EQ(evictor.statistics().evictions, 1);
}

TEST(Evictor, CountsWhatIsNeededAndGone) {
  Lineage lineage;
  Evictor evictor(lineage, 300);
  // `second` takes less time than `other`, but not with `first`, which is gone.
  const TensorId first = add_run(lineage, evictor, 5, {}, 100);
  const TensorId second = add_run(lineage, evictor, 1, {first}, 100);
  evictor.release(first);
  EXPECT_FALSE(lineage.tensor(first).defined);
  const TensorId other = add_run(lineage, evictor, 3, {}, 100);
  add_run(lineage, evictor, 1, {}, 100);
  EXPECT_TRUE(lineage.tensor(second).defined);
  add_run(lineage, evictor, 100, {second}, 100);
  EXPECT_TRUE(lineage.tensor(second).defined);
  EXPECT_FALSE(lineage.tensor(other).defined);
}

TEST(Evictor, RestoresAWholeChain) {
  Lineage lineage;
  Evictor evictor(lineage, 3);
  TensorId last = add_run(lineage, evictor, 1, {}, 1);
  const TensorId source = last;
  for (int i = 0; i < 20; ++i) last = add_run(lineage, evictor, 1, {last}, 1);
  for (int i = 0; i < 3; ++i) add_run(lineage, evictor, 100, {}, 1);
  EXPECT_FALSE(lineage.tensor(last).defined);
  ASSERT_TRUE(evictor.restore(last).ok());
  EXPECT_TRUE(lineage.tensor(last).defined);
  EXPECT_LE(lineage.peak_bytes(), 3);
  ASSERT_TRUE(evictor.restore(source).ok());
  EXPECT_TRUE(lineage.tensor(source).defined);
}

TEST(Evictor, MakesViewsAgainWithTheirStorage) {
  Lineage lineage;
  Evictor evictor(lineage, 100);
  const TensorId base = add_run(lineage, evictor, 1, {}, 100);
  const Lineage::Output view[] = {{0, 0}};
  const OperationId view_of = lineage.add(0.5, std::vector{base}, view);
  ASSERT_TRUE(evictor.run(view_of).ok());
  const TensorId seen = lineage.operation(view_of).first_output;
  EXPECT_EQ(lineage.tensor(seen).storage, lineage.tensor(base).storage);
  add_run(lineage, evictor, 1, {}, 100);
  EXPECT_FALSE(lineage.tensor(seen).defined);
  ASSERT_TRUE(evictor.restore(seen).ok());
  EXPECT_TRUE(lineage.tensor(seen).defined);
  EXPECT_TRUE(lineage.tensor(base).defined);
  EXPECT_EQ(lineage.used_bytes(), 100);
}

TEST(Evictor, SaysWhenThereIsNoRoomAndStaysUsable) {
  Lineage lineage;
  Evictor evictor(lineage, 250);
  const TensorId pinned = add_run(lineage, evictor, 1, {}, 100);
  evictor.pin(pinned);
  const TensorId kept = add_run(lineage, evictor, 1, {}, 100);
  const Lineage::Output large[] = {{200, -1}};
  const OperationId impossible = lineage.add(1, {}, large);
  const Status status = evictor.run(impossible);
  EXPECT_EQ(status.code(), StatusCode::resource_exhausted);
  EXPECT_NE(status.message().find("250 B"), std::string::npos) << status.message();
  EXPECT_LE(lineage.used_bytes(), 250);
  ASSERT_TRUE(evictor.restore(kept).ok());
  EXPECT_TRUE(lineage.tensor(pinned).defined);
  add_run(lineage, evictor, 1, {kept, pinned}, 50);
}

TEST(Evictor, RunsRandomProgramsUnderTheLimit) {
  std::int64_t recomputes = 0, runs = 0, stuck = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    RandomProgram program(seed);
    Lineage lineage;
    const std::int64_t limit = 400 + static_cast<std::int64_t>(seed % 8) * 150;
    Device device(lineage, limit);
    Evictor evictor(lineage, limit, &device);
    for (int step = 0; step < 120; ++step) {
      const OperationId id = program.add(lineage);
      const Status status = evictor.run(id);
      if (status.ok()) {
        device.ran(id);
        ++runs;
      } else {
        EXPECT_EQ(status.code(), StatusCode::resource_exhausted);
        program.take_back(id, lineage, evictor);
      }
      ASSERT_EQ(lineage.used_bytes(), device.used()) << "seed " << seed << " step " << step;
      ASSERT_LE(lineage.peak_bytes(), limit + 200);  // made twice: freed at once
      program.release_some(evictor);
    }
    // All handles can be restored, one at a time. (In less than the largest operation's
    // arguments and results together, nearly all.)
    for (const TensorId tensor : program.held) {
      const Status status = evictor.restore(tensor);
      ASSERT_EQ(lineage.used_bytes(), device.used());
      EXPECT_EQ(device.has(lineage.tensor(tensor).storage), lineage.tensor(tensor).defined);
      if (limit >= 500) {
        ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.message();
      }
      stuck += status.ok() ? 0 : 1;
    }
    recomputes += evictor.statistics().recomputes;
  }
  EXPECT_LE(stuck, 30);
  EXPECT_GT(recomputes, 1000);
  EXPECT_GT(runs, 20000);
}

// The operations a chain of `layers` takes, forward and backward, in so many units of memory.
std::int64_t chain_operations(int layers, std::int64_t limit) {
  const eviction_benchmark::ChainRun run = eviction_benchmark::train_chain(layers, limit);
  EXPECT_TRUE(run.ok) << layers;
  EXPECT_LE(run.peak_units, limit);
  return run.operations;
}

TEST(Evictor, TrainsChainsInTheSquareRootOfTheirMemoryAtTwiceTheirOperations) {
  for (const int layers : {64, 256, 1024, 4096}) {
    const auto root = static_cast<std::int64_t>(std::lround(std::sqrt(layers)));
    EXPECT_LE(chain_operations(layers, 2 * root), 4 * layers) << layers;
  }
}

TEST(Evictor, TrainsChainsInLogarithmicMemory) {
  for (const int layers : {64, 256, 1024}) {
    const auto log = static_cast<std::int64_t>(std::lround(std::log2(layers)));
    // At most log2(n) forward passes more, as binomial checkpointing takes.
    EXPECT_LE(chain_operations(layers, 2 * log), layers * (2 + log)) << layers;
  }
}

TEST(PublishedEvictor, NamesAreReadAsWritten) {
  for (const char* name : {"dtr", "dtr-eq", "dtr-local", "msps", "lru", "size", "random"}) {
    const auto heuristic = parse_heuristic(name);
    ASSERT_TRUE(heuristic) << name;
    EXPECT_EQ(to_string(*heuristic), name);
  }
  EXPECT_FALSE(parse_heuristic("best"));
}

TEST(PublishedEvictor, EachChoosesByItsOwnScore) {
  const auto gone = [](Heuristic heuristic) {
    Lineage lineage;
    PublishedEvictor evictor(lineage, 350, heuristic);
    const TensorId dear = add_run(lineage, evictor, 10, {}, 100);  // the stalest
    const TensorId cheap = add_run(lineage, evictor, 1, {}, 100);
    const TensorId large = add_run(lineage, evictor, 9, {}, 150);
    add_run(lineage, evictor, 1, {}, 100);
    if (!lineage.tensor(dear).defined) return std::string("dear");
    if (!lineage.tensor(cheap).defined) return std::string("cheap");
    return std::string(lineage.tensor(large).defined ? "none" : "large");
  };
  EXPECT_EQ(gone(Heuristic::lru), "dear");
  EXPECT_EQ(gone(Heuristic::size), "large");
  EXPECT_EQ(gone(Heuristic::msps), "cheap");
  EXPECT_EQ(gone(Heuristic::dtr_local), "cheap");
}

TEST(PublishedEvictor, RegionsGrowAndShrinkWithWhatIsGone) {
  for (const Heuristic heuristic : {Heuristic::dtr, Heuristic::dtr_eq, Heuristic::msps}) {
    Lineage lineage;
    PublishedEvictor evictor(lineage, 4, heuristic);
    TensorId last = add_run(lineage, evictor, 1, {}, 1);
    std::vector<TensorId> all{last};
    for (int i = 0; i < 30; ++i) all.push_back(last = add_run(lineage, evictor, 1, {last}, 1));
    for (const TensorId tensor : all) {
      ASSERT_TRUE(evictor.restore(tensor).ok()) << to_string(heuristic);
      ASSERT_LE(lineage.used_bytes(), 4);
    }
    EXPECT_GT(evictor.statistics().recomputes, 20);
  }
}

}  // namespace
}  // namespace plimsoll::memory
