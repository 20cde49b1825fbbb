// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/ladder/lossy_uses.h"

#include <map>

namespace plimsoll::planner {
namespace {

void count(const Plan& plan, std::map<CodecKind, std::int64_t>& counts) {
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::encode && !step.codec.lossless()) ++counts[step.codec.kind];
    for (const auto& callee : step.callees) count(*callee, counts);
  }
}

}  // namespace

std::vector<LossyUse> lossy_uses(const Plan& plan) {
  std::map<CodecKind, std::int64_t> counts;
  if (plan.counts.lossy > 0) count(plan, counts);
  std::vector<LossyUse> uses;
  for (const auto& [codec, encodes] : counts) uses.push_back({codec, encodes});
  return uses;
}

}  // namespace plimsoll::planner
