// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "examples/train_text/language_model.h"
#include "examples/training/progress_bar.h"
#include "examples/training/run_checkpoint.h"
#include "examples/training/text_format.h"
#include "examples/training/training_options.h"
#include "examples/training/training_run.h"
#include "plimsoll/data/text.hpp"

namespace plimsoll::examples {
namespace {

struct TextOptions : TrainingOptions {
  std::string text;
  std::int64_t steps = 1000;
  double learning_rate = 2e-3;
  std::int64_t sample = 120;
  double temperature = 0.8;
  LanguageModelOptions model;
};

// Draws from softmax(logits / temperature); temperature 0 takes the likeliest.
std::int32_t draw(std::span<const float> logits, double temperature, HostRandom& random) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature == 0) return static_cast<std::int32_t>(best - logits.begin());
  std::vector<double> sums;
  double total = 0;
  for (const float logit : logits) {
    total += std::exp(static_cast<double>(logit - *best) / temperature);
    sums.push_back(total);
  }
  const double target = total * static_cast<double>(random.next_uniform());
  return static_cast<std::int32_t>(
      std::min(std::upper_bound(sums.begin(), sums.end(), target), sums.end() - 1) - sums.begin());
}

// Continues from one token. Windows are filled up at the end, where causal attention doesn't look,
// so that every step has the same shapes.
std::string sample(LanguageModel& model, const data::ByteVocabulary& vocabulary,
                   std::int32_t first_token, const TextOptions& options) {
  model.train(false);
  HostRandom random(options.seed, 0x73616d70u);
  std::vector<std::int32_t> tokens = {first_token};
  const std::int64_t context = options.model.context;
  while (std::ssize(tokens) <= options.sample) {
    const std::int64_t seen = std::min<std::int64_t>(std::ssize(tokens), context);
    std::vector<std::int32_t> window(tokens.end() - seen, tokens.end());
    window.resize(static_cast<std::size_t>(context), 0);
    const std::vector<float> logits =
        model(Tensor::from_host(window, {1, context})).to_vector<float>();
    const auto row = std::span<const float>(logits).subspan(
        static_cast<std::size_t>((seen - 1) * vocabulary.size()),
        static_cast<std::size_t>(vocabulary.size()));
    tokens.push_back(draw(row, options.temperature, random));
  }
  model.train(true);
  return vocabulary.decode(tokens);
}

void run(TextOptions options) {
  if (options.model.width % options.model.heads != 0) {
    throw Error(ErrorCode::invalid_argument, "--width must be a multiple of --heads");
  }
  const std::string text = data::read_text(options.text);
  const data::ByteVocabulary vocabulary(text);
  options.model.vocabulary = vocabulary.size();
  const std::vector<std::int32_t> tokens = vocabulary.encode(text);
  data::TokenWindows windows(tokens, options.model.context, options.seed);

  TrainingRun training("train_text", options);
  nn::Initializer init(options.seed);
  LanguageModel model(options.model, init);
  model.materialize();
  optim::AdamW optimizer(
      model.parameters(),
      {.learning_rate = options.learning_rate, .beta2 = 0.99, .weight_decay = 0.01});
  const optim::CosineSchedule schedule{
      .peak_rate = options.learning_rate,
      .total_steps = options.steps,
      .warmup_steps = std::min<std::int64_t>(50, options.steps / 4),
      .last_rate = options.learning_rate / 10};
  ProgressBar bar("training", options.steps, !options.no_progress);
  const Dims dims = {options.batch, options.model.context};
  std::vector<std::int32_t> inputs, targets;
  RunCheckpoint checkpoint(options, model, optimizer, options.steps,
                           {{"heads", options.model.heads}});
  const std::int64_t first = checkpoint.resume();
  for (std::int64_t step = 0; step < options.steps; ++step) {
    windows.next(options.batch, inputs, targets);
    if (step < first) continue;  // the same windows come next
    optimizer.set_learning_rate(schedule(step));
    // A statement of its own: a handle on the logits that still lived at the cut would keep them.
    const Tensor loss =
        nn::cross_entropy(model(Tensor::from_host(inputs, dims)), Tensor::from_host(targets, dims));
    training.step(loss, optimizer, 1.0);
    checkpoint.after_step(step + 1);
    bar.update(step + 1, training.progress_text("windows"));
  }
  training.finish_steps();
  bar.update(options.steps, training.progress_text("windows"));
  bar.finish();
  const std::string line = options.sample > 0 ? sample(model, vocabulary, tokens[0], options) : "";
  const RunReport& report = training.finish(model);
  if (!options.report.empty()) write_report(report, options.report);
  if (options.json) {
    std::printf("%s\n", to_json(report).c_str());
    return;
  }
  std::printf("final loss       %.4f\n", static_cast<double>(report.final_loss()));
  std::printf("training time    %.1f s, %.1f ms a step\n", report.training_seconds,
              1e3 * report.median_step_seconds());
  std::printf("measured peak    %s%s%s\n", format_bytes(report.measured_peak_bytes).c_str(),
              report.limit_bytes > 0 ? " of " : "",
              report.limit_bytes > 0 ? format_bytes(report.limit_bytes).c_str() : "");
  std::printf("SHA-256 (weights) %s\n", report.weights_sha256.c_str());
  if (!line.empty()) std::printf("---\n%s\n", line.c_str());
}

}  // namespace
}  // namespace plimsoll::examples

int main(int argc, char** argv) {
  plimsoll::examples::TextOptions options;
  options.batch = 16;
  CLI::App app("Trains a small GPT on the bytes of a text file and writes a line of its own.",
               "train_text");
  options.add_to(app);
  options.add_checkpoint_to(app);
  app.add_option("text", options.text, "The file to learn from")->required();
  app.add_option("--steps", options.steps, "Training steps")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_option("--learning-rate", options.learning_rate, "At the top of the schedule")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_option("--context", options.model.context, "Tokens seen at once")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_option("--width", options.model.width, "Width of the model")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_option("--heads", options.model.heads, "Attention heads")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_option("--layers", options.model.layers, "Transformer blocks")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_option("--dropout", options.model.dropout, "Share of activations dropped")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.99));
  app.add_option("--sample", options.sample, "Bytes to write at the end")
      ->capture_default_str()
      ->check(plimsoll::examples::check_not_negative);
  app.add_option("--temperature", options.temperature, "Of the sampling; 0: the likeliest byte")
      ->capture_default_str()
      ->check(plimsoll::examples::check_not_negative);
  return plimsoll::examples::run_program(app, argc, argv,
                                         [&] { plimsoll::examples::run(options); });
}
