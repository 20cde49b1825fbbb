// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll::examples::serve {

// Several requests in one run of a program whose inputs and outputs have so many rows.
struct BatchConfig {
  std::int64_t rows = 0;                    // of the program's leading dim
  std::int64_t window_microseconds = 1000;  // how long a request waits for others to join it
  std::vector<std::string> whole;           // inputs without rows, equal for all who share a run
  bool check_rows = true;  // when loading: that no row depends on its place and its neighbours
};

// A model's `config.json`, beside its versions. docs/serving.md has the keys.
struct ModelConfig {
  std::string memory_limit;                   // of one run, as people write it; empty: the server's
  std::int64_t queue = 64;                    // requests that run or wait at once; more are refused
  std::int64_t timeout_milliseconds = 30000;  // waiting and running together
  std::vector<std::int64_t> versions;         // to serve; none: the highest
  std::vector<std::string> inputs, outputs;   // names, in the program's order; none: the program's
  // Of inputs whose sizes a model in ONNX leaves open.
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::optional<BatchConfig> batching;
};

// Throws std::runtime_error, which names the key, for what is no such object. Keys that are not
// known are errors.
ModelConfig parse_model_config(const std::string& text);
// Defaults where there is no such file.
ModelConfig read_model_config(const std::string& path);

}  // namespace plimsoll::examples::serve
