// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "examples/train_fashion_mnist/demo.h"
#include "examples/train_fashion_mnist/training.h"
#include "examples/train_text/language_model.h"
#include "examples/training/memory_limit.h"
#include "examples/training/training_options.h"

namespace plimsoll::examples {
namespace {

// Ten classes: a bright row at the height of the label, in noise.
data::LabeledImages synthetic_images(std::int64_t count, std::uint64_t seed) {
  data::LabeledImages images;
  images.count = count;
  images.height = images.width = 10;
  HostRandom random(seed);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint8_t>(random.next_below(10));
    images.labels.push_back(label);
    for (int at = 0; at < 100; ++at) {
      const auto noise = static_cast<std::uint8_t>(random.next_below(64));
      images.pixels.push_back(at / 10 == label ? static_cast<std::uint8_t>(190 + noise) : noise);
    }
  }
  return images;
}

FashionOptions tiny_options() {
  FashionOptions options;
  options.batch = 16;
  options.no_progress = true;
  options.network.widths = {4};
  options.network.blocks_per_stage = 6;
  options.demo_steps = 20;
  options.learning_rate = 1e-2;
  return options;
}

TEST(Training, GivesTheSameWeightsAtEveryLimitAndStaysUnderIt) {
  const FashionData data = {synthetic_images(200, 1), {}};
  const std::vector<DemoRow> rows = run_demo(data, tiny_options());
  ASSERT_EQ(rows.size(), 4u);
  for (const DemoRow& row : rows) {
    EXPECT_EQ(row.report.weights_sha256, rows[0].report.weights_sha256) << row.limit;
    EXPECT_EQ(row.report.final_loss(), rows[0].report.final_loss()) << row.limit;
    EXPECT_EQ(row.report.steps.size(), 20u);
    if (row.report.limit_bytes > 0) {
      EXPECT_LE(row.report.measured_peak_bytes, row.report.limit_bytes) << row.limit;
    }
  }
  EXPECT_LT(rows[3].report.limit_bytes, rows[0].report.measured_peak_bytes);
  check_demo(rows);
  const std::string table = demo_table(rows);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 5);
  EXPECT_NE(table.find(rows[0].report.weights_sha256), std::string::npos);
}

TEST(Training, DemoFailsWhenTheWeightsDifferOrALimitIsPassed) {
  std::vector<DemoRow> rows(2);
  rows[1].report.limit_bytes = 10;
  rows[1].report.measured_peak_bytes = 10;
  check_demo(rows);
  rows[1].report.measured_peak_bytes = 11;
  EXPECT_THROW(check_demo(rows), Error);
  rows[1].report.measured_peak_bytes = 10;
  rows[1].report.weights_sha256 = "0";
  EXPECT_THROW(check_demo(rows), Error);
}

TEST(Training, LearnsUnderAShareOfThePeak) {
  const FashionData data = {synthetic_images(320, 1), synthetic_images(100, 2)};
  FashionOptions options = tiny_options();
  options.memory_limit = "60%peak";
  options.epochs = 3;
  TrainingRun run("tiny", options);
  const RunReport report = train(run, data, options, 0, true);
  EXPECT_GT(report.test_accuracy, 0.5);
  EXPECT_EQ(report.limit_bytes, report.unlimited_peak_bytes * 6 / 10);
  EXPECT_LE(report.measured_peak_bytes, report.limit_bytes);
  EXPECT_LE(report.floor_bytes, report.limit_bytes);
  EXPECT_GT(report.floor_bytes, 0);
}

TEST(Training, DependsOnTheSeed) {
  const FashionData data = {synthetic_images(64, 1), {}};
  const auto weights = [&](std::uint64_t seed) {
    FashionOptions options = tiny_options();
    options.seed = seed;
    TrainingRun run("tiny", options);
    return train(run, data, options, 2, false).weights_sha256;
  };
  EXPECT_EQ(weights(1), weights(1));
  EXPECT_NE(weights(1), weights(2));
}

