// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/kernel_provider.h"
#include "runtime/executor/executable.h"
#include "runtime/program/program.h"
#include "runtime/residency/encoded_form.h"
#include "runtime/serve/current_executable.h"
#include "runtime/trace/cut/cut.h"

namespace plimsoll::trace {

// A plan made for one arrangement of parameters and one amount of memory.
struct CachedPlan {
  std::vector<planner::ParameterResidency> residency;
  std::int64_t limit_bytes = 0;
  std::shared_ptr<executor::CurrentExecutable> current;
};

struct CachedProgram {
  std::vector<std::int64_t> key;
  std::vector<std::uint32_t> key_starts;
  std::uint64_t hash = 0;
  std::vector<std::int64_t> scalars;  // bits of Cut::constants as compiled
  std::vector<bool> lifted;           // per constant: an input of the program
  std::shared_ptr<const executor::Program> program;
  std::vector<CachedPlan> plans;  // most recent last
  // With vertical fusion and without any, made when they are first needed (segments.h).
  std::array<std::shared_ptr<struct Segments>, 2> segments;
  // Of what the program makes; null until they are first needed.
  std::shared_ptr<const EncodedForms> forms;
};

struct CacheAnswer {
  CachedProgram* program = nullptr;  // valid until the next look-up
  std::string miss_reason;           // empty for a hit
  double compile_seconds = 0;
};

struct PlanAnswer {
  std::shared_ptr<const executor::Executable> executable;
  std::shared_ptr<const executor::CurrentExecutable> current;  // where it comes from
  bool planned = false;                                        // a new plan was made
  std::int64_t replans = 0;  // made for this plan's sake since it was first made
};

// Compiled traces by structure. A constant that differs between two traces of equal structure is
// lifted: the program is compiled once more with that constant as an input. Keeps the most recently
// used programs. Not thread-safe.
class ProgramCache {
 public:
  // `calibrate`: programs are planned by this machine's speeds (executor/calibration.h).
  ProgramCache(device::KernelProvider& provider, bool optimize, bool calibrate)
      : provider_(provider), optimize_(optimize), calibrate_(calibrate) {}

  Result<CacheAnswer> find_or_compile(const Cut& cut, std::span<const std::string> names);

  // A plan of `program` for parameters placed so and `available` bytes: a cached one whose peak
  // fits and that is not slower than what more memory would give, else a new one. `planning` says
  // all but the limit and the residency. A plan whose measured times have drifted by more than
  // `drift` from what it was made by is made again here, between two steps.
  Result<PlanAnswer> find_or_plan(CachedProgram& program,
                                  std::span<const planner::ParameterResidency> residency,
                                  std::int64_t available, const planner::PlanOptions& planning,
                                  double drift, const std::shared_ptr<memory::Budget>& budget);

 private:
  std::string explain(const Cut& cut) const;

  static constexpr std::size_t kMostPrograms = 256;
  static constexpr std::size_t kMostPlans = 8;

  device::KernelProvider& provider_;
  const bool optimize_;
  const bool calibrate_;
  std::list<CachedProgram> programs_;  // most recently used first
  std::unordered_multimap<std::uint64_t, std::list<CachedProgram>::iterator> by_hash_;
};

}  // namespace plimsoll::trace
