// SPDX-License-Identifier: Apache-2.0
#include "plimsoll/checkpoint.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "examples/training/training_run.h"
#include "plimsoll/plimsoll.hpp"
#include "tests/examples/checkpoint_folder.h"

namespace plimsoll::examples {
namespace {

namespace fs = std::filesystem;

class Checkpoints : public CheckpointFolder {};

// Two layers with dropout between, on numbers that depend on the step alone.
class SmallRun : public nn::Module {
 public:
  explicit SmallRun(std::int64_t width, bool with_adam)
      : scope_(context_), init_(7), first_(4, width, init_), second_(width, 1, init_) {
    add_child("first", first_);
    add_child("second", second_);
    add_child("norm", norm_);
    materialize();
    if (with_adam) {
      optimizer_ = std::make_unique<optim::AdamW>(parameters());
    } else {
      optimizer_ = std::make_unique<optim::Sgd>(
          parameters(), optim::SgdOptions{.learning_rate = 0.05, .momentum = 0.9});
    }
    checkpoint_.add("model", *this);
    checkpoint_.add("optimizer", *optimizer_);
    checkpoint_.add("steps", steps_);
  }

  void train_to(std::int64_t steps) {
    for (; steps_ < steps; ++steps_) {
      std::vector<float> x(32);
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(steps_) * 13) % 11) * 0.1F;
      }
      const Tensor input = Tensor::from_host(x, {8, 4});
      const Tensor hidden = dropout_(norm_(relu(first_(input))));
      const Tensor loss = mean(square(second_(hidden)));
      loss.backward();
      optimizer_->step();
    }
  }
  Checkpoint& checkpoint() { return checkpoint_; }
  std::int64_t steps() const { return steps_; }
  optim::Optimizer& optimizer() { return *optimizer_; }

 private:
  Context context_{ContextOptions{.seed = 5}};
  ContextScope scope_;
  nn::Initializer init_;
  nn::Linear first_, second_;
  nn::LayerNorm norm_{16, init_};
  nn::Dropout dropout_{0.25};
  std::unique_ptr<optim::Optimizer> optimizer_;
  Checkpoint checkpoint_;
  std::int64_t steps_ = 0;
};

TEST_F(Checkpoints, ARunThatIsResumedGivesTheBitsOfOneThatWasNotStopped) {
  for (const bool with_adam : {true, false}) {
    std::string expected, at_five;
    {
      SmallRun run(16, with_adam);
      run.train_to(5);
      run.checkpoint().save(path_);
      at_five = hash_of_weights(run);
      run.train_to(9);
      expected = hash_of_weights(run);
    }
    ASSERT_NE(at_five, expected);
    SmallRun resumed(16, with_adam);
    resumed.train_to(2);  // what it did before is forgotten
    resumed.checkpoint().load(path_);
    EXPECT_EQ(resumed.steps(), 5);
    EXPECT_EQ(resumed.optimizer().step_count(), 5);
    EXPECT_EQ(hash_of_weights(resumed), at_five);
    resumed.train_to(9);
    EXPECT_EQ(hash_of_weights(resumed), expected);
  }
}

TEST_F(Checkpoints, AFileOfAnotherProgramChangesNothing) {
  SmallRun run(16, true);
  run.train_to(2);
  const std::string before = hash_of_weights(run);
  const auto refused = [&](const std::string& part, ErrorCode code) {
    try {
      run.checkpoint().load(path_);
      ADD_FAILURE() << "loaded";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
    EXPECT_EQ(hash_of_weights(run), before);
    EXPECT_EQ(run.steps(), 2);
  };
  refused("cannot be opened", ErrorCode::not_found);
  save_arrays(path_, {});
  refused("plimsoll.checkpoint", ErrorCode::invalid_argument);
  std::ofstream(path_) << "nonsense";
  refused("safetensors", ErrorCode::invalid_argument);
  Checkpoint less;
  less.add("model", run);
  less.save(path_);
  refused("optimizer.0", ErrorCode::not_found);
  Checkpoint more = run.checkpoint();
  const Tensor extra = Tensor::scalar(1);
  more.add("extra", extra);
  more.save(path_);
  refused("arrays for a program", ErrorCode::invalid_argument);
}

TEST_F(Checkpoints, AnotherShapeIsNamed) {
  const Tensor small = Tensor::from_host({1.0F, 2.0F}, {2});
  Checkpoint one;
  one.add("w", small);
  one.save(path_);
  const Tensor large = Tensor::from_host({1.0F, 2.0F, 3.0F}, {3});
  Checkpoint other;
  other.add("w", large);
  try {
    other.load(path_);
    ADD_FAILURE() << "loaded";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("'w' is f32[2], the program's f32[3]"), std::string::npos)
        << error.message();
  }
}

