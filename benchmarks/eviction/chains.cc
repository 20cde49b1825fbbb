// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/eviction/chains.h"

#include <chrono>
#include <random>
#include <vector>

#include "runtime/memory/evictor/evictor.h"
#include "runtime/memory/evictor/lineage.h"

namespace plimsoll::eviction_benchmark {

using memory::Evictor;
using memory::Lineage;
using memory::OperationId;
using memory::TensorId;

ChainRun train_chain(int layers, std::int64_t limit_units) {
  Lineage lineage;
  Evictor evictor(lineage, limit_units);
  const Lineage::Output unit[] = {{1, -1}};
  ChainRun result;
  const auto run = [&](std::vector<TensorId> arguments, double seconds) -> TensorId {
    const OperationId id = lineage.add(seconds, arguments, unit);
    return evictor.run(id).ok() ? lineage.operation(id).first_output : -1;
  };
  std::vector<TensorId> activations{run({}, 0)};
  if (activations[0] < 0) return result;
  evictor.pin(activations[0]);
  for (int i = 0; i < layers; ++i) {
    activations.push_back(run({activations.back()}, 1));
    if (activations.back() < 0) return result;
  }
  TensorId gradient = activations.back();
  for (int i = layers; i > 0; --i) {
    const TensorId next = run({gradient, activations[static_cast<std::size_t>(i) - 1]}, 1);
    if (next < 0) return result;
    evictor.release(gradient);
    if (i < layers) evictor.release(activations[static_cast<std::size_t>(i)]);
    gradient = next;
  }
  result.ok = true;
  result.peak_units = lineage.peak_bytes();
  result.operations = 2 * static_cast<std::int64_t>(layers) + evictor.statistics().recomputes;
  return result;
}

DecisionRun decide(int live, int evictions, std::uint32_t seed) {
  std::mt19937 random(seed);
  constexpr std::int64_t kMean = 1 << 20;
  Lineage lineage;
  Evictor evictor(lineage, kMean * live);
  std::vector<TensorId> made;
  const auto add = [&] {
    std::vector<TensorId> arguments;
    for (int i = 0; i < 2 && !made.empty(); ++i) {
      // Read by an operation is what was made lately, as in a program.
      const std::size_t back = random() % std::min<std::size_t>(made.size(), 64);
      arguments.push_back(made[made.size() - 1 - back]);
    }
    const Lineage::Output output[] = {{static_cast<std::int64_t>(random() % (2 * kMean)) + 1, -1}};
    return lineage.add(1e-6 * static_cast<double>(random() % 1000 + 1), arguments, output);
  };
  const auto run = [&] {
    const OperationId id = add();
    if (!evictor.run(id).ok()) return;
    made.push_back(lineage.operation(id).first_output);
  };
  while (evictor.statistics().evictions == 0) run();
  DecisionRun result;
  const std::int64_t before = evictor.statistics().evictions;
  const auto start = std::chrono::steady_clock::now();
  while (evictor.statistics().evictions < before + evictions) run();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.evictions = evictor.statistics().evictions - before;
  return result;
}

}  // namespace plimsoll::eviction_benchmark
