// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/program_options.h"

#include <string>

#include "runtime/base/environment.h"

namespace plimsoll::executor {

Result<ProgramOptions> program_options_from_environment() {
  ProgramOptions options;
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string attention, choice_variable(Variable::attention));
  options.fused_attention = attention == "fused";
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string excess, choice_variable(Variable::excess_precision));
  options.excess_precision = excess == "1";
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string launches, choice_variable(Variable::launches));
  options.joint_launches = launches == "joint";
  PLIMSOLL_ASSIGN_OR_RETURN(
      options.collective_bucket_bytes,
      size_variable(Variable::collective_bucket, options.collective_bucket_bytes));
  constexpr std::int64_t kUnset = -1;
  PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t overlap,
                            size_variable(Variable::collective_overlap, kUnset));
  if (overlap != kUnset) options.overlap_bytes = overlap;
  return options;
}

std::int64_t overlap_bytes_for(std::int64_t participants_here, std::int64_t processors) {
  constexpr std::int64_t kAlone = std::int64_t{512} << 10, kSharing = std::int64_t{8} << 20;
  return participants_here > processors ? kSharing : kAlone;
}

Result<bool> calibrate_from_environment() {
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string choice, choice_variable(Variable::calibration));
  return choice != "off";
}

}  // namespace plimsoll::executor
