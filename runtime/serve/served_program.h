// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/communicator.h"
#include "runtime/ir/host_leaves.h"
#include "runtime/ir/shape.h"
#include "runtime/memory/budget/budget.h"
#include "runtime/planner/planner.h"
#include "runtime/program/program.h"
#include "runtime/serve/shared_plans.h"

namespace plimsoll::executor {

// A program ready for runs by any number of threads: its arrays and its plans. Immutable but for
// the plans, which are thread-safe.
struct ServedProgram {
  // An array of the parameters or results, tuples taken apart depth first.
  struct Leaf {
    ir::Shape shape;
    std::string name;
    std::string sharding;  // how partitions hold the whole array, in HLO's words; empty: not said
  };
  std::string name;  // of the module
  std::vector<Leaf> parameters, results;
  std::shared_ptr<const Program> program;
  planner::PlanPolicy policy;
  planner::Question question;
  std::shared_ptr<memory::Budget> budget;
  std::shared_ptr<SharedPlans> plans;
  // Of a program with several participants of which this process runs one: its way to the others,
  // for one run at a time.
  std::shared_ptr<device::SharedCommunicator> peers;

  // Per parameter that is passed in host memory: whether its buffer is deleted by the run.
  std::vector<bool> donated_on_host;
  // Which host memory the program's header names, by leaf; empty: it names none.
  std::vector<ir::ArrayMemory> parameter_memories, result_memories;

  // How parameter `i` is passed; the same in all plans.
  planner::ParameterResidency residency(std::size_t i) const { return question.parameters[i]; }
  bool is_result_on_host(std::size_t i) const {
    return !question.results_on_host.empty() && question.results_on_host[i];
  }
  ir::ArrayMemory parameter_memory(std::size_t i) const {
    if (residency(i) != planner::ParameterResidency::host) return ir::ArrayMemory::device;
    const bool is_unpinned =
        !parameter_memories.empty() && parameter_memories[i] == ir::ArrayMemory::unpinned_host;
    return is_unpinned ? ir::ArrayMemory::unpinned_host : ir::ArrayMemory::pinned_host;
  }
  ir::ArrayMemory result_memory(std::size_t i) const {
    if (!is_result_on_host(i)) return ir::ArrayMemory::device;
    return result_memories.empty() ? ir::ArrayMemory::pinned_host : result_memories[i];
  }
};

}  // namespace plimsoll::executor
