// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "examples/train_fashion_mnist/demo.h"
#include "examples/train_fashion_mnist/training.h"
#include "examples/training/text_format.h"

namespace plimsoll::examples {
namespace {

void print_result(const RunReport& report) {
  std::printf("test accuracy    %.2f %%\n", 100 * report.test_accuracy);
  std::printf("final loss       %.4f\n", static_cast<double>(report.final_loss()));
  std::printf("training time    %.1f s, %.1f ms a step\n", report.training_seconds,
              1e3 * report.median_step_seconds());
  std::printf("measured peak    %s%s%s\n", format_bytes(report.measured_peak_bytes).c_str(),
              report.limit_bytes > 0 ? " of " : "",
              report.limit_bytes > 0 ? format_bytes(report.limit_bytes).c_str() : "");
  std::printf("recomputed       %s a step\n",
              format_bytes(report.recomputed_bytes_per_step).c_str());
  if (report.lossy_encodes_per_step > 0) {
    std::printf("stored with loss %lld values a step by %s\n",
                static_cast<long long>(report.lossy_encodes_per_step), report.lossy_codec.c_str());
  }
  std::printf("SHA-256 (weights) %s\n", report.weights_sha256.c_str());
}

void run(const FashionOptions& options) {
  const FashionData data = load_fashion_data(options);
  if (options.demo) {
    const std::vector<DemoRow> rows = run_demo(data, options);
    if (options.json) {
      nlohmann::ordered_json json = nlohmann::ordered_json::array();
      for (const DemoRow& row : rows) {
        json.push_back(nlohmann::ordered_json::parse(to_json(row.report)));
      }
      std::printf("%s\n", json.dump(2).c_str());
    } else {
      std::printf("%s", demo_table(rows).c_str());
    }
    check_demo(rows);
    return;
  }
  TrainingRun training("train_fashion_mnist", options);
  const RunReport& report = train(training, data, options, 0, true);
  if (!options.report.empty()) write_report(report, options.report);
  if (options.json) {
    std::printf("%s\n", to_json(report).c_str());
  } else {
    print_result(report);
  }
}

}  // namespace
}  // namespace plimsoll::examples

int main(int argc, char** argv) {
  plimsoll::examples::FashionOptions options;
  CLI::App app("Trains a residual network with batch normalization on Fashion-MNIST.",
               "train_fashion_mnist");
  options.add_to(app);
  options.add_checkpoint_to(app);
  app.add_option("--data", options.data, "Folder of the four IDX files")->capture_default_str();
  app.add_option("--epochs", options.epochs, "Passes over the training images")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_option("--learning-rate", options.learning_rate, "At the top of the schedule")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_option("--limit-train-images", options.limit_train_images,
                 "Use only the first so many (0: all)")
      ->check(plimsoll::examples::check_not_negative);
  auto* demo = app.add_flag("--demo", options.demo,
                            "Train at four limits and print one table; fails when they differ");
  demo->excludes(app.get_option("--checkpoint"));  // its runs begin anew
  app.add_option("--steps", options.demo_steps, "Steps of each of the demo's runs")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero)
      ->needs(demo);
  return plimsoll::examples::run_program(app, argc, argv,
                                         [&] { plimsoll::examples::run(options); });
}
