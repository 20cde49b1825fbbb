// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/training_steps/workload.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <utility>

#include "benchmarks/training_steps/recurrent_network.h"
#include "benchmarks/training_steps/scanned_language_model.h"
#include "benchmarks/training_steps/segmentation_network.h"
#include "examples/train_fashion_mnist/residual_network.h"
#include "examples/train_text/language_model.h"

namespace plimsoll::benchmarks {
namespace {

constexpr std::uint64_t kSeed = 1;

std::int64_t count_of(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}

Tensor made_up_values(const Dims& dims, std::int64_t step) {
  HostRandom random(kSeed, static_cast<std::uint64_t>(2 * step));
  std::vector<float> values(static_cast<std::size_t>(count_of(dims)));
  for (float& value : values) value = 2.0f * random.next_uniform() - 1.0f;
  return Tensor::from_host(values, dims);
}

Tensor made_up_labels(const Dims& dims, std::int64_t classes, std::int64_t step) {
  HostRandom random(kSeed, static_cast<std::uint64_t>(2 * step + 1));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(count_of(dims)));
  for (std::int32_t& label : labels) {
    const auto drawn =
        static_cast<std::int64_t>(random.next_uniform() * static_cast<float>(classes));
    label = static_cast<std::int32_t>(std::min(drawn, classes - 1));
  }
  return Tensor::from_host(labels, dims);
}

Training train(std::unique_ptr<nn::Layer> network,
               std::function<Tensor(nn::Layer&, std::int64_t)> loss) {
  Training training;
  training.network = std::move(network);
  training.network->materialize();
  training.optimizer =
      std::make_unique<optim::Adam>(training.network->parameters(), optim::AdamOptions{});
  training.loss = std::move(loss);
  return training;
}

Training start_cnn(std::int64_t batch, std::int64_t blocks_per_stage) {
  nn::Initializer init(kSeed);
  examples::ResidualNetworkOptions options;
  options.blocks_per_stage = blocks_per_stage;
  const std::int64_t classes = options.classes;
  return train(std::make_unique<examples::ResidualNetwork>(options, init),
               [batch, classes](nn::Layer& network, std::int64_t step) {
                 return nn::cross_entropy(network(made_up_values({batch, 28, 28, 1}, step)),
                                          made_up_labels({batch}, classes, step));
               });
}

Training start_gpt(std::int64_t batch, const examples::LanguageModelOptions& options) {
  nn::Initializer init(kSeed);
  return train(std::make_unique<examples::LanguageModel>(options, init),
               [batch, options](nn::Layer& network, std::int64_t step) {
                 const Dims dims = {batch, options.context};
                 return nn::cross_entropy(
                     network(made_up_labels(dims, options.vocabulary, 2 * step)),
                     made_up_labels(dims, options.vocabulary, 2 * step + 1));
               });
}

Training start_small_gpt(std::int64_t batch, std::int64_t layers) {
  examples::LanguageModelOptions options;
  options.vocabulary = 96;
  options.layers = layers;
  return start_gpt(batch, options);
}

Training start_scanned_gpt(std::int64_t batch) {
  nn::Initializer init(kSeed);
  const ScannedLanguageModelOptions options;
  return train(std::make_unique<ScannedLanguageModel>(options, init),
               [batch, options](nn::Layer& network, std::int64_t step) {
                 const Dims dims = {batch, options.context};
                 return nn::cross_entropy(
                     network(made_up_labels(dims, options.vocabulary, 2 * step)),
                     made_up_labels(dims, options.vocabulary, 2 * step + 1));
               });
}

Training start_lstm(std::int64_t batch, std::int64_t steps) {
  nn::Initializer init(kSeed);
  const RecurrentNetworkOptions options;
  return train(std::make_unique<RecurrentNetwork>(options, init),
               [batch, steps, options](nn::Layer& network, std::int64_t step) {
                 const Dims dims = {batch, steps};
                 return nn::cross_entropy(
                     network(made_up_labels(dims, options.vocabulary, 2 * step)),
                     made_up_labels(dims, options.vocabulary, 2 * step + 1));
               });
}

Training start_unet(std::int64_t batch) {
  constexpr std::int64_t kSize = 64;
  nn::Initializer init(kSeed);
  const SegmentationNetworkOptions options;
  return train(std::make_unique<SegmentationNetwork>(options, init),
               [batch, options](nn::Layer& network, std::int64_t step) {
                 return nn::cross_entropy(
                     network(made_up_values({batch, kSize, kSize, options.inputs}, step)),
                     made_up_labels({batch, kSize, kSize}, options.classes, step));
               });
}

std::int64_t scaled(std::int64_t batch, double scale) {
  return std::max<std::int64_t>(1, std::llround(scale * static_cast<double>(batch)));
}

}  // namespace

std::vector<Workload> training_workloads(double scale) {
  const auto batch = [scale](std::int64_t size) { return scaled(size, scale); };
  return {{"cnn", [n = batch(64)] { return start_cnn(n, 4); }},
          {"gpt", [n = batch(16)] { return start_small_gpt(n, 6); }},
          {"lstm", [n = batch(48)] { return start_lstm(n, 100); }},
          {"unet", [n = batch(8)] { return start_unet(n); }},
          {"gpt_scanned", [n = batch(16)] { return start_scanned_gpt(n); }}};
}

std::vector<Workload> example_workloads() {
  return {
      {"cnn", [] { return start_cnn(128, examples::ResidualNetworkOptions{}.blocks_per_stage); }},
      {"gpt", [] { return start_small_gpt(16, examples::LanguageModelOptions{}.layers); }}};
}

Workload gpt_workload(const GptSizes& sizes) {
  examples::LanguageModelOptions options;
  options.vocabulary = sizes.vocabulary;
  options.context = sizes.context;
  options.width = sizes.width;
  options.heads = sizes.heads;
  options.layers = sizes.layers;
  options.dropout = 0;
  return {"gpt", [batch = sizes.batch, options] { return start_gpt(batch, options); }};
}

std::vector<Workload> gpu_workloads(double scale) {
  GptSizes gpt;
  gpt.batch = scaled(gpt.batch, scale);
  return {gpt_workload(gpt),
          {"cnn", [n = scaled(1024, scale)] { return start_cnn(n, 4); }},
          {"lstm", [n = scaled(512, scale)] { return start_lstm(n, 32); }}};
}

std::optional<std::vector<Workload>> choose_workloads(std::vector<Workload> all,
                                                      std::span<const std::string> names,
                                                      std::string_view program) {
  for (const std::string& name : names) {
    if (std::any_of(all.begin(), all.end(),
                    [&](const Workload& workload) { return workload.name == name; })) {
      continue;
    }
    std::string known;
    for (const Workload& workload : all) known += (known.empty() ? "" : ", ") + workload.name;
    std::cerr << program << ": '" << name << "' is no workload (" << known << ")\n";
    return std::nullopt;
  }
  if (!names.empty()) {
    std::erase_if(all, [&](const Workload& workload) {
      return std::find(names.begin(), names.end(), workload.name) == names.end();
    });
  }
  return all;
}

}  // namespace plimsoll::benchmarks
