// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "examples/data_parallel/participant.h"
#include "examples/training/text_format.h"

namespace plimsoll::examples {
namespace {

struct Outcome {
  ParallelResult result;
  std::string participants;            // who they were, in words
  std::optional<double> difference{};  // from one participant with the whole batch
};

void print_json(const ParallelOptions& options, const ParallelData& data, const Outcome& outcome) {
  nlohmann::ordered_json json;
  json["model"] = options.model;
  json["data"] = data.origin;
  json["participants"] = outcome.result.memory.size();
  json["batch"] = options.batch;
  json["steps"] = options.steps;
  json["final_loss"] = outcome.result.loss;
  json["weights_sha256"] = outcome.result.weights_sha256;
  json["median_step_seconds"] = outcome.result.median_step_seconds;
  if (outcome.difference) json["difference"] = *outcome.difference;
  auto& memory = json["memory"] = nlohmann::ordered_json::array();
  for (const ParticipantMemory& one : outcome.result.memory) {
    memory.push_back({{"peak_bytes", one.peak_bytes},
                      {"steps_peak_bytes", one.steps_peak_bytes},
                      {"optimizer_bytes", one.optimizer_bytes},
                      {"limit_bytes", one.limit_bytes},
                      {"unlimited_peak_bytes", one.unlimited_peak_bytes}});
  }
  std::printf("%s\n", json.dump(2).c_str());
}

void print_text(const ParallelOptions& options, const ParallelData& data, const Outcome& outcome) {
  std::printf("data             %s\n", data.origin.c_str());
  std::printf("participants     %s\n", outcome.participants.c_str());
  std::printf("final loss       %.6f, mean over %lld examples\n", outcome.result.loss,
              static_cast<long long>(options.batch));
  std::printf("step time        %.1f ms\n", 1e3 * outcome.result.median_step_seconds);
  for (std::size_t i = 0; i < outcome.result.memory.size(); ++i) {
    const ParticipantMemory& one = outcome.result.memory[i];
    std::string text = format_bytes(one.peak_bytes);
    if (one.limit_bytes > 0) text += " of " + format_bytes(one.limit_bytes);
    if (one.unlimited_peak_bytes > 0) {
      text += ", without a limit " + format_bytes(one.unlimited_peak_bytes);
    }
    std::printf("peak of %-8zu %s; of steps %s, of the optimizer %s\n", i, text.c_str(),
                format_bytes(one.steps_peak_bytes).c_str(),
                format_bytes(one.optimizer_bytes).c_str());
  }
  if (outcome.difference) {
    std::printf("difference       %.3g of the largest weight, from one participant\n",
                *outcome.difference);
  }
  std::printf("SHA-256 (weights) %s\n", outcome.result.weights_sha256.c_str());
}

void run(const ParallelOptions& options) {
  if (options.language.width % options.language.heads != 0) {
    throw Error(ErrorCode::invalid_argument, "--width must be a multiple of --heads");
  }
  const char* const kind = std::getenv("PLIMSOLL_COMMUNICATOR");
  const bool is_launched = kind != nullptr && std::string(kind) == "gloo";
  if (is_launched && options.participants > 0) {
    throw Error(ErrorCode::invalid_argument,
                "--participants " + std::to_string(options.participants) +
                    ": makes threads of one process, and PLIMSOLL_COMMUNICATOR=gloo says that this "
                    "is one of several, each of which would train for itself (leave --participants "
                    "out: `plimsoll launch -n N` says how many there are; or start it alone)");
  }
  const ParallelData data = load_parallel_data(options);
  Outcome outcome;
  bool speaks = true;
  if (options.participants > 0) {
    outcome.result = train_threads(options, data)[0];
    outcome.participants = std::to_string(options.participants) + " threads";
  } else if (is_launched) {
    const Communicator communicator = Communicator::connect();
    outcome.result = train_participant(options, data, communicator);
    outcome.participants = std::to_string(communicator.size()) + " processes";
    speaks = communicator.rank() == 0;
  } else {
    outcome.result = train_participant(options, data, {});
    outcome.participants = "1 (--participants N makes threads, plimsoll launch -n N processes)";
  }
  if (!speaks) return;
  if (options.compare) {
    ParallelOptions alone = options;
    alone.memory_limit = "none";
    alone.report.clear();
    outcome.difference = weight_difference(outcome.result, train_participant(alone, data, {}));
  }
  if (options.json) {
    print_json(options, data, outcome);
  } else {
    print_text(options, data, outcome);
  }
}

}  // namespace
}  // namespace plimsoll::examples

int main(int argc, char** argv) {
  using plimsoll::Sharding;
  using plimsoll::examples::Normalization;
  plimsoll::examples::ParallelOptions options;
  CLI::App app(
      "Trains a CNN or a GPT by several participants, each with a part of every batch: threads of "
      "this process, or processes that `plimsoll launch` starts.",
      "data_parallel");
  options.add_to(app);
  app.add_option("--model", options.model, "cnn or gpt")
      ->capture_default_str()
      ->check(CLI::IsMember({"cnn", "gpt"}));
  app.add_option("--participants", options.participants,
                 "Threads to train with; 0: the processes of the launcher, or one alone")
      ->check(CLI::Range(0, 64));
  app.add_option("--steps", options.steps, "Training steps")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_option("--optimizer", options.optimizer, "sgd (momentum 0.9) or adamw")
      ->capture_default_str()
      ->check(CLI::IsMember({"sgd", "adamw"}));
  app.add_option("--learning-rate", options.learning_rate, "0: what suits the model")
      ->capture_default_str()
      ->check(plimsoll::examples::check_not_negative);
  app.add_option("--bucket", options.bucket_bytes,
                 "Bytes of gradients that meet at once [PLIMSOLL_COLLECTIVE_BUCKET]")
      ->check(plimsoll::examples::check_not_negative);
  app.add_option(
         "--shard", options.sharding,
         "What participants keep a share of: none, optimizer (state), gradients (and state), "
         "parameters (and both)")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Sharding>{{"none", Sharding::none},
                                          {"optimizer", Sharding::optimizer},
                                          {"gradients", Sharding::gradients},
                                          {"parameters", Sharding::parameters}}));
  app.add_option("--normalization", options.network.normalization,
                 "Of the CNN: channel, or batch (by the statistics of each participant's part)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Normalization>{
          {"channel", Normalization::channel}, {"batch", Normalization::batch}}));
  app.add_option("--data", options.data, "Folder of the Fashion-MNIST files");
  app.add_option("--text", options.text, "The file that the GPT learns from");
  app.add_option("--blocks", options.network.blocks_per_stage, "Of the CNN's stages")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_option("--context", options.language.context, "Tokens that the GPT sees at once")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_option("--width", options.language.width, "Of the GPT")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_option("--heads", options.language.heads, "Of the GPT")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_option("--layers", options.language.layers, "Of the GPT")
      ->capture_default_str()
      ->check(plimsoll::examples::check_above_zero);
  app.add_flag(
      "--compare", options.compare,
      "Train once more by one participant, with the whole batch and no limit, and tell how "
      "far the weights are apart");
  return plimsoll::examples::run_program(app, argc, argv,
                                         [&] { plimsoll::examples::run(options); });
}
