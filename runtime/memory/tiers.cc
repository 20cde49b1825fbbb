// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/tiers.h"

#include <limits>
#include <string>

#include "runtime/base/environment.h"

namespace plimsoll::memory {

Result<Tiers> tiers_from_environment(const std::shared_ptr<device::Device>& device) {
  Tiers tiers;
  PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t host, size_variable(Variable::host_limit, 0));
  if (host > 0) tiers.host = HostTier::create(device, host);
  const std::string folder = variable_text(Variable::spill_dir).text;
  if (folder.empty()) return tiers;
  PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t disk, size_variable(Variable::spill_limit, 0));
  auto file = SpillFile::create(folder, disk, device);
  if (!file.ok()) {
    return file.status().with_context(variable_info(Variable::spill_dir).name);
  }
  tiers.disk = std::move(file).value();
  return tiers;
}

Result<LinkSpeed> measure_host_link(const std::shared_ptr<device::Device>& device) {
  return HostTier::create(device, std::numeric_limits<std::int64_t>::max())->measure();
}

Result<LinkSpeed> measure_spill(const std::shared_ptr<device::Device>& device,
                                const std::string& folder) {
  PLIMSOLL_ASSIGN_OR_RETURN(const auto file, SpillFile::create(folder, 0, device));
  return file->measure();
}

}  // namespace plimsoll::memory
