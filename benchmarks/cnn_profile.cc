// SPDX-License-Identifier: Apache-2.0
// Where a CNN training step's time goes: the example's residual network on made-up images, profiled
// kernel by kernel, with the share that is ours (generated and own kernels) and not oneDNN's.
// cnn_profile [BATCH [STEPS]]; prints one JSON object.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <plimsoll/plimsoll.hpp>
#include <vector>

#include "examples/train_fashion_mnist/residual_network.h"

namespace {

using nlohmann::json;
using plimsoll::Tensor;

Tensor made_up_images(std::int64_t batch) {
  std::vector<float> pixels(static_cast<std::size_t>(batch * 28 * 28));
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<float>((i * 2654435761u) % 1000) / 500.0f - 1.0f;
  }
  return Tensor::from_host(pixels, {batch, 28, 28, 1});
}

Tensor made_up_labels(std::int64_t batch) {
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < batch; ++i) labels.push_back(static_cast<std::int32_t>(i * 7 % 10));
  return Tensor::from_host(labels, {batch});
}

json profile(std::int64_t batch, int steps) {
  plimsoll::Context context;
  const plimsoll::ContextScope scope(context);
  plimsoll::nn::Initializer init(1);
  plimsoll::examples::ResidualNetwork network({}, init);
  network.materialize();
  plimsoll::optim::Adam optimizer(network.parameters(), {});
  json report;
  for (int i = 0; i < steps + 2; ++i) {
    if (i == 2) context.enable_profile(true);
    Tensor loss =
        plimsoll::nn::cross_entropy(network(made_up_images(batch)), made_up_labels(batch));
    loss.backward();
    optimizer.step();
    if (i + 1 == steps + 2) report = json::parse(context.report());
  }
  std::map<std::string, double> by_origin;
  double total = 0;
  for (const json& kernel : report.at("kernels")) {
    by_origin[kernel.at("origin")] += kernel.at("seconds").get<double>();
    total += kernel.at("seconds").get<double>();
  }
  json kernels = report.at("kernels");
  std::sort(kernels.begin(), kernels.end(), [](const json& a, const json& b) {
    return a.at("seconds").get<double>() > b.at("seconds").get<double>();
  });
  json out;
  out["batch"] = batch;
  out["profiled_steps"] = steps;
  out["kernel_seconds_per_step"] = total / steps;
  for (const auto& [origin, seconds] : by_origin) out["share"][origin] = seconds / total;
  out["share_not_library"] = 1 - by_origin["library"] / total;
  out["kernels"] = kernels;
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t batch = argc > 1 ? std::atoll(argv[1]) : 128;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 10;
  if (batch <= 0 || steps <= 0) {
    std::fprintf(stderr, "usage: cnn_profile [BATCH [STEPS]]\n");
    return 2;
  }
  try {
    std::printf("%s\n", profile(batch, steps).dump(2).c_str());
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "cnn_profile: %s\n", error.what());
    return 1;
  }
  return 0;
}
