// SPDX-License-Identifier: Apache-2.0
// The example that trains data-parallel, in threads and processes.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "examples/data_parallel/participant.h"
#include "examples/data_parallel/synthetic_data.h"
#include "tests/examples/participants.h"

namespace plimsoll::examples {
namespace {

ParallelOptions tiny(const std::string& model, std::int64_t participants) {
  ParallelOptions options;
  options.model = model;
  options.participants = participants;
  options.no_progress = true;
  options.batch = 16;
  options.steps = 3;
  options.network.widths = {4, 8};
  options.network.blocks_per_stage = 2;
  options.language.context = 32;
  options.language.width = 16;
  options.language.heads = 2;
  options.language.layers = 3;
  options.bucket_bytes = 4096;  // several buckets
  return options;
}

ParallelData tiny_data(const ParallelOptions& options) {
  ParallelData data;
  data.images = synthetic_images(64, 1);
  if (options.model == "gpt") data.text = synthetic_text(4096, 1);
  return data;
}

// Every participant plans for itself: quick plans do, as they change no bit.
class QuickPlans {
 public:
  QuickPlans() {
    if (const char* const was = std::getenv(kName)) was_ = was;
    ::setenv(kName, "first", 1);
  }
  ~QuickPlans() {
    if (was_) {
      ::setenv(kName, was_->c_str(), 1);
    } else {
      ::unsetenv(kName);
    }
  }
  QuickPlans(const QuickPlans&) = delete;
  QuickPlans& operator=(const QuickPlans&) = delete;

 private:
  static constexpr const char* kName = "PLIMSOLL_PLANNING";
  std::optional<std::string> was_;
};

class DataParallelTraining : public ::testing::TestWithParam<const char*> {
  QuickPlans plans_;
};

// Bits do not depend on the limit; those of another number of participants differ by the order of
// sums: a gradient is the mean of means.
TEST_P(DataParallelTraining, HasTheSameBitsAtHalfOfThePeakAndIsCloseToOneParticipant) {
  ParallelOptions options = tiny(GetParam(), 0);
  const ParallelData data = tiny_data(options);
  const ParallelResult alone = train_participant(options, data, {});
  for (const std::int64_t participants : {2, 4}) {
    options.participants = participants;
    options.memory_limit = "none";
    const std::vector<ParallelResult> free = train_threads(options, data);
    options.memory_limit = "50%peak";
    const std::vector<ParallelResult> limited = train_threads(options, data);
    ASSERT_EQ(free.size(), static_cast<std::size_t>(participants));
    for (std::size_t i = 0; i < free.size(); ++i) {
      EXPECT_EQ(free[i].weights_sha256, free[0].weights_sha256);
      EXPECT_EQ(limited[i].weights_sha256, free[0].weights_sha256);
      const ParticipantMemory& memory = limited[0].memory[i];
      EXPECT_EQ(memory.limit_bytes, memory.unlimited_peak_bytes / 2);
      EXPECT_LE(memory.peak_bytes, memory.limit_bytes);
    }
    const double difference = weight_difference(free[0], alone);
    EXPECT_LT(difference, options.model == "cnn" ? 1e-4 : 1e-6) << participants;
    EXPECT_GT(difference, 0) << "nothing was summed in another order";
    EXPECT_NEAR(free[0].loss, alone.loss, 1e-5);
  }
}

TEST_P(DataParallelTraining, DoesNotDependOnBuckets) {
  ParallelOptions options = tiny(GetParam(), 2);
  const ParallelData data = tiny_data(options);
  const std::string hash = train_threads(options, data)[0].weights_sha256;
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1} << 30}) {
    options.bucket_bytes = bytes;
    EXPECT_EQ(train_threads(options, data)[0].weights_sha256, hash) << bytes;
  }
}

TEST_P(DataParallelTraining, HasTheSameBitsWhereEachKeepsAShare) {
  ParallelOptions options = tiny(GetParam(), 3);
  options.optimizer = "adamw";
  options.batch = 18;
  const ParallelData data = tiny_data(options);
  const ParallelResult whole = train_threads(options, data)[0];
  for (const Sharding sharding : {Sharding::optimizer, Sharding::gradients, Sharding::parameters}) {
    options.sharding = sharding;
    options.memory_limit = sharding == Sharding::parameters ? "60%peak" : "none";
    const ParallelResult shared = train_threads(options, data)[0];
    EXPECT_EQ(shared.weights_sha256, whole.weights_sha256);
    // Two moments of everything; a third of these and of the weights.
    EXPECT_LT(shared.memory[0].optimizer_bytes, whole.memory[0].optimizer_bytes * 11 / 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DataParallelTraining, ::testing::Values("cnn", "gpt"),
                         [](const auto& info) { return std::string(info.param); });

TEST(DataParallelTraining, KeepsStatisticsOfBatchesForEachParticipant) {
  ParallelOptions options = tiny("cnn", 2);
  options.network.normalization = Normalization::batch;
  const ParallelData data = tiny_data(options);
  const std::vector<ParallelResult> results = train_threads(options, data);
  EXPECT_EQ(results[0].weights_sha256, results[1].weights_sha256);
  // Another batch is normalized: by 8 images, not by 16.
  const ParallelResult alone = train_participant(options, data, {});
  EXPECT_GT(weight_difference(results[0], alone), 1e-4);
}

TEST(DataParallelTraining, SaysWhatIsWrong) {
  ParallelOptions options = tiny("cnn", 3);
  const ParallelData data = tiny_data(options);
  try {
    train_threads(options, data);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "--batch 16 is no multiple of the 3 participants");
  }
  // A limit that nobody can keep ends all, with the floor.
  options = tiny("cnn", 2);
  options.memory_limit = "2%peak";
  try {
    train_threads(options, data);
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.message(), "no plan fits the limit"));
    EXPECT_GT(error.floor_bytes(), 0);
  }
}

