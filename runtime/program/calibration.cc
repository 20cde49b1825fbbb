// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/calibration.h"

#include <functional>
#include <map>
#include <mutex>
#include <span>

#include "runtime/base/cache_folder.h"
#include "runtime/base/fork.h"
#include "runtime/base/log.h"
#include "runtime/base/sha256.h"
#include "runtime/planner/cost/calibration.h"

namespace plimsoll::executor {

Result<planner::Roofline> load_or_measure(const std::string& folder,
                                          device::KernelProvider& provider) {
  const std::string machine = provider.device()->properties().model;
  const std::string name =
      "calibration-" +
      sha256(std::as_bytes(std::span(machine.data(), machine.size()))).substr(0, 16);
  const auto cache = CacheFolder::open(folder, true);
  if (cache.ok()) {
    const auto text = cache->read(name);
    if (text.ok()) {
      if (const auto known = planner::parse_calibration(*text, machine)) return *known;
    }
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const planner::Roofline measured, measure_machine(provider));
  const Status kept = cache.ok() ? cache->write(name, planner::calibration_text(measured, machine))
                                 : cache.status();
  if (!kept.ok() && !folder.empty() && logs(LogLevel::debug)) {
    log_line(LogLevel::debug, "the calibration is not kept: " + kept.message());
  }
  return measured;
}

void set_link_speeds(const memory::Tiers& tiers, const planner::Roofline& machine) {
  const bool is_table = machine == planner::Roofline();
  const memory::LinkSpeed link{machine.link_out_bytes_per_second, machine.link_in_bytes_per_second,
                               machine.link_latency_seconds, machine.link_compute_share};
  for (const MemorySpace tier : kTiers) {
    const bool is_known = tier == MemorySpace::host || is_table;
    if (tiers[tier] != nullptr && is_known) tiers[tier]->set_speed(link);
  }
}

planner::Roofline machine_speeds(device::KernelProvider& provider) {
  static auto* const mutex = new ProcessMutex;
  static auto* const speeds = new std::map<std::string, planner::Roofline, std::less<>>;
  const std::lock_guard lock(*mutex);
  const auto [it, is_new] =
      speeds->try_emplace(std::string(provider.device()->name()), planner::Roofline());
  if (is_new) {
    const auto found = load_or_measure(user_cache_folder(), provider);
    if (!found.ok()) log_line(LogLevel::warning, "calibration: " + found.status().message());
    if (found.ok()) it->second = *found;
  }
  return it->second;
}

}  // namespace plimsoll::executor
