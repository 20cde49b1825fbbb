// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/plan_json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/ir/codec/codec.h"
#include "runtime/planner/plan_summary.h"

namespace plimsoll::planner {
namespace {

using Json = nlohmann::ordered_json;

Json lossy_json(const Plan& plan) {
  Json list = Json::array();
  for (const LossyUse& use : lossy_uses(plan)) {
    list.push_back({{"codec", std::string(to_string(use.codec))},
                    {"encodes", use.encodes},
                    {"error_bound", std::string(error_bound(use.codec))}});
  }
  return list;
}

}  // namespace

Json limit_json(std::int64_t limit_bytes) {
  return limit_bytes == kUnlimited ? Json(nullptr) : Json(limit_bytes);
}

Json plan_json(const Plan& plan) {
  const BytesByCause& cause = plan.by_cause;
  const ArenaBytes arena = arena_at_peak(plan);
  const HostBytes on_host = bytes_in_host_memory(plan);
  Json json{{"peak_bytes", plan.peak_bytes},
            {"predicted_seconds", plan.predicted_seconds},
            {"unlimited_seconds", plan.unlimited_seconds},
            {"lower_bound_seconds", plan.lower_bound_seconds},
            {"planning_seconds", plan.planning_seconds},
            {"steps",
             {{"compute", plan.counts.compute},
              {"recompute", plan.counts.recompute},
              {"encode", plan.counts.encode},
              {"decode", plan.counts.decode},
              {"fused_encode", plan.counts.fused_encode},
              {"fused_decode", plan.counts.fused_decode},
              {"swap_out", plan.counts.swap_out},
              {"swap_in", plan.counts.swap_in},
              {"upload", plan.counts.upload},
              {"collective", plan.counts.collective}}},
            {"lossy", lossy_json(plan)},
            {"policy", plan.policy},
            {"live_bytes", plan.live_bytes},
            {"arena_bytes", plan.arena_bytes}};
  for (const MemorySpace tier : kTiers) {
    json[std::string(tier_info(tier).name) + "_bytes"] = plan.tier_bytes[tier];
  }
  json["recomputed_bytes"] = plan.recomputed_bytes;
  json["peak_by_cause"] = {{"parameters", cause.parameters},
                           {"constants", cause.constants},
                           {"outputs", cause.outputs},
                           {"temporaries", cause.temporaries},
                           {"workspaces", cause.workspaces}};
  json["in_host_memory"] = {{"parameters", on_host.parameters}, {"results", on_host.results}};
  json["arena_at_peak"] = {{"activations", arena.activations},
                           {"workspaces", arena.workspaces},
                           {"encoded", arena.encoded},
                           {"staging", arena.staging}};
  return json;
}

}  // namespace plimsoll::planner
