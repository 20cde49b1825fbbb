// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace plimsoll::testing {

// A user who records, evaluates, reads, keeps and releases tensors in random order, for the thread
// that records in a context: chains x -> tanh(x w), of which any value may be asked for again. Each
// value read must have the bits that it has without a limit.
class EagerSteps {
 public:
  // Works out what is right in a context of its own.
  explicit EagerSteps(std::uint64_t seed);
  EagerSteps(const EagerSteps&) = delete;
  EagerSteps& operator=(const EagerSteps&) = delete;
  ~EagerSteps() { release_all(); }

  enum class Answer : std::uint8_t { right, nothing_read, refused, broken };
  // One step in `context`, always the same. `broken`: message() says how.
  Answer step(plm_context* context);
  const std::string& message() const { return message_; }
  void release_all();

 private:
  static constexpr int kSize = 64, kChains = 3, kLength = 5;

  struct Chain {
    std::vector<float> start;
    std::vector<plm_tensor*> values;           // null: released, or not recorded yet
    std::vector<std::vector<float>> expected;  // of `values`
  };
  Answer fail(const std::string& what);
  Answer record(plm_context* context, Chain& chain, std::size_t at);
  Answer read(Chain& chain, std::size_t at, std::vector<float>& values);

  std::mt19937_64 random_;
  std::vector<Chain> chains_;
  plm_tensor* weights_ = nullptr;
  std::vector<float> weights_host_;
  std::string message_;
};

}  // namespace plimsoll::testing
