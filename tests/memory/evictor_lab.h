// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "runtime/memory/evictor/evictor.h"

namespace plimsoll::memory {

// Keeps its own books of what is there, by what the evictor says alone.
class Device : public EvictionSink {
 public:
  Device(const Lineage& lineage, std::int64_t limit) : lineage_(lineage), limit_(limit) {}
  void drop(StorageId id) override {
    EXPECT_EQ(there_.erase(id), 1u) << "dropped what was not there: " << id;
    used_ -= lineage_.storage(id).bytes;
  }
  void recompute(OperationId id) override { ran(id); }
  void ran(OperationId id) {
    const Lineage::Operation& operation = lineage_.operation(id);
    for (const TensorId argument : operation.arguments) {
      EXPECT_EQ(there_.count(lineage_.tensor(argument).storage), 1u)
          << "operation " << id << " reads what was evicted";
    }
    EXPECT_LE(used_ + operation.bytes, limit_);
    for (std::int32_t i = 0; i < operation.output_count; ++i) {
      const Lineage::Tensor& output = lineage_.tensor(operation.first_output + i);
      if (there_.insert(output.storage).second) used_ += lineage_.storage(output.storage).bytes;
    }
  }
  bool has(StorageId id) const { return there_.count(id) > 0; }
  std::int64_t used() const { return used_; }

 private:
  const Lineage& lineage_;
  const std::int64_t limit_;
  std::set<StorageId> there_;
  std::int64_t used_ = 0;
};

inline TensorId add_run(Lineage& lineage, OnlineEvictor& evictor, double seconds,
                        std::vector<TensorId> arguments, std::int64_t bytes) {
  const Lineage::Output output[] = {{bytes, -1}};
  const OperationId id = lineage.add(seconds, arguments, output);
  const Status status = evictor.run(id);
  EXPECT_TRUE(status.ok()) << status.message();
  return lineage.operation(id).first_output;
}

// A random program: operations of up to three arguments, views, several outputs, releases.
struct RandomProgram {
  explicit RandomProgram(std::uint32_t seed) : random(seed) {}
  std::mt19937 random;
  std::vector<TensorId> held;

  OperationId add(Lineage& lineage) {
    std::vector<TensorId> arguments;
    for (std::uint32_t i = random() % 4; i > 0 && !held.empty(); --i) {
      arguments.push_back(
          held[held.size() - 1 - random() % std::min<std::size_t>(held.size(), 12)]);
    }
    std::vector<Lineage::Output> outputs;
    for (std::uint32_t i = random() % 2 + 1; i > 0; --i) {
      const bool view = !arguments.empty() && random() % 5 == 0;
      outputs.push_back({view ? 0 : static_cast<std::int64_t>(random() % 100),
                         view ? static_cast<std::int32_t>(random() % arguments.size()) : -1});
    }
    const OperationId id = lineage.add(1e-3 * (random() % 100), arguments, outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      held.push_back(lineage.operation(id).first_output + static_cast<TensorId>(i));
    }
    return id;
  }
  // What the operation should have made is not wanted any more.
  void take_back(OperationId id, const Lineage& lineage, OnlineEvictor& evictor) {
    for (std::int32_t i = 0; i < lineage.operation(id).output_count; ++i) {
      evictor.release(held.back());
      held.pop_back();
    }
  }
  void release_some(OnlineEvictor& evictor) {
    if (held.size() <= 20) return;
    const std::size_t which = random() % 8;
    evictor.release(held[which]);
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
  }
};

}  // namespace plimsoll::memory
