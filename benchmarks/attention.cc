// SPDX-License-Identifier: Apache-2.0
// Attention of 16 heads of depth 64, forward, and forward with its gradients: as one kernel each
// way against the operations it is written in (dots through oneDNN, the rest compiled), step by
// step in turns in one run. Prints one JSON object: milliseconds (medians), the time of composed
// over fused, and the bytes that a step takes beside its operands and results.
//   attention [LENGTH]... (default 256 512 1024)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/command_line/command_line.h"
#include "plimsoll/plimsoll.hpp"

namespace {

using plimsoll::DType;
using plimsoll::Tensor;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kHeads = 16, kDepth = 64;
constexpr int kSteps = 9;

struct Case {
  std::int64_t length;
  DType dtype;
  bool causal, gradients;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A context in which attention is compiled one way, with operands on the device.
class Side {
 public:
  Side(const char* mode, const Case& c) : case_(c), context_(context_with(mode)) {
    const plimsoll::ContextScope scope(context_);
    for (int i = 0; i < 4; ++i) {
      plimsoll::HostRandom random(static_cast<std::uint64_t>(i));
      std::vector<float> values(static_cast<std::size_t>(kHeads * c.length * kDepth));
      for (float& value : values) value = 2 * random.next_uniform() - 1;
      operands_.push_back(
          convert(Tensor::from_host(values, {kHeads, c.length, kDepth}), c.dtype).eval());
    }
    context_.wait();
    held_bytes_ = context_.memory().used_bytes;
    milliseconds();  // compiles
  }

  double milliseconds() {
    const plimsoll::ContextScope scope(context_);
    const auto start = Clock::now();
    {
      const Tensor output =
          attention(operands_[0], operands_[1], operands_[2], {.causal = case_.causal});
      std::vector<Tensor> results = {output};
      if (case_.gradients) {
        const Tensor loss = sum(convert(output * operands_[3], DType::f32));
        const std::vector<Tensor> wrt(operands_.begin(), operands_.begin() + 3);
        for (const Tensor& gradient : plimsoll::gradients(loss, wrt)) results.push_back(gradient);
      }
      plimsoll::eval(results);
      context_.wait();
      results_bytes_ = 0;
      for (const Tensor& result : results) results_bytes_ += result.byte_size();
    }
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }

  std::int64_t extra_bytes() { return context_.memory().peak_bytes - held_bytes_ - results_bytes_; }

 private:
  static plimsoll::Context context_with(const char* mode) {
    setenv("PLIMSOLL_ATTENTION", mode, 1);
    return plimsoll::Context();
  }

  Case case_;
  plimsoll::Context context_;
  std::vector<Tensor> operands_;
  std::int64_t held_bytes_ = 0, results_bytes_ = 0;
};

nlohmann::ordered_json measure(const Case& c) {
  Side fused("fused", c), composed("composed", c);
  std::vector<double> fused_times, composed_times, ratios;
  for (int i = 0; i < kSteps; ++i) {
    fused_times.push_back(fused.milliseconds());
    composed_times.push_back(composed.milliseconds());
    ratios.push_back(composed_times.back() / fused_times.back());
  }
  return {{"length", c.length},
          {"dtype", c.dtype == DType::f32 ? "f32" : "bf16"},
          {"causal", c.causal},
          {"gradients", c.gradients},
          {"fused_milliseconds", median(fused_times)},
          {"composed_milliseconds", median(composed_times)},
          {"composed_over_fused", median(ratios)},
          {"fused_extra_bytes", fused.extra_bytes()},
          {"composed_extra_bytes", composed.extra_bytes()}};
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::int64_t> lengths;
  plimsoll::benchmarks::CommandLine line(
      "Attention as one kernel each way against its composition.", "attention");
  line.add("LENGTH", lengths, "Queries and keys", {.least = 1, .most = 16384});
  if (const auto status = line.read(argc, argv)) return *status;
  if (lengths.empty()) lengths = {256, 512, 1024};
  nlohmann::ordered_json report = {{"heads", kHeads}, {"depth", kDepth}};
  for (const std::int64_t length : lengths) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const bool causal : {false, true}) {
        for (const bool gradients : {false, true}) {
          report["cases"].push_back(measure({length, dtype, causal, gradients}));
        }
      }
    }
  }
  std::printf("%s\n", report.dump(2).c_str());
  return 0;
}