TEST_F(Checkpoints, TensorsGoToFilesAndBack) {
  for (const char* name : {"/a.safetensors", "/a.npz"}) {
    const std::vector<std::pair<std::string, Tensor>> tensors = {
        {"sum", Tensor::from_host({1.0F, 2.5F}, {2}) + 1.0},
        {"index", Tensor::from_host<std::int64_t>({7}, {})}};
    save_arrays(folder_ + name, tensors);
    const ArrayFile file(folder_ + name);
    EXPECT_EQ(file.size(), 2u);
    EXPECT_EQ(file.load("sum").to_vector<float>(), (std::vector<float>{2, 3.5F}));
    EXPECT_EQ(file.load("index").item<std::int64_t>(), 7);
    EXPECT_FALSE(file.metadata("none"));
    EXPECT_THROW(file.load("none"), Error);
  }
}

// The program, started; what it writes to standard output.
struct Started {
  pid_t process;
  int output;
};
Started start(std::vector<std::string> arguments) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  arguments.insert(arguments.begin(),
                   {PLIMSOLL_TRAIN_TEXT, PLIMSOLL_TEXT, "--batch", "2", "--layers", "1", "--width",
                    "16", "--context", "16", "--sample", "0", "--dropout", "0.2", "--steps", "40",
                    "--no-progress", "--checkpoint-interval", "1"});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t process = ::fork();
  if (process == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::execv(PLIMSOLL_TRAIN_TEXT, argv.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  return {process, ends[0]};
}

// The weights' hash, "" where it did not end well.
std::string finish(const Started& started) {
  std::string text;
  char buffer[1024];
  for (ssize_t n; (n = ::read(started.output, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(started.output);
  int status = 0;
  ::waitpid(started.process, &status, 0);
  const auto at = text.find("SHA-256 (weights) ");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 && at != std::string::npos
             ? text.substr(at + 18, 64)
             : "";
}

TEST_F(Checkpoints, ATrainingProgramThatIsKilledGoesOnWithTheSameBits) {
  const std::string expected = finish(start({}));
  ASSERT_EQ(expected.size(), 64u);
  int killed = 0;
  for (int round = 0; round < 3; ++round) {
    const Started run = start({"--checkpoint", path_, "--resume"});
    // It writes after each step: sooner or later in the middle of that.
    const auto seen = fs::exists(path_) ? fs::last_write_time(path_) : fs::file_time_type::min();
    for (int i = 0; i < 20000; ++i) {
      std::error_code none;
      const auto now = fs::last_write_time(path_, none);
      if ((!none && now != seen) || ::waitpid(run.process, nullptr, WNOHANG | WNOWAIT) != 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(1700 * round));
    ::kill(run.process, SIGKILL);
    if (finish(run).empty()) ++killed;
  }
  EXPECT_GT(killed, 0);
  EXPECT_EQ(finish(start({"--checkpoint", path_, "--resume"})), expected);
  // One that has ended has nothing to do, under whatever limit.
  EXPECT_EQ(finish(start({"--checkpoint", path_, "--resume"})), expected);
  // Another run's file is refused.
  EXPECT_EQ(finish(start({"--checkpoint", path_, "--resume", "--seed", "2"})), "");
  EXPECT_EQ(finish(start({"--checkpoint", path_, "--resume", "--heads", "2"})), "");
  EXPECT_EQ(finish(start({"--resume"})), "");
}

}  // namespace
}  // namespace plimsoll::examples
