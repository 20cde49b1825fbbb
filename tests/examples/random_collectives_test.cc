// SPDX-License-Identifier: Apache-2.0
// Random eager programs of three participants, whose limits, planners and forms of programs differ:
// they have to meet in one order all the same, and the bits are those of participants without
// limits.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/examples/participants.h"

namespace plimsoll::examples {
namespace {

constexpr std::int64_t kSide = 48, kParticipants = 3;

class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : random_(seed, 0x636f6c6cu) {}

  // The results of all participants together, of some values made from each one's own.
  std::vector<Tensor> record(std::int64_t self) {
    for (int i = 0; i < 3; ++i) pool_.push_back(own(self, i));
    for (int step = 0; step < 40; ++step) add_step();
    std::vector<Tensor> results;
    for (int i = 0; i < 4; ++i) results.push_back(all_reduce(pick()));
    return results;
  }

 private:
  static Tensor own(std::int64_t self, int number) {
    HostRandom random(7, static_cast<std::uint64_t>(self * 10 + number));
    std::vector<float> values;
    for (std::int64_t i = 0; i < kSide * kSide; ++i) values.push_back(random.next_uniform() - 0.5f);
    return Tensor::from_host(values, {kSide, kSide});
  }
  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>(random_.next_below(static_cast<std::uint64_t>(bound)));
  }
  const Tensor& pick() { return pool_[below(pool_.size())]; }
  // Values stay about as large as they are.
  void keep(const Tensor& x) { pool_.push_back(tanh(x)); }

  void add_step() {
    switch (below(11)) {
      case 0:
        return keep(pick() + pick() * 0.5);
      case 1:
        return keep(matmul(pick(), pick()) * 0.2);
      case 2:
        return keep(pick() - mean(pick(), {1}, true));
      case 3:
        return keep(all_reduce(pick()));
      case 4: {
        const std::vector<Tensor> sums = all_reduce(std::vector<Tensor>{pick(), pick(), pick()});
        keep(sums[0] * sums[2]);
        return keep(sums[1]);
      }
      case 5:
        return keep(all_gather(reduce_scatter(pick(), 1), 1));
      case 6:
        return keep(broadcast(pick(), static_cast<std::int64_t>(below(kParticipants))));
      case 7:
        return keep(all_reduce(pick(), Reduction::sum, {{2, 0}, {1}}));
      case 8: {
        // Gathered where it is read.
        const Tensor whole = all_gather(reduce_scatter(pick())).hint(Hint::recompute);
        keep(transpose(whole) + pick());
        return keep(matmul(pick(), whole) * 0.2);
      }
      case 9: {
        // And once more for the gradients that read it.
        const std::vector<Tensor> pieces = {reduce_scatter(pick()), reduce_scatter(pick())};
        const std::vector<Tensor> wholes = all_gather(pieces);
        for (const Tensor& whole : wholes) whole.hint(Hint::recompute);
        const Tensor x = pick();
        const Tensor y = tanh(matmul(tanh(matmul(x, wholes[0])), wholes[1]));
        const std::vector<Tensor> made = gradients(mean(square(y)), {x, wholes[0]});
        keep(made[0] * 100.0);
        return keep(made[1] * 100.0);
      }
      default:
        return keep(all_reduce(pick(), Reduction::max));
    }
  }

  HostRandom random_;
  std::vector<Tensor> pool_;
};

using Results = std::vector<std::vector<float>>;

class RandomCollectives : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomCollectives, MeetInOneOrderWhateverThePlans) {
  std::vector<Results> all(kParticipants);
  const auto run = [&](bool is_limited) {
    const auto messages = run_participants(
        kParticipants,
        [&](std::int64_t self) {
          std::vector<Tensor> kept;
          for (int i = 0; i < 4; ++i) kept.push_back(zeros({kSide, kSide}));
          eval(kept);
          {
            const std::vector<Tensor> results = RandomProgram(GetParam()).record(self);
            for (std::size_t i = 0; i < kept.size(); ++i) kept[i].assign(results[i]);
          }
          if (is_limited && self > 0) {
            const MemoryNeeds needs = Context::current().measure_step();
            Context::current().set_limit(
                self == 1 ? needs.floor_bytes
                          : (needs.floor_bytes + needs.unlimited_peak_bytes) / 2);
          }
          Context::current().step();
          Results results;
          for (const Tensor& tensor : kept) results.push_back(tensor.to_vector<float>());
          const MemoryStatistics memory = Context::current().memory();
          if (memory.limit_bytes) {
            EXPECT_LE(memory.peak_bytes, *memory.limit_bytes) << self;
          }
          all[static_cast<std::size_t>(self)] = std::move(results);
        },
        [&](std::int64_t self) {
          ContextOptions options;
          options.planning = "first";
          if (!is_limited) return options;
          options.optimize = self != 0;
          options.planner = self == 2 ? "greedy" : "";
          return options;
        });
    EXPECT_TRUE(ended_well(messages));
  };
  run(false);
  const std::vector<Results> free = all;
  EXPECT_EQ(free[1], free[0]);
  EXPECT_EQ(free[2], free[0]);
  run(true);
  for (std::int64_t self = 0; self < kParticipants; ++self) {
    EXPECT_EQ(all[static_cast<std::size_t>(self)], free[0]) << self;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCollectives, ::testing::Range<std::uint64_t>(1, 9));

}  // namespace
}  // namespace plimsoll::examples
