// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/lossy_training/study.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace plimsoll::benchmarks {
namespace {

constexpr std::int64_t kSide = 12;

// Waves of five directions and two lengths, at any place, in noise.
data::LabeledImages faint_waves(std::int64_t count, std::uint64_t noise, std::uint64_t seed) {
  data::LabeledImages images;
  images.count = count;
  images.height = images.width = kSide;
  HostRandom random(seed);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint8_t>(random.next_below(10));
    const double angle = std::numbers::pi / 5 * (label % 5);
    const double length = label < 5 ? 3 : 5;
    const double phase = 2 * std::numbers::pi * random.next_uniform();
    for (std::int64_t at = 0; at < kSide * kSide; ++at) {
      const double along = std::cos(angle) * static_cast<double>(at % kSide) +
                           std::sin(angle) * static_cast<double>(at / kSide);
      const double wave = 30 * std::sin(2 * std::numbers::pi * along / length + phase);
      const double added = static_cast<double>(random.next_below(noise + 1));
      images.pixels.push_back(static_cast<std::uint8_t>(34 + wave + added));
    }
    images.labels.push_back(label);
  }
  return images;
}

}  // namespace

LossyRun train_lossy(const LossyStudy& study, const std::string& remedies,
                     const std::string& memory_limit, std::uint64_t seed) {
  const examples::FashionData data = {faint_waves(study.train_images, study.noise, 1),
                                      faint_waves(study.test_images, study.noise, 2)};
  examples::FashionOptions options;
  options.batch = study.batch;
  options.seed = seed;
  options.memory_limit = memory_limit;
  options.remedies = remedies;
  options.no_progress = true;
  options.epochs = study.epochs;
  options.learning_rate = 1e-2;
  options.network.widths = {8, 16};
  options.network.blocks_per_stage = 2;
  examples::TrainingRun training("lossy_training", options);
  LossyRun run;
  run.report = examples::train(training, data, options, 0, true);
  const auto& steps = run.report.steps;
  const std::size_t last = std::max<std::size_t>(steps.size() / 10, 1);
  for (std::size_t i = steps.size() - last; i < steps.size(); ++i) {
    run.mean_last_loss += static_cast<double>(steps[i].loss) / static_cast<double>(last);
  }
  return run;
}

}  // namespace plimsoll::benchmarks
