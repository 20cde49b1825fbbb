// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "examples/train_fashion_mnist/residual_network.h"
#include "examples/training/training_options.h"
#include "examples/training/training_run.h"
#include "plimsoll/data.hpp"

namespace plimsoll::examples {

struct FashionOptions : TrainingOptions {
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::int64_t epochs = 3;
  std::int64_t limit_train_images = 0;
  double learning_rate = 3e-3;
  ResidualNetworkOptions network;
  bool demo = false;
  std::int64_t demo_steps = 40;
};

struct FashionData {
  data::LabeledImages train;
  data::LabeledImages test;
};

// Throws plimsoll::Error, which tells how to get the files.
FashionData load_fashion_data(const FashionOptions& options);

// Trains a fresh network for `steps` steps (0: all epochs) in the context of `run`, and tests it
// when asked to. Gives the run's report.
RunReport& train(TrainingRun& run, const FashionData& data, const FashionOptions& options,
                 std::int64_t steps, bool with_test);

// The share of images that the network puts into the right class.
double accuracy(ResidualNetwork& network, const data::LabeledImages& images, std::int64_t batch);

}  // namespace plimsoll::examples
