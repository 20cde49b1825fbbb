// SPDX-License-Identifier: Apache-2.0
#include "examples/data_parallel/task.h"

#include <filesystem>
#include <span>
#include <vector>

#include "examples/data_parallel/synthetic_data.h"
#include "examples/train_fashion_mnist/image_batches.h"
#include "examples/train_fashion_mnist/training.h"

namespace plimsoll::examples {
namespace {

class ImageTask final : public Task {
 public:
  ImageTask(const ParallelOptions& options, const data::LabeledImages& images)
      : init_(options.seed),
        network_(options.network, init_),
        indices_(images.count, options.batch, options.seed),
        batches_(images) {}

  nn::Module& model() override { return network_; }

  Tensor next_loss(std::int64_t part, std::int64_t parts) override {
    const std::span<const std::int64_t> all = indices_.next();
    const std::size_t size = all.size() / static_cast<std::size_t>(parts);
    const auto [images, labels] =
        batches_.make(all.subspan(static_cast<std::size_t>(part) * size, size));
    return nn::cross_entropy(network_(images), labels);
  }

 private:
  nn::Initializer init_;
  ResidualNetwork network_;
  data::ShuffledBatches indices_;
  ImageBatches batches_;
};

class TextTask final : public Task {
 public:
  TextTask(const ParallelOptions& options, const std::string& text,
           const data::ByteVocabulary& vocabulary)
      : batch_(options.batch),
        init_(options.seed),
        options_(with_vocabulary(options.language, vocabulary)),
        model_(options_, init_),
        windows_(vocabulary.encode(text), options_.context, options.seed) {}

  nn::Module& model() override { return model_; }

  Tensor next_loss(std::int64_t part, std::int64_t parts) override {
    std::vector<std::int32_t> inputs, targets;
    windows_.next(batch_, inputs, targets);
    const std::int64_t rows = batch_ / parts;
    const auto own = [&](const std::vector<std::int32_t>& tokens) {
      const auto size = static_cast<std::size_t>(rows * options_.context);
      return Tensor::from_host(
          std::span(tokens).subspan(static_cast<std::size_t>(part) * size, size),
          {rows, options_.context});
    };
    return nn::cross_entropy(model_(own(inputs)), own(targets));
  }

 private:
  static LanguageModelOptions with_vocabulary(LanguageModelOptions options,
                                              const data::ByteVocabulary& vocabulary) {
    options.vocabulary = vocabulary.size();
    return options;
  }

  std::int64_t batch_;
  nn::Initializer init_;
  LanguageModelOptions options_;
  LanguageModel model_;
  data::TokenWindows windows_;
};

constexpr std::uint64_t kDataSeed = 2026;

}  // namespace

ParallelData load_parallel_data(const ParallelOptions& options) {
  ParallelData data;
  if (options.model == "gpt") {
    data.text = options.text.empty() ? synthetic_text(std::size_t{1} << 16, kDataSeed)
                                     : data::read_text(options.text);
    data.origin = options.text.empty() ? "made-up text (--text FILE reads one)" : options.text;
    return data;
  }
  const FashionOptions usual;
  const std::string folder = options.data.empty() ? usual.data : options.data;
  std::error_code ignored;
  if (options.data.empty() && !std::filesystem::exists(folder, ignored)) {
    data.images = synthetic_images(4096, kDataSeed);
    data.origin = "made-up images: there is no " + folder + " (--data DIR reads others)";
    return data;
  }
  data.images = data::read_labeled_images(folder, "train");
  data.origin = folder;
  return data;
}

std::unique_ptr<Task> make_task(const ParallelOptions& options, const ParallelData& data) {
  if (options.model == "gpt") {
    return std::make_unique<TextTask>(options, data.text, data::ByteVocabulary(data.text));
  }
  return std::make_unique<ImageTask>(options, data.images);
}

}  // namespace plimsoll::examples
