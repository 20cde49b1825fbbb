// SPDX-License-Identifier: Apache-2.0
// Checkpoints of runs of several participants: the files of one process, whatever each keeps a
// share of.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "plimsoll/checkpoint.hpp"
#include "tests/examples/checkpoint_folder.h"
#include "tests/examples/participants.h"

namespace plimsoll::examples {
namespace {

namespace fs = std::filesystem;
using Floats = std::vector<float>;

// Sizes that neither 2 nor 3 divides, and a buffer.
struct Model : nn::Module {
  explicit Model(std::uint64_t seed) : init(seed), first(5, 7, init), second(7, 3, init) {
    add_child("first", first);
    add_child("second", second);
  }
  Tensor operator()(const Tensor& x) {
    seen.assign(seen + 1.0);
    return mean(square(second(tanh(first(x)))));
  }
  nn::Initializer init;
  nn::Linear first, second;
  Tensor seen = add_buffer("seen", zeros({}));
};

// One participant's end of a training run, or all of a run of one process.
class Training {
 public:
  Training(std::uint64_t seed, Sharding sharding, bool with_adam)
      : model_(seed), parallel_(model_, {.sharding = sharding, .whole_bytes = 64}) {
    if (with_adam) {
      optimizer_ = std::make_unique<optim::AdamW>(parallel_.parameters());
    } else {
      optimizer_ = std::make_unique<optim::Sgd>(
          parallel_.parameters(), optim::SgdOptions{.learning_rate = 0.05, .momentum = 0.9});
    }
    checkpoint_.add("model", model_, parallel_);
    checkpoint_.add("optimizer", *optimizer_, parallel_);
    checkpoint_.add("steps", steps_);
  }

  // Everybody has the same batch: the mean of two equal gradients is either of them.
  void train_to(std::int64_t steps) {
    for (; steps_ < steps; ++steps_) {
      Floats x(10);
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(steps_) * 13) % 11) * 0.1F;
      }
      model_(Tensor::from_host(x, {2, 5})).backward();
      optimizer_->step();
    }
  }
  std::vector<Floats> values() const {
    std::vector<Floats> all;
    for (const Tensor& parameter : model_.parameters()) all.push_back(parameter.to_vector<float>());
    all.push_back(model_.seen.to_vector<float>());
    all.push_back({static_cast<float>(steps_), static_cast<float>(optimizer_->step_count())});
    return all;
  }
  const Checkpoint& checkpoint() const { return checkpoint_; }

 private:
  Model model_;
  DataParallel parallel_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::int64_t steps_ = 0;
  Checkpoint checkpoint_;
};

class ShardedCheckpoints : public CheckpointFolder {};

void expect_equal_files(const std::string& a, const std::string& b) {
  const ArrayFile one(a), other(b);
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    const ArrayFile::Array from = one[i], to = other.at(from.name);
    EXPECT_TRUE(std::ranges::equal(from.dims, to.dims)) << from.name;
    EXPECT_TRUE(std::ranges::equal(from.bytes, to.bytes)) << from.name;
  }
}

constexpr Sharding kAll[] = {Sharding::none, Sharding::optimizer, Sharding::gradients,
                             Sharding::parameters};

TEST_F(ShardedCheckpoints, ARunOfOneProcessGoesOnInSharesAndBack) {
  for (const bool with_adam : {true, false}) {
    std::vector<Floats> at_three, at_five, at_seven;
    run_participants(1, [&](std::int64_t) {
      Training run(1, Sharding::none, with_adam);
      run.train_to(3);
      run.checkpoint().save(path_);
      at_three = run.values();
      run.train_to(5);
      at_five = run.values();
      run.train_to(7);
      at_seven = run.values();
    });
    ASSERT_NE(at_three, at_five);
    for (const std::size_t participants : {2, 3}) {
      for (const Sharding sharding : kAll) {
        const std::string copy = folder_ + "/copy.safetensors",
                          later = folder_ + "/later.safetensors";
        const auto messages = run_participants(participants, [&](std::int64_t) {
          Training run(2, sharding, with_adam);
          run.train_to(1);  // what it did before is forgotten
          run.checkpoint().load(path_);
          run.checkpoint().save(copy);
          EXPECT_EQ(run.values(), at_three);
          if (participants != 2) return;
          run.train_to(5);
          EXPECT_EQ(run.values(), at_five);
          run.checkpoint().save(later);
        });
        EXPECT_TRUE(ended_well(messages));
        expect_equal_files(path_, copy);
        if (participants != 2) continue;
        run_participants(1, [&](std::int64_t) {
          Training back(3, Sharding::none, with_adam);
          back.checkpoint().load(later);
          EXPECT_EQ(back.values(), at_five);
          back.train_to(7);
          EXPECT_EQ(back.values(), at_seven);
        });
      }
    }
  }
}

// Among other numbers of participants, each with another share than before.
TEST_F(ShardedCheckpoints, SharesGoOnAmongOthers) {
  std::vector<Floats> expected;
  for (const Sharding sharding : kAll) {
    const auto saved = run_participants(3, [&](std::int64_t) {
      Training run(1, sharding, true);
      run.train_to(3);
      run.checkpoint().save(path_);
    });
    EXPECT_TRUE(ended_well(saved));
    const auto messages = run_participants(2, [&](std::int64_t self) {
      Training run(2, sharding == Sharding::none ? Sharding::parameters : Sharding::none, true);
      run.checkpoint().load(path_);
      run.train_to(5);
      const std::vector<Floats> values = run.values();
      if (self != 0) return;
      if (expected.empty()) expected = values;
      EXPECT_EQ(values, expected);
    });
    EXPECT_TRUE(ended_well(messages));
  }
}

// Who can't read or write the file makes it an error of all, and nothing has changed.
TEST_F(ShardedCheckpoints, AnErrorOfOneIsAnErrorOfAll) {
  const auto messages = run_participants(2, [&](std::int64_t self) {
    Training run(1, Sharding::parameters, true);
    run.train_to(2);
    const std::vector<Floats> before = run.values();
    run.checkpoint().save(path_);
    const auto refused = [&](const char* part, const auto& body) {
      try {
        body();
        ADD_FAILURE() << "no error: " << part;
      } catch (const Error& error) {
        EXPECT_TRUE(contains(error.message(), part));
      }
      EXPECT_EQ(run.values(), before);
    };
    refused(self == 1 ? "/nowhere" : "another participant could not load",
            [&] { run.checkpoint().load(self == 1 ? folder_ + "/nowhere" : path_); });
    refused(self == 0 ? "/no/folder" : "another participant could not save",
            [&] { run.checkpoint().save(folder_ + "/no/folder"); });
    run.checkpoint().load(path_);
    EXPECT_EQ(run.values(), before);
  });
  EXPECT_TRUE(ended_well(messages));
}

}  // namespace
}  // namespace plimsoll::examples
