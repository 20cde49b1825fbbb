// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/eviction/replay.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "benchmarks/eviction/published_evictor.h"
#include "benchmarks/eviction/range_evictor.h"
#include "runtime/memory/evictor/evictor.h"
#include "runtime/memory/evictor/lineage.h"

namespace plimsoll::eviction_benchmark {

using import::RecordedLog;
using memory::Heuristic;
using memory::Lineage;

namespace {

constexpr std::string_view kDefault = "default", kContiguous = "contiguous",
                           kScattered = "scattered";
constexpr double kNanosecond = 1e-9;

Result<std::unique_ptr<memory::OnlineEvictor>> make_evictor(Lineage& lineage, std::int64_t limit,
                                                            std::string_view policy) {
  std::unique_ptr<memory::OnlineEvictor> evictor;
  using Holes = memory::RangeEvictor::Holes;
  if (policy == kDefault) {
    evictor = std::make_unique<memory::Evictor>(lineage, limit);
  } else if (policy == kContiguous || policy == kScattered) {
    evictor = std::make_unique<memory::RangeEvictor>(
        lineage, limit, policy == kContiguous ? Holes::windows : Holes::scattered);
  } else if (const auto heuristic = memory::parse_heuristic(policy)) {
    evictor = std::make_unique<memory::PublishedEvictor>(lineage, limit, *heuristic);
  } else {
    std::string names;
    for (const std::string_view name : policy_names()) {
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    return invalid_argument("policy '" + std::string(policy) + "' is none of " + names);
  }
  return evictor;
}

// Tensors of the log are numbered like those of the lineage: both count outputs of calls.
Status run_events(const RecordedLog& log, Lineage& lineage, memory::OnlineEvictor& evictor) {
  std::vector<Lineage::Output> outputs;
  for (const RecordedLog::Event& event : log.events) {
    switch (event.act) {
      case RecordedLog::Act::call: {
        const RecordedLog::Call& call = log.calls[static_cast<std::size_t>(event.index)];
        outputs.clear();
        for (const RecordedLog::Output& output : call.outputs) {
          outputs.push_back({output.bytes, output.view_of});
        }
        PLIMSOLL_RETURN_IF_ERROR(evictor.run(lineage.add(
            static_cast<double>(call.nanoseconds) * kNanosecond, call.arguments, outputs)));
        break;
      }
      case RecordedLog::Act::retain:
        lineage.retain(event.index);
        break;
      case RecordedLog::Act::release:
        evictor.release(event.index);
        break;
      case RecordedLog::Act::pin:
        PLIMSOLL_RETURN_IF_ERROR(evictor.restore(event.index));
        evictor.pin(event.index);
        break;
    }
  }
  return ok_status();
}

}  // namespace

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names{kDefault, kContiguous, kScattered};
  for (const Heuristic heuristic :
       {Heuristic::dtr, Heuristic::dtr_eq, Heuristic::dtr_local, Heuristic::msps, Heuristic::lru,
        Heuristic::size, Heuristic::random}) {
    names.push_back(memory::to_string(heuristic));
  }
  return names;
}

Result<Replay> replay(const RecordedLog& log, std::int64_t limit_bytes, std::string_view policy,
                      double most_overhead) {
  Lineage lineage;
  PLIMSOLL_ASSIGN_OR_RETURN(const auto evictor, make_evictor(lineage, limit_bytes, policy));
  Replay result;
  result.base_seconds = static_cast<double>(log.nanoseconds) * kNanosecond;
  evictor->set_most_recompute_seconds(most_overhead / 100 * result.base_seconds);
  const auto start = std::chrono::steady_clock::now();
  result.why = run_events(log, lineage, *evictor);
  result.deciding_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.ok = result.why.ok();
  result.total_seconds = lineage.clock();
  result.recompute_seconds = evictor->statistics().recompute_seconds;
  result.peak_bytes = lineage.peak_bytes();
  result.evictions = evictor->statistics().evictions;
  result.recomputes = evictor->statistics().recomputes;
  return result;
}

}  // namespace plimsoll::eviction_benchmark
