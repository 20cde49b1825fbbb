// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll::benchmarks {

// A network in training, in the context that was current when it was made: same seed, same batches,
// same bits everywhere.
struct Training {
  std::unique_ptr<nn::Layer> network;
  std::unique_ptr<optim::Optimizer> optimizer;
  // The loss of a batch that `step` alone decides.
  std::function<Tensor(nn::Layer& network, std::int64_t step)> loss;
};

struct Workload {
  std::string name;
  std::function<Training()> start;
};

// The CNN and the GPT of the examples, an LSTM unrolled over 100 steps, a U-Net, a GPT as a scan
// over its layers; `scale` multiplies the batch.
std::vector<Workload> training_workloads(double scale);

// The CNN and the GPT as the examples train them when nothing is said: docs/benchmarks.md states
// both in full.
std::vector<Workload> example_workloads();

// A GPT as it is trained where steps are put beside another library's: no dropout, logits by the
// token embedding, GELU by erf, Adam; batches of `batch` texts of `context` tokens.
struct GptSizes {
  std::int64_t vocabulary = 2048;
  std::int64_t context = 256;
  std::int64_t width = 512;
  std::int64_t heads = 8;
  std::int64_t layers = 8;
  std::int64_t batch = 16;
};
Workload gpt_workload(const GptSizes& sizes);

// A GPT of GptSizes, a CNN and an LSTM (over 32 steps) of sizes that give a GPU something to do;
// `scale` multiplies the batches.
std::vector<Workload> gpu_workloads(double scale);

// Those of `all` that `names` asks for, in the order of `all`; all of them where it is empty. A
// name that is none of theirs is told on standard error after `program`, and nothing is given.
std::optional<std::vector<Workload>> choose_workloads(std::vector<Workload> all,
                                                      std::span<const std::string> names,
                                                      std::string_view program);

}  // namespace plimsoll::benchmarks
