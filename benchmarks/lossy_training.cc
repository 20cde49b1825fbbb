// SPDX-License-Identifier: Apache-2.0
// What codecs that change bits cost a training: loss, accuracy, memory and time by codec, over the
// exact training of the same seed under the same limit; docs/numerics.md has the results.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "benchmarks/lossy_training/study.h"

namespace plimsoll::benchmarks {
namespace {

using Json = nlohmann::ordered_json;

struct Way {
  std::string name, remedies, limit;
};

// Over all seeds; what is compared is the exact training of the same seed.
struct Means {
  double loss = 0, accuracy = 0, peak_bytes = 0, encodes = 0;
  double most_lost = -1;  // accuracy
  std::vector<double> time;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(const LossyStudy& study, const std::string& limit, int seeds, bool json) {
  const std::vector<Way> ways = {{"exact, no limit", "recompute,compress", "none"},
                                 {"exact", "recompute,compress", limit},
                                 {"bfloat16", "lossy:bfloat16", limit},
                                 {"float16", "lossy:float16", limit},
                                 {"int8", "lossy:int8", limit},
                                 {"int4", "lossy:int4", limit},
                                 {"int2", "lossy:int2", limit}};
  std::vector<Means> means(ways.size());
  Json out;
  bool sound = true;
  for (int seed = 1; seed <= seeds; ++seed) {
    std::string bits;
    double free_seconds = 0, exact_accuracy = 0;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const LossyRun result =
          train_lossy(study, ways[i].remedies, ways[i].limit, static_cast<std::uint64_t>(seed));
      const examples::RunReport& report = result.report;
      if (i == 0) {
        bits = report.weights_sha256;
        free_seconds = report.median_step_seconds();
        exact_accuracy = report.test_accuracy;
      }
      const double time = report.median_step_seconds() / free_seconds;
      const bool same = report.weights_sha256 == bits;
      // Of the exact ones every bit is the same, of the others none need be, but some codec ran.
      sound = sound && (i < 2 ? same : report.lossy_encodes_per_step > 0) &&
              (report.limit_bytes == 0 || report.measured_peak_bytes <= report.limit_bytes);
      Means& mean = means[i];
      mean.loss += result.mean_last_loss / seeds;
      mean.accuracy += report.test_accuracy / seeds;
      mean.most_lost = std::max(mean.most_lost, exact_accuracy - report.test_accuracy);
      mean.peak_bytes += static_cast<double>(report.measured_peak_bytes) / seeds;
      mean.encodes = static_cast<double>(report.lossy_encodes_per_step);
      mean.time.push_back(time);
      out["runs"].push_back({{"way", ways[i].name},
                             {"seed", seed},
                             {"limit_bytes", report.limit_bytes},
                             {"peak_bytes", report.measured_peak_bytes},
                             {"lossy_encodes_per_step", report.lossy_encodes_per_step},
                             {"last_loss", result.mean_last_loss},
                             {"test_accuracy", report.test_accuracy},
                             {"time", time},
                             {"same_bits", same}});
    }
  }
  if (json) {
    out["sound"] = sound;
    std::cout << out.dump(2) << "\n";
    return sound ? 0 : 1;
  }
  std::printf("%-16s %8s %9s %10s %9s %8s %6s\n", "codec", "loss", "accuracy", "most lost",
              "peak KiB", "encodes", "time");
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const Means& mean = means[i];
    std::printf("%-16s %8.4f %7.2f %% %8.2f %% %9.0f %8.0f %6.2f\n", ways[i].name.c_str(),
                mean.loss, 100 * mean.accuracy, 100 * mean.most_lost, mean.peak_bytes / 1024,
                mean.encodes, median(mean.time));
  }
  if (!sound) std::printf("not sound: other bits, no encoding, or a peak above its limit\n");
  return sound ? 0 : 1;
}

}  // namespace
}  // namespace plimsoll::benchmarks

int main(int argc, char** argv) {
  plimsoll::benchmarks::LossyStudy study;
  std::string limit = "60%peak";
  int seeds = 5;
  bool json = false;
  plimsoll::benchmarks::CommandLine line("What codecs that change bits cost a training.",
                                         "lossy_training");
  line.add("--memory-limit", limit, "Of all rows but the first");
  line.add("--seeds", seeds, "Trainings per row", {.least = 1, .most = 1000});
  line.add("--train-images", study.train_images, "Pictures to learn from", {.positive = true});
  line.add("--batch", study.batch, "Pictures per step", {.positive = true});
  line.add("--noise", study.noise, "Of the pictures' pixels", {.least = 0, .most = 187});
  line.add("--epochs", study.epochs, "Passes over the pictures", {.positive = true});
  line.add_flag("--json", json, "JSON on standard output instead of a table");
  if (const auto status = line.read(argc, argv)) return *status;
  try {
    return plimsoll::benchmarks::run(study, limit, seeds, json);
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "lossy_training: %s\n", error.what());
    return 1;
  }
}