TEST(Training, ALanguageModelGivesTheSameWeightsAtEveryLimit) {
  LanguageModelOptions model_options;
  model_options.vocabulary = 11;
  model_options.context = 12;
  model_options.width = 16;
  model_options.heads = 2;
  model_options.layers = 2;
  TrainingOptions options;
  options.batch = 4;
  const auto run_at = [&](const std::string& limit) {
    options.memory_limit = limit;
    TrainingRun run("tiny", options);
    nn::Initializer init(1);
    LanguageModel model(model_options, init);
    model.materialize();
    optim::AdamW optimizer(model.parameters(), {.learning_rate = 1e-2});
    std::vector<std::int32_t> tokens(100);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i % 11);
    data::TokenWindows windows(tokens, 12, 3);
    std::vector<std::int32_t> inputs, targets;
    for (int step = 0; step < 20; ++step) {
      windows.next(4, inputs, targets);
      const Tensor loss = nn::cross_entropy(model(Tensor::from_host(inputs, {4, 12})),
                                            Tensor::from_host(targets, {4, 12}));
      run.step(loss, optimizer, 1.0);
    }
    run.finish_steps();
    return run.finish(model);
  };
  const RunReport free = run_at("1TiB");
  EXPECT_LT(free.final_loss(), free.steps.front().loss * 0.7f);
  const RunReport limited = run_at("70%peak");
  EXPECT_EQ(limited.weights_sha256, free.weights_sha256);
  EXPECT_LE(limited.measured_peak_bytes, limited.limit_bytes);
  const RunReport lowest = run_at(std::to_string(limited.floor_bytes));
  EXPECT_EQ(lowest.weights_sha256, free.weights_sha256);
  EXPECT_LE(lowest.measured_peak_bytes, limited.floor_bytes);
}

TEST(ChosenLimit, ReadsSizesSharesAndNone) {
  EXPECT_EQ(chosen_limit("none")->bytes, PLM_NO_LIMIT);
  EXPECT_EQ(chosen_limit("512MiB")->bytes, 512 << 20);
  EXPECT_EQ(chosen_limit("50%peak")->resolve({}, 1000), 500);
  EXPECT_GT(chosen_limit("50%")->bytes, 1 << 20);
  EXPECT_THROW(chosen_limit("12parsecs"), Error);
  EXPECT_THROW(chosen_limit(""), Error);
}

// Not only once the run is over, whose results would be lost.
TEST(TrainingOptions, LookAtFilesBeforeTheRun) {
  EXPECT_EQ(check_writable("report.html"), "");
  EXPECT_EQ(check_writable(::testing::TempDir() + "/report.html"), "");
  EXPECT_EQ(check_writable("/dev/null"), "");
  const std::string nowhere = ::testing::TempDir() + "no-such-folder";
  EXPECT_EQ(check_writable(nowhere + "/report.html"), "there is no folder '" + nowhere + "'");
  EXPECT_EQ(check_writable("/"), "'/' is a folder");
  EXPECT_EQ(check_writable("/dev/null/report.html"), "there is no folder '/dev/null'");
}

TEST(TrainingOptions, SayWhatIsNoNumber) {
  EXPECT_EQ(check_above_zero("0.5") + check_not_negative("0"), "");
  EXPECT_EQ(check_above_zero("0"), "'0' is no number above zero");
  for (const char* text : {"", "-1", "nan", "1x"}) {
    EXPECT_NE(check_above_zero(text), "") << text;
    EXPECT_NE(check_not_negative(text), "") << text;
  }
}

TEST(RunReport, WritesJsonAndHtmlByTheNameOfTheFile) {
  RunReport report;
  report.program = "tiny";
  report.steps = {{2.0, 1.5f}, {0.25f, 1.0f}, {0.5, 0.5f}};
  report.weights_sha256 = "abc";
  const auto folder = std::filesystem::path(testing::TempDir());
  const auto read = [](const std::filesystem::path& path) { return data::read_text(path); };
  write_report(report, folder / "plimsoll_report.json");
  const auto json = nlohmann::json::parse(read(folder / "plimsoll_report.json"));
  EXPECT_EQ(json.at("steps").size(), 3u);
  EXPECT_EQ(json.at("final_loss"), 0.5);
  EXPECT_EQ(json.at("median_step_seconds"), 0.5);
  EXPECT_TRUE(json.at("test_accuracy").is_null());
  write_report(report, folder / "plimsoll_report.html");
  const std::string html = read(folder / "plimsoll_report.html");
  EXPECT_NE(html.find("<polyline"), std::string::npos);
  EXPECT_NE(html.find("abc"), std::string::npos);
  EXPECT_THROW(write_report(report, "/nonexistent/report.json"), Error);
}

}  // namespace
}  // namespace plimsoll::examples
