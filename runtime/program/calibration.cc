// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/calibration.h"

#include <fstream>
#include <mutex>
#include <optional>
#include <span>

#include "runtime/base/cache_folder.h"
#include "runtime/base/log.h"
#include "runtime/base/sha256.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/planner/cost/calibration.h"

namespace plimsoll::executor {
std::string machine_name() {
  std::string model = "unknown";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      model = line.substr(colon + 2);
      break;
    }
  }
  return model + ", " + std::to_string(device::thread_count()) + " threads";
}

Result<planner::Roofline> load_or_measure(const std::string& folder, jit::Compiler& compiler) {
  const std::string machine = machine_name();
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
  PLIMSOLL_ASSIGN_OR_RETURN(const planner::Roofline measured, measure_machine(compiler));
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

planner::Roofline machine_speeds(jit::Compiler& compiler) {
  static std::mutex mutex;
  static std::optional<planner::Roofline> speeds;
  const std::lock_guard lock(mutex);
  if (!speeds) {
    const auto found = load_or_measure(user_cache_folder(), compiler);
    if (!found.ok()) log_line(LogLevel::warning, "calibration: " + found.status().message());
    speeds = found.ok() ? *found : planner::Roofline();
  }
  return *speeds;
}

}  // namespace plimsoll::executor
