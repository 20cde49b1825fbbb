// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "examples/train_fashion_mnist/residual_network.h"
#include "examples/train_text/language_model.h"
#include "examples/training/training_options.h"
#include "plimsoll/data.hpp"
#include "plimsoll/plimsoll.hpp"

namespace plimsoll::examples {

// How the run of all participants goes. `batch` is of all of them together, `memory_limit` of each.
struct ParallelOptions : TrainingOptions {
  std::string model = "cnn";  // or "gpt"
  std::int64_t steps = 20;
  std::int64_t participants = 0;  // threads; 0: processes, as the environment says
  std::string optimizer = "sgd";  // or "adamw"
  double learning_rate = 0;       // 0: what suits the model
  std::string data;               // folder of the images; empty: the usual one, if there is one
  std::string text;               // a file; empty: made-up text
  std::int64_t bucket_bytes = -1;
  Sharding sharding = Sharding::none;
  bool compare = false;
  ResidualNetworkOptions network;
  LanguageModelOptions language;

  ParallelOptions() {
    batch = 64;
    network.normalization = Normalization::channel;
    language.dropout = 0;
  }
};

// What all participants of a process read.
struct ParallelData {
  data::LabeledImages images;
  std::string text;
  std::string origin;  // in words
};
// Throws plimsoll::Error for files that were asked for and can't be read.
ParallelData load_parallel_data(const ParallelOptions& options);

// What is trained, in the current context: a network and the batches that it learns from. The same
// seed gives the same network and the same sequence of batches.
class Task {
 public:
  virtual ~Task() = default;
  virtual nn::Module& model() = 0;
  // The mean loss over participant `part` of `parts` equal parts of the next batch.
  virtual Tensor next_loss(std::int64_t part, std::int64_t parts) = 0;
};
// `data` outlives it.
std::unique_ptr<Task> make_task(const ParallelOptions& options, const ParallelData& data);

}  // namespace plimsoll::examples
