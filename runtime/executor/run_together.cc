// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/run_together.h"

#include <fmt/core.h>
#include <mutex>
#include <thread>

#include "collectives/local.h"
#include "collectives/membership.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/participants.h"

namespace plimsoll::executor {

Result<std::vector<ir::Literal>> run_together(
    const Executable& executable, std::span<const std::shared_ptr<memory::Budget>> budgets,
    std::span<const std::vector<ir::Literal>> arguments, const RunOptions& options) {
  const ir::Topology topology = ir::topology_of(*executable.plan().computation->root());
  const std::size_t participants = at(topology.participants());
  if (arguments.size() != participants || budgets.size() != participants) {
    return invalid_argument(fmt::format(
        "running '{}': arguments of {} participants and {} budgets given, the module has {} "
        "replicas x {} partitions",
        executable.plan().computation->name(), arguments.size(), budgets.size(), topology.replicas,
        topology.partitions));
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const auto timeout, collectives::collective_timeout());
  collectives::LocalGroup group(topology.participants(), timeout);
  std::vector<ir::Literal> results(participants);
  std::mutex mutex;  // guards what follows
  Status first;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < participants; ++i) {
    threads.emplace_back([&, i] {
      const auto self = static_cast<std::int64_t>(i);
      RunOptions mine = options;
      mine.communicator = &group.communicator(self);
      mine.waited_seconds = nullptr;  // which is of one run
      Result<ir::Literal> result = run_on_host(executable, *budgets[i], arguments[i], mine);
      Status status = result.status();
      if (result.ok()) {
        results[i] = std::move(result).value();
      } else {
        status = status.with_context(fmt::format("participant {}", i));
        const std::lock_guard lock(mutex);
        if (first.ok()) first = status;
      }
      group.leave(self, status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  PLIMSOLL_RETURN_IF_ERROR(first);
  return results;
}

}  // namespace plimsoll::executor
