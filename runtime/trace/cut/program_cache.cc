// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/cut/program_cache.h"

#include <algorithm>
#include <chrono>

#include "runtime/program/calibration.h"

namespace plimsoll::trace {
namespace {

std::vector<std::int64_t> scalars_of(const Cut& cut) {
  std::vector<std::int64_t> scalars;
  scalars.reserve(cut.constants.size());
  for (const Node* constant : cut.constants) scalars.push_back(constant->words()[0]);
  return scalars;
}

}  // namespace

std::string ProgramCache::explain(const Cut& cut) const {
  if (programs_.empty()) return "first trace";
  const CachedProgram* nearest = nullptr;
  std::size_t longest = 0;
  for (const CachedProgram& program : programs_) {
    const auto end =
        std::mismatch(cut.key.begin(), cut.key.end(), program.key.begin(), program.key.end());
    const auto length = static_cast<std::size_t>(end.first - cut.key.begin());
    if (nearest == nullptr || length > longest) {
      nearest = &program;
      longest = length;
    }
  }
  const auto node_at = [&](const std::vector<std::uint32_t>& starts) {
    return static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), longest) -
                                    starts.begin()) -
           1;
  };
  const std::size_t node = node_at(cut.key_starts);
  const std::size_t body = cut.key_starts.back();
  if (longest <= body || node + 1 < cut.key_starts.size()) {
    std::string text =
        "op " + std::to_string(node) + " is " + describe_key(cut.key, cut.key_starts[node]);
    if (node < nearest->key_starts.size()) {
      const std::string other = describe_key(nearest->key, nearest->key_starts[node]);
      if (describe_key(cut.key, cut.key_starts[node]) == other) {
        return text + " with other operands or attributes than in the nearest cached trace";
      }
      return text + ", was " + other + " in the nearest cached trace";
    }
    return text + ", where the nearest cached trace ends (" +
           std::to_string(nearest->key_starts.size()) + " ops)";
  }
  return "other outputs or inputs than the nearest cached trace of " +
         std::to_string(nearest->key_starts.size()) + " ops";
}

Result<CacheAnswer> ProgramCache::find_or_compile(const Cut& cut,
                                                  std::span<const std::string> names) {
  std::vector<std::int64_t> scalars = scalars_of(cut);
  std::vector<bool> lifted(scalars.size(), false);
  CacheAnswer answer;
  const auto [first, last] = by_hash_.equal_range(cut.hash);
  auto superseded = by_hash_.end();
  for (auto it = first; it != last; ++it) {
    CachedProgram& program = *it->second;
    if (program.key != cut.key) continue;
    std::size_t changed = 0;
    std::int64_t first_changed = -1;
    lifted = program.lifted;
    for (std::size_t i = 0; i < scalars.size(); ++i) {
      if (lifted[i] || scalars[i] == program.scalars[i]) continue;
      lifted[i] = true;
      if (changed++ == 0) first_changed = static_cast<std::int64_t>(i);
    }
    if (changed == 0) {
      programs_.splice(programs_.begin(), programs_, it->second);
      answer.program = &program;
      return answer;
    }
    superseded = it;
    answer.miss_reason = "constant " + std::to_string(first_changed) +
                         (changed > 1 ? " and " + std::to_string(changed - 1) + " more" : "") +
                         " changed: an input of the program from now on";
    break;
  }
  if (answer.miss_reason.empty()) answer.miss_reason = explain(cut);

  const auto start = std::chrono::steady_clock::now();
  PLIMSOLL_ASSIGN_OR_RETURN(
      auto program, executor::Program::create(
                        build_module(cut, lifted, names), provider_, optimize_,
                        calibrate_ ? executor::machine_speeds(provider_) : planner::Roofline()));
  answer.compile_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (superseded != by_hash_.end()) {
    programs_.erase(superseded->second);
    by_hash_.erase(superseded);
  }
  if (programs_.size() >= kMostPrograms) {
    const auto oldest = std::prev(programs_.end());
    const auto [begin, end] = by_hash_.equal_range(oldest->hash);
    by_hash_.erase(std::find_if(begin, end, [&](const auto& row) { return row.second == oldest; }));
    programs_.erase(oldest);
  }
  programs_.push_front({cut.key,
                        cut.key_starts,
                        cut.hash,
                        std::move(scalars),
                        std::move(lifted),
                        program,
                        {},
                        {},
                        nullptr});
  by_hash_.emplace(cut.hash, programs_.begin());
  answer.program = &programs_.front();
  return answer;
}

Result<PlanAnswer> ProgramCache::find_or_plan(
    CachedProgram& program, std::span<const planner::ParameterResidency> residency,
    std::int64_t available, const planner::PlanOptions& planning, double drift,
    const std::shared_ptr<memory::Budget>& budget) {
  const auto fits = [&](const planner::Plan& plan) {
    const auto leaves = [](const planner::Tier& tier, std::int64_t bytes) {
      return tier.bytes == 0 || bytes <= tier.bytes;
    };
    return plan.peak_bytes <= available && leaves(planning.host, plan.host_bytes) &&
           leaves(planning.disk, plan.disk_bytes);
  };
  const CachedPlan* best = nullptr;
  for (const CachedPlan& candidate : program.plans) {
    if (!std::equal(residency.begin(), residency.end(), candidate.residency.begin(),
                    candidate.residency.end())) {
      continue;
    }
    const auto executable = candidate.current->get();
    const planner::Plan& plan = executable->plan();
    if (!fits(plan)) continue;
    // More memory than it was planned for helps only a plan that pays for memory, and a tenth more
    // is not worth planning again.
    const bool free_of_charge = plan.predicted_seconds <= plan.unlimited_seconds;
    if (!free_of_charge && available - candidate.limit_bytes > candidate.limit_bytes / 10) continue;
    if (best == nullptr ||
        plan.predicted_seconds < best->current->get()->plan().predicted_seconds) {
      best = &candidate;
    }
  }
  if (best != nullptr) {
    auto executable = best->current->next();
    // Planned again for what it was first given, which may be more than there is now.
    if (fits(executable->plan())) {
      return PlanAnswer{std::move(executable), best->current, false, best->current->replans()};
    }
  }
  planner::PlanOptions options = planning;
  options.limit_bytes = available;
  options.parameters.assign(residency.begin(), residency.end());
  PLIMSOLL_ASSIGN_OR_RETURN(
      auto current, executor::CurrentExecutable::create(program.program, options, budget, drift));
  if (program.plans.size() >= kMostPlans) program.plans.erase(program.plans.begin());
  program.plans.push_back({options.parameters, available, current});
  return PlanAnswer{current->get(), current, true, 0};
}

}  // namespace plimsoll::trace
