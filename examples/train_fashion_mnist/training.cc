// SPDX-License-Identifier: Apache-2.0
#include "examples/train_fashion_mnist/training.h"

#include <algorithm>
#include <numeric>

#include "examples/train_fashion_mnist/image_batches.h"
#include "examples/training/progress_bar.h"
#include "examples/training/run_checkpoint.h"

namespace plimsoll::examples {

FashionData load_fashion_data(const FashionOptions& options) {
  FashionData data;
  try {
    data.train = data::read_labeled_images(options.data, "train");
    data.test = data::read_labeled_images(options.data, "t10k");
  } catch (const Error& error) {
    throw Error(error.code(),
                error.message() + "; install dataset-fashion-mnist or pass --data DIR");
  }
  data.train.truncate(options.limit_train_images);
  return data;
}

RunReport& train(TrainingRun& run, const FashionData& data, const FashionOptions& options,
                 std::int64_t steps, bool with_test) {
  nn::Initializer init(options.seed);
  ResidualNetwork network(options.network, init);
  network.materialize();
  optim::Adam optimizer(network.parameters(), {.learning_rate = options.learning_rate});

  data::ShuffledBatches batches(data.train.count, options.batch, options.seed);
  const std::int64_t total = steps > 0 ? steps : options.epochs * batches.batches_per_epoch();
  const optim::CosineSchedule schedule{.peak_rate = options.learning_rate,
                                       .total_steps = total,
                                       .warmup_steps = std::min<std::int64_t>(100, total / 4)};
  ImageBatches tensors(data.train);
  ProgressBar bar("training", total, !options.no_progress);
  RunCheckpoint checkpoint(options, network, optimizer, total);
  const std::int64_t first = checkpoint.resume();
  for (std::int64_t step = 0; step < total; ++step) {
    const auto indices = batches.next();
    if (step < first) continue;  // the same images come next
    const auto [images, labels] = tensors.make(indices);
    optimizer.set_learning_rate(schedule(step));
    // A statement of its own: a handle on the logits that still lived at the cut would keep them.
    const Tensor loss = nn::cross_entropy(network(images), labels);
    run.step(loss, optimizer);
    checkpoint.after_step(step + 1);
    bar.update(step + 1,
               "epoch " + std::to_string(batches.epoch() + 1) + "  " + run.progress_text("images"));
  }
  run.finish_steps();
  bar.update(total, run.progress_text("images"));
  bar.finish();
  if (with_test) {
    run.report().test_accuracy =
        accuracy(network, data.test, std::min<std::int64_t>(options.batch, 100));
  }
  return run.finish(network);
}

double accuracy(ResidualNetwork& network, const data::LabeledImages& images, std::int64_t batch) {
  network.train(false);
  ImageBatches tensors(images);
  std::int64_t correct = 0;
  std::vector<std::int64_t> indices;
  for (std::int64_t first = 0; first < images.count; first += batch) {
    indices.resize(static_cast<std::size_t>(std::min(batch, images.count - first)));
    std::iota(indices.begin(), indices.end(), first);
    const auto [pixels, labels] = tensors.make(indices);
    const Tensor right = argmax(network(pixels), -1) == labels;
    correct += sum(convert(right, DType::s32)).item<std::int32_t>();
  }
  network.train(true);
  return static_cast<double>(correct) / static_cast<double>(images.count);
}

}  // namespace plimsoll::examples
