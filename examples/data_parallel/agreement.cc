// SPDX-License-Identifier: Apache-2.0
#include "examples/data_parallel/agreement.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>

#include "runtime/base/checksum.h"

namespace plimsoll::examples {
namespace {

// A value takes so many bytes on its way to the others; of one that is longer its end is not seen.
constexpr std::size_t kWidth = 64;

// Of the pixels and labels, or of the text.
std::string checksum_of(const ParallelData& data) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(data.images.pixels)));
  sum.add(std::as_bytes(std::span(data.images.labels)));
  sum.add(std::as_bytes(std::span(data.text)));
  char text[32];
  std::snprintf(text, sizeof text, "of checksum %016llx",
                static_cast<unsigned long long>(sum.value()));
  return text;
}

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

const char* word(Sharding sharding) {
  switch (sharding) {
    case Sharding::none:
      return "none";
    case Sharding::optimizer:
      return "optimizer";
    case Sharding::gradients:
      return "gradients";
    case Sharding::parameters:
      break;
  }
  return "parameters";
}

}  // namespace

std::vector<AgreedOption> agreed_options(const ParallelOptions& options, const ParallelData& data) {
  const bool is_gpt = options.model == "gpt";
  std::vector<AgreedOption> all = {
      {"--model", options.model},
      {"--batch", std::to_string(options.batch)},
      {"--seed", std::to_string(options.seed)},
      {"--steps", std::to_string(options.steps)},
      {"--optimizer", options.optimizer},
      {"--learning-rate", short_text(options.learning_rate)},
      {"--bucket", std::to_string(options.bucket_bytes)},
      {"--shard", word(options.sharding)},
  };
  const auto add_of_model = [&](const char* name, bool is_read, const std::string& value) {
    all.push_back({name, is_read ? value : "not read"});
  };
  const bool by_batch = options.network.normalization == Normalization::batch;
  add_of_model("--normalization", !is_gpt, by_batch ? "batch" : "channel");
  add_of_model("--blocks", !is_gpt, std::to_string(options.network.blocks_per_stage));
  add_of_model("--context", is_gpt, std::to_string(options.language.context));
  add_of_model("--width", is_gpt, std::to_string(options.language.width));
  add_of_model("--heads", is_gpt, std::to_string(options.language.heads));
  add_of_model("--layers", is_gpt, std::to_string(options.language.layers));
  all.push_back({is_gpt ? "--text" : "--data", checksum_of(data)});
  return all;
}

void agree(const std::vector<AgreedOption>& options, std::int64_t participants) {
  if (participants == 1) return;
  std::vector<std::uint8_t> own(options.size() * kWidth, 0);
  for (std::size_t i = 0; i < options.size(); ++i) {
    options[i].value.copy(reinterpret_cast<char*>(own.data() + i * kWidth), kWidth);
  }
  const std::vector<std::uint8_t> all =
      all_gather(Tensor::from_host(own, {1, std::ssize(own)})).to_vector<std::uint8_t>();
  const auto value = [&](std::size_t participant, std::size_t option) {
    const char* const text =
        reinterpret_cast<const char*>(all.data()) + participant * own.size() + option * kWidth;
    return std::string(text, ::strnlen(text, kWidth));
  };
  for (std::size_t i = 0; i < options.size(); ++i) {
    for (std::size_t other = 1; other < static_cast<std::size_t>(participants); ++other) {
      if (value(other, i) == value(0, i)) continue;
      throw Error(ErrorCode::invalid_argument,
                  options[i].name + ": " + value(other, i) + " at rank " + std::to_string(other) +
                      ", " + value(0, i) +
                      " at rank 0; all participants train one network on one sequence of batches "
                      "(start all with the same options)");
    }
  }
}

}  // namespace plimsoll::examples
