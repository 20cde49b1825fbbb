// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/tiers.h"

#include <limits>
#include <string>

#include "runtime/base/environment.h"

namespace plimsoll::memory {

Result<TierOptions> tier_options_from_environment() {
  TierOptions options;
  PLIMSOLL_ASSIGN_OR_RETURN(options.host_bytes, size_variable(Variable::host_limit, 0));
  options.spill_folder = variable_text(Variable::spill_dir).text;
  PLIMSOLL_ASSIGN_OR_RETURN(options.spill_bytes, size_variable(Variable::spill_limit, 0));
  return options;
}

Result<Tiers> make_tiers(const TierOptions& options,
                         const std::shared_ptr<device::Device>& device) {
  if (options.spill_bytes > 0 && options.spill_folder.empty()) {
    return invalid_argument(
        "a limit of the spill file needs the file's folder (PLIMSOLL_SPILL_DIR, --spill-dir, "
        "spill_dir)");
  }
  Tiers tiers;
  if (options.host_bytes > 0) tiers.host = HostTier::create(device, options.host_bytes);
  if (!options.spill_folder.empty()) {
    PLIMSOLL_ASSIGN_OR_RETURN(tiers.disk,
                              SpillFile::create(options.spill_folder, options.spill_bytes, device));
  }
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
