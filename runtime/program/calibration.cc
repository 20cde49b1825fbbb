// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/calibration.h"

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "runtime/base/cache_folder.h"
#include "runtime/base/fork.h"
#include "runtime/base/log.h"
#include "runtime/base/sha256.h"
#include "runtime/planner/cost/calibration.h"

namespace plimsoll::executor {

namespace {

std::string machine_of(const device::KernelProvider& provider) {
  return provider.device()->properties().model;
}

std::string file_name(const std::string& machine) {
  return "calibration-" +
         sha256(std::as_bytes(std::span(machine.data(), machine.size()))).substr(0, 16);
}

}  // namespace

Result<planner::Roofline> load_or_measure(const std::string& folder,
                                          device::KernelProvider& provider) {
  constexpr std::int64_t kMostMeasurements = 5;
  const std::string machine = machine_of(provider), name = file_name(machine);
  const auto cache = CacheFolder::open(folder, true);
  std::optional<planner::Calibration> kept;
  if (cache.ok()) {
    const auto text = cache->read(name);
    if (text.ok()) kept = planner::parse_calibration(*text, machine);
  }
  if (kept && kept->is_settled) return kept->speeds;
  PLIMSOLL_ASSIGN_OR_RETURN(const planner::Roofline measured, measure_machine(provider));
  planner::Calibration best{measured, 1, false};
  if (kept) {
    best.speeds = planner::faster_of(kept->speeds, measured);
    best.measurements = kept->measurements + 1;
    best.is_settled =
        planner::agree(kept->speeds, measured) || best.measurements >= kMostMeasurements;
  }
  const Status written =
      cache.ok() ? cache->write(name, planner::calibration_text(best, machine)) : cache.status();
  if (!written.ok() && !folder.empty() && logs(LogLevel::debug)) {
    log_line(LogLevel::debug, "the calibration is not kept: " + written.message());
  }
  return best.speeds;
}

void doubt_calibration(const std::string& folder, const device::KernelProvider& provider) {
  constexpr double kHour = 3600;
  const auto cache = CacheFolder::open(folder, false);
  if (!cache.ok()) return;
  const std::string machine = machine_of(provider), name = file_name(machine);
  for (const CacheFolder::File& file : cache->files()) {
    if (file.name != name || file.age_seconds <= kHour) continue;
    const auto text = cache->read(name);
    const auto kept = text.ok() ? planner::parse_calibration(*text, machine) : std::nullopt;
    // What was measured is a bound from below: the next measurements can only be faster than it.
    const Status written =
        kept ? cache->write(name, planner::calibration_text({kept->speeds, 1, false}, machine))
             : ok_status();
    if (!written.ok() && logs(LogLevel::debug)) {
      log_line(LogLevel::debug, "the calibration stays settled: " + written.message());
    }
  }
}

// About half of what one of the data centre was measured at: contractions and a stream through its
// memory, codecs in elements, its link.
planner::Roofline built_in_speeds(const device::Device& device) {
  planner::Roofline speeds;
  const device::Properties properties = device.properties();
  if (!properties.has_launch_costs) return speeds;
  constexpr double kContractions = 20e12, kElements = 200e9, kLink = 25e9;
  speeds.contraction_flops_per_second = kContractions;
  speeds.convolution_flops_per_second = kContractions;
  speeds.other_flops_per_second = kContractions / 4;
  speeds.random_flops_per_second = kContractions / 4;
  speeds.bytes_per_second = properties.kernel_speeds.bytes_per_second;
  speeds.launch_seconds = properties.kernel_speeds.launch_seconds;
  speeds.codecs.fill({kElements, kElements});
  speeds.link_out_bytes_per_second = speeds.link_in_bytes_per_second = kLink;
  speeds.link_compute_share = 0.05;
  return speeds;
}

void set_link_speeds(const memory::Tiers& tiers, const planner::Roofline& machine) {
  const memory::LinkSpeed link{machine.link_out_bytes_per_second,
                               machine.link_in_bytes_per_second,
                               machine.link_latency_seconds,
                               machine.link_compute_share,
                               machine.link_synchronous_out_bytes_per_second,
                               machine.link_synchronous_in_bytes_per_second};
  for (const MemorySpace tier : kTiers) {
    if (tiers[tier] == nullptr) continue;
    const bool is_table = machine == built_in_speeds(*tiers[tier]->device());
    if (tier == MemorySpace::host || is_table) tiers[tier]->set_speed(link);
  }
}

planner::Roofline machine_speeds(device::KernelProvider& provider) {
  static auto* const mutex = new ProcessMutex;
  static auto* const speeds = new std::map<std::string, planner::Roofline, std::less<>>;
  const std::lock_guard lock(*mutex);
  const auto [it, is_new] = speeds->try_emplace(std::string(provider.device()->name()),
                                                built_in_speeds(*provider.device()));
  if (is_new) {
    const auto found = load_or_measure(user_cache_folder(), provider);
    if (!found.ok()) log_line(LogLevel::warning, "calibration: " + found.status().message());
    if (found.ok()) it->second = *found;
  }
  return it->second;
}

void doubt_machine_speeds(const device::KernelProvider& provider) {
  static std::atomic<bool> is_doubted{false};
  if (!is_doubted.exchange(true)) doubt_calibration(user_cache_folder(), provider);
}

}  // namespace plimsoll::executor
