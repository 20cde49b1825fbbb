// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/base/index.h"
#include "runtime/planner/plan_json.h"
#include "runtime/trace/context/context.h"

namespace plimsoll::trace {
namespace {

using Json = nlohmann::ordered_json;
using planner::limit_json;

Json uses_json(const std::array<std::int64_t, memory::kUseCount>& bytes) {
  Json uses;
  for (int use = 0; use < memory::kUseCount; ++use) {
    uses[std::string(memory::to_string(static_cast<memory::Use>(use)))] = bytes[at(use)];
  }
  return uses;
}

Json memory_json(const Context& context) {
  const memory::Statistics now = context.budget()->statistics();
  const executor::CodeBytes code = context.compiler()->code_bytes();
  return {{"used_bytes", now.used_bytes},
          {"peak_bytes", now.peak_bytes},
          {"used", uses_json(now.used_by_use)},
          {"peak", uses_json(now.peak_by_use)},
          {"code_bytes", code.now},
          {"peak_code_bytes", code.peak}};
}

Json evictions_json(const Context& context) {
  const memory::EvictionStatistics& evictions = context.evictions();
  const StoredBytes stored = context.stored_bytes();
  return {{"evicted", evictions.evictions},     {"stored", evictions.stores},
          {"stored_bytes", stored.given},       {"tier_bytes", stored.taken},
          {"encoded", evictions.encodes},       {"loaded", evictions.loads},
          {"recomputed", evictions.recomputes}, {"recompute_seconds", evictions.recompute_seconds}};
}

Json kernels_json(const executor::Executable& executable) {
  Json kernels = Json::array();
  for (const executor::ProfileEntry& entry : executable.profile()) {
    if (entry.launches == 0) continue;
    kernels.push_back({{"name", entry.name},
                       {"origin", std::string(device::to_string(entry.origin))},
                       {"launches", entry.launches},
                       {"recomputes", entry.recomputes},
                       {"seconds", entry.seconds},
                       {"transfer_seconds", entry.transfer_seconds},
                       {"bytes", entry.bytes}});
  }
  return kernels;
}

void add_plan(Json& report, const planner::Plan& plan) {
  report.update(planner::plan_json(plan));
  report["by_cause"] = report["peak_by_cause"];  // the name it had first
}

// Names come from programs, in any bytes.
std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string plan_report_json(const planner::Plan& plan, std::int64_t limit_bytes) {
  Json report{{"limit_bytes", limit_json(limit_bytes)}};
  add_plan(report, plan);
  return text_of(report);
}

std::string report_json(const Context& context) {
  const CutReport& cut = context.last_cut();
  Json report{{"limit_bytes", limit_json(cut.limit_bytes)},
              {"available_bytes", limit_json(cut.available_bytes)}};
  if (cut.floor_bytes > 0) report["floor_bytes"] = cut.floor_bytes;
  if (cut.executable != nullptr) {
    const executor::LaunchCounts launches = cut.executable->launches();
    add_plan(report, cut.executable->plan());
    report["launched_kernels"] = launches.kernels;
    report["launches"] = launches.launches;
    report["graph_runs"] = cut.executable->graph_runs();
  }
  if (cut.current != nullptr) {
    const auto expected = cut.current->expectation();
    report["expected_seconds"] = expected.seconds;
    report["expected_unlimited_seconds"] = expected.unlimited_seconds;
    report["trials"] = cut.current->trials();
    report["is_planning"] = cut.current->is_planning();
    report["is_trying"] = cut.current->is_trying();
  }
  report["compile_seconds"] = cut.compile_seconds;
  report["step_seconds"] = cut.seconds == nullptr ? 0.0 : cut.seconds->load();
  report["ops"] = cut.operations;
  report["parameters"] = cut.parameters;
  report["outputs"] = cut.outputs;
  report["replans"] = cut.replans;
  report["cache"] = cut.hit ? "hit" : "miss";
  if (!cut.hit) report["miss_reason"] = cut.miss_reason;
  report["cuts"] = context.counts().cuts;
  report["cache_hits"] = context.counts().hits;
  report["cache_misses"] = context.counts().misses;
  report["memory"] = memory_json(context);
  report["segments"] = cut.segments;
  report["evictions"] = evictions_json(context);
  if (context.profiling() && cut.executable != nullptr) {
    report["kernels"] = kernels_json(*cut.executable);
  }
  return text_of(report);
}

}  // namespace plimsoll::trace