// Output and exit code of a shell command.
std::pair<std::string, int> output_of(const std::string& command) {
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string text;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
  return {text, ::pclose(pipe)};
}

// Each rank hears of it, and nobody trains.
TEST(DataParallelProgram, RefusesToTrainWithOtherOptionsThanTheFirst) {
  const auto [launcher, program] = std::pair<std::string, std::string>(
      PLIMSOLL_COMMAND " launch -n 3 -- sh -c '", PLIMSOLL_DATA_PARALLEL);
  const std::pair<const char*, const char*> cases[] = {
      {"--batch $((24 + 3 * (RANK / 2)))", "--batch: 27 at rank 2, 24 at rank 0"},
      {"--batch 24 --seed $((RANK + 7))", "--seed: 8 at rank 1, 7 at rank 0"},
      {"--batch 24 --model $(test $RANK = 2 && echo cnn || echo gpt)",
       "--model: cnn at rank 2, gpt at rank 0"},
      {"--batch 24 --model gpt $(test $RANK = 1 && echo --text " PLIMSOLL_TEXT ")",
       "--text: of checksum "}};
  for (const auto& [arguments, expected] : cases) {
    const auto [text, code] =
        output_of(launcher + "exec " + program + " --no-progress --steps 1 " + arguments + "'");
    EXPECT_NE(code, 0) << arguments;
    for (const std::string rank : {"[0] ", "[1] ", "[2] "}) {
      const std::size_t begin = std::min(text.find(rank + "data_parallel: "), text.size());
      EXPECT_TRUE(contains(text.substr(begin, text.find('\n', begin) - begin), expected)) << text;
    }
    EXPECT_FALSE(contains(text, "final loss")) << text;
  }
}

TEST(DataParallelProgram, RefusesThreadsInProcessesOfALauncher) {
  const auto [text, code] =
      output_of(PLIMSOLL_COMMAND " launch -n 2 -- " PLIMSOLL_DATA_PARALLEL
                                 " --no-progress --steps 1 --batch 8 --participants 2");
  EXPECT_NE(code, 0);
  EXPECT_TRUE(contains(text, "--participants 2: makes threads")) << text;
  EXPECT_TRUE(contains(text, "leave --participants out")) << text;
  EXPECT_FALSE(contains(text, "final loss")) << text;
}

// What `data_parallel` prints as JSON, as processes or threads.
nlohmann::json run_program(const std::string& launcher, const std::string& arguments) {
  const std::string command =
      launcher + PLIMSOLL_DATA_PARALLEL + " --json --no-progress --steps 2 " + arguments;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) {
    const std::string line = buffer;
    text += line.rfind("[0] ", 0) == 0 ? line.substr(4) : line;
  }
  EXPECT_EQ(::pclose(pipe), 0) << command << "\n" << text;
  return nlohmann::json::parse(text, nullptr, false);
}

TEST(DataParallelProgram, HasTheSameBitsInProcessesAndThreads) {
  const QuickPlans plans;
  const std::string launcher = PLIMSOLL_COMMAND;
  const std::pair<const char*, const char*> models[] = {
      {"cnn", "--model cnn --batch 32"},
      {"gpt", "--model gpt --batch 16 --context 32 --width 16 --heads 2 --layers 3"}};
  for (const auto& [name, arguments] : models) {
    for (const std::string count : {"2", "4"}) {
      const nlohmann::json threads =
          run_program("", arguments + std::string(" --participants ") + count);
      // Planning under limits takes the most of the time: once for each model.
      const bool is_limited = count == "2";
      const nlohmann::json processes =
          run_program(launcher + " launch -n " + count + " -- ",
                      arguments + std::string(is_limited ? " --memory-limit 50%peak" : ""));
      ASSERT_FALSE(threads.is_discarded() || processes.is_discarded());
      EXPECT_EQ(processes.at("weights_sha256"), threads.at("weights_sha256")) << name << count;
      EXPECT_EQ(processes.at("memory").size(), std::stoul(count));
      for (const nlohmann::json& one : processes.at("memory")) {
        if (is_limited) {
          EXPECT_LE(one.at("peak_bytes"), one.at("limit_bytes"));
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::examples
